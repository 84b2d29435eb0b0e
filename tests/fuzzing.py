"""A campaign of schemathesis against a server with two tenants: `python -m tests.fuzzing --requests 10000`.

Schemathesis makes requests from the OpenAPI document, valid and invalid ones, alone and in chains, and checks the answers by
it. One tenant sends them, and the other repeats each at once. Texts are marked with their tenant: a mark in an answer to the
other is a leak.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import schemathesis
from schemathesis.config import (
    ChecksConfig,
    CoveragePhaseConfig,
    GenerationConfig,
    PhasesConfig,
    PositiveDataAcceptanceConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
)
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.engine import Status, from_schema
from schemathesis.engine.events import FatalError, NonFatalError, ScenarioFinished
from schemathesis.openapi.checks import RejectedPositiveData

from memwell.core.access import create_key

from .live import Live, live

FIRST, SECOND = "ada", "bob"
MARK = "canary-of-"
TEXTS = frozenset({"content", "text", "title", "description", "reason", "user", "flow"})
"""Fields whose texts get marks, and all texts inside `OBJECTS`."""
OBJECTS = frozenset({"metadata", "value", "values", "memory", "variables", "input", "inputs"})
LONGEST = 60
"""Longer texts get no mark, which might make them too long."""
PATIENCE_S = 0.1
"""No request waits longer for a job or a run."""
FULL = 50_000
"""Requests from which on a campaign has room for every limit of every field, one by one, which takes about 20,000."""
STREAMS = ("events.stream", "runs.stream")
"""Pages that do not end."""


WITHIN_THE_SCHEMA = ("401", "403", "404", "409", "410", "412", "413", "422")
"""Statuses of answers that depend on what is stored, and of limits in bytes."""


@dataclass
class Campaign:
    """The figures of a campaign."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    crashes: Counter[str] = field(default_factory=Counter)
    leaks: Counter[str] = field(default_factory=Counter)
    violations: dict[str, list[str]] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    own: int = 0
    """Answers with the mark of their reader: there is something to leak."""

    refused: int = 0
    """Requests that are valid by their schemas, and were refused for a reason that no schema says."""

    seconds: float = 0.0

    def report(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "seconds": round(self.seconds),
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "refused_by_rules": self.refused,
            "5xx": dict(self.crashes),
            "own_canaries": self.own,
            "foreign_canaries": dict(self.leaks),
            "violations": {name: [len(found), found[0]] for name, found in sorted(self.violations.items())},
            "problems": dict(self.problems),
        }

    def count(self, label: str, reader: str, status: int, text: str) -> None:
        self.requests += 1
        self.statuses[status] += 1
        if status >= 500:
            self.crashes[f"{label} {status} {text[:200]}"] += 1
        self.own += MARK + reader in text
        if MARK + (FIRST if reader == SECOND else SECOND) in text:
            self.leaks[label] += 1


class Tenants:
    """The two tenants, and the repetition of what the first sends by the second."""

    def __init__(self, server: Live, campaign: Campaign) -> None:
        self._server = server
        self._campaign = campaign
        self._client = httpx.Client(base_url=server.url)
        self.keys: dict[str, str] = {}
        for tenant in (FIRST, SECOND):
            server.engine.ensure_tenant(tenant)
            self.renew(tenant)

    def renew(self, tenant: str) -> None:
        """Replace the key of a tenant: a request may have revoked it."""
        engine = self._server.engine
        control, now = engine.store.control, engine.clock.now()
        self.keys[tenant] = create_key(control, tenant, "campaign", "admin", None, None, now)[1]

    def mark(self, case: Any) -> None:
        """Mark the texts of a valid request of the first tenant, and shorten what it waits."""
        if case.meta is not None and not case.meta.generation.mode.is_positive:
            return
        for name in ("body", "path_parameters", "query"):
            value = getattr(case, name)
            if isinstance(value, dict):
                _mark(value)

    def repeat(self, case: Any, response: Any) -> None:
        """Count an answer to the first tenant, and send the same request as the second."""
        label, sent = case.operation.label, response.request
        self._campaign.count(label, FIRST, response.status_code, response.content.decode(errors="replace"))
        authorization = f"Bearer {self.keys[FIRST]}"
        if sent.headers.get("Authorization") != authorization:
            return
        if response.status_code == 401:
            self.renew(FIRST)
            return
        headers = {**sent.headers, "Authorization": f"Bearer {self.keys[SECOND]}"}
        body = sent.body.encode() if isinstance(sent.body, str) else sent.body
        answer = self._client.request(
            sent.method,
            sent.url.replace(MARK + FIRST, MARK + SECOND),
            headers=[(_to_bytes(name), _to_bytes(value)) for name, value in headers.items()],
            content=body.replace(_to_bytes(MARK + FIRST), _to_bytes(MARK + SECOND))
            if isinstance(body, bytes)
            else None,
        )
        self._campaign.count(label, SECOND, answer.status_code, answer.text)
        if answer.status_code == 401:
            self.renew(SECOND)


def _to_bytes(text: str | bytes) -> bytes:
    return text.encode("latin-1") if isinstance(text, str) else text


def _mark(fields: dict[str, Any], *, everything: bool = False) -> None:
    for name, value in fields.items():
        if isinstance(value, str) and (everything or name in TEXTS) and 0 < len(value) <= LONGEST and MARK not in value:
            fields[name] = f"{value}-{MARK}{FIRST}"
        elif name in ("timeout_s", "wait") and type(value) in (int, float):
            fields[name] = min(value, PATIENCE_S)
        elif isinstance(value, dict):
            _mark(value, everything=everything or name in OBJECTS)
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, dict):
                    _mark(one, everything=everything)


def run(store: str, requests: int, seconds: int, seed: int) -> Campaign:
    """Run a campaign until it has sent so many requests or the time is up."""
    campaign, started = Campaign(), time.monotonic()
    with live(store) as server:
        tenants = Tenants(server, campaign)
        for hook in _build_hooks(tenants, campaign):
            schemathesis.hook(hook)
        document = httpx.get(f"{server.url}/openapi.json").json()
        config = _configure(seconds, seed, server.url, requests)
        schema = schemathesis.openapi.from_dict(document, config=config).exclude(operation_id=list(STREAMS))

        @schema.auth(refresh_interval=None, retry_on=[])
        class Bearer:
            def get(self, case: Any, context: Any) -> str:
                return tenants.keys[FIRST]

            def set(self, case: Any, data: str, context: Any) -> None:
                case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}

        events = from_schema(schema).execute()
        for event in events:
            _note(campaign, event)
            if campaign.requests >= requests:
                events.stop()
    campaign.seconds = time.monotonic() - started
    return campaign


def _build_hooks(tenants: Tenants, campaign: Campaign) -> list[Callable[..., Any]]:
    """Functions that schemathesis calls by their names."""

    def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
        tenants.mark(case)

    def after_call(context: Any, case: Any, response: Any) -> None:
        tenants.repeat(case, response)

    def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
        return _is_violation(campaign, failure, response)

    return [before_call, after_call, filter_failure]


def _configure(seconds: int, seed: int, url: str, requests: int) -> SchemathesisConfig:
    acceptance = PositiveDataAcceptanceConfig(expected_statuses=["2xx", *WITHIN_THE_SCHEMA])
    project = ProjectConfig(
        base_url=url,
        continue_on_failure=True,
        request_timeout=60,
        checks=ChecksConfig(positive_data_acceptance=acceptance),
        generation=GenerationConfig(max_examples=max(2, requests // 1000), no_shrink=True),
        phases=PhasesConfig(coverage=CoveragePhaseConfig(enabled=requests >= FULL)),
    )
    return SchemathesisConfig(seed=seed, max_time=seconds, projects=ProjectsConfig(default=project))


_CONVERSION = re.compile(
    r"There is no field|`[^`]+`(: this holds a character| is missing\.| must ([\w ]+, not |(be|have) (at|exactly|more|less) ?))"
)
"""What the server says of requests that are wrong by their types and limits, which their schemas say too."""


def _is_violation(campaign: Campaign, failure: Any, response: Any) -> bool:
    """Tell violations of the document from what no JSON Schema says: that a cursor is of another list, that one of two fields
    is needed. A valid request may be refused for such a reason, but never for the type, the size or the lack of a field."""
    if isinstance(failure, RejectedPositiveData) and response.status_code == 400:
        error = response.json()["error"]
        name_of_file = error["details"].get("field") == "filename"  # in a form or a header
        if error["code"] == "invalid" and (name_of_file or not _CONVERSION.match(error["message"])):
            campaign.refused += 1
            return False
    if isinstance(failure, AcceptedNegativeData):  # a form leaves out what the schema of JSON would refuse as null
        return not response.request.headers.get("Content-Type", "").startswith("multipart/form-data")
    return True


def _note(campaign: Campaign, event: Any) -> None:
    """Note the failed checks of an event of schemathesis, and what kept it from working."""
    if isinstance(event, NonFatalError):
        campaign.problems[f"{event.label}: {str(event.value)[:300]}"] += 1
    elif isinstance(event, FatalError):
        campaign.problems[f"fatal: {event.exception!r}"] += 1
    elif isinstance(event, ScenarioFinished):
        for case_id, checks in event.recorder.checks.items():
            for check in checks:
                if check.status == Status.FAILURE and check.failure_info is not None:
                    failure = check.failure_info.failure
                    label = event.recorder.cases[case_id].value.operation.label
                    answer = event.recorder.find_response(case_id=case_id)
                    said = answer.content.decode(errors="replace")[:400] if answer is not None else ""
                    shown = f"{failure.message[:400]} {said} {check.failure_info.code_sample[:600]}"
                    campaign.violations.setdefault(f"{check.name}: {label}: {failure.title}", []).append(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=6 * 3600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", help="A directory or the address of a database; otherwise a temporary directory.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        campaign = run(given.store or folder, given.requests, given.seconds, given.seed)
    json.dump(campaign.report(), sys.stdout, indent=1)
    failed = campaign.crashes or campaign.leaks or campaign.violations or campaign.problems
    sys.exit(1 if failed or campaign.requests < given.requests else 0)


if __name__ == "__main__":
    main()
