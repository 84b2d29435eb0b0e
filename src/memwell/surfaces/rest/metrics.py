"""Counters for Prometheus. They name operations and statuses, never tenants or what was said."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Kept by the event loop alone, so nothing here needs a lock."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))

    def record(self, operation: str, status: int, seconds: float) -> None:
        place = bisect_left(BUCKETS, seconds)
        self._requests[operation, status] += 1
        self._seconds[operation] += seconds
        self._buckets[operation][place] += 1

    def render(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        lines = [
            "# HELP memwell_requests_total Requests by operation and status.",
            "# TYPE memwell_requests_total counter",
            *(
                f'memwell_requests_total{{operation="{name}",status="{status}"}} {count}'
                for (name, status), count in sorted(self._requests.items())
            ),
            "# HELP memwell_request_seconds How long requests took.",
            "# TYPE memwell_request_seconds histogram",
        ]
        for name in sorted(self._buckets):
            lines += self._histogram(name)
        for name, (text, value) in gauges.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str) -> list[str]:
        lines, total = [], 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._buckets[name], strict=True):
            total += count
            lines.append(f'memwell_request_seconds_bucket{{operation="{name}",le="{bound}"}} {total}')
        lines.append(f'memwell_request_seconds_sum{{operation="{name}"}} {self._seconds[name]:.6f}')
        lines.append(f'memwell_request_seconds_count{{operation="{name}"}} {total}')
        return lines
