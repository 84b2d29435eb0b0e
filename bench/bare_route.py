"""The bare limit of HTTP: Starlette routes that decode a struct and answer one, with our server's settings.

`python -m bench.bare_route <port>`
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .sizes import LAST
from .texts import TURN

PATH = "/v1/flows/{flow}/sessions/{session}/turns"
NOW = datetime.now(UTC)


class NewTurn(msgspec.Struct):
    """The body of a request."""

    role: str
    content: str


class Turn(msgspec.Struct):
    """A response as long as one of ours."""

    session: str
    role: str
    content: str
    id: str = "0" * 26
    seq: int = 1000
    created_at: datetime = NOW
    occurred_at: datetime = NOW


_decode = msgspec.json.Decoder(NewTurn).decode
_encode = msgspec.json.Encoder().encode


async def append(request: Request) -> Response:
    turn = _decode(await request.body())
    return _json(Turn(request.path_params["session"], turn.role, turn.content), 201)


async def last(request: Request) -> Response:
    session, limit = request.path_params["session"], int(request.query_params.get("limit", LAST))
    return _json({"turns": [Turn(session, "user", TURN) for _ in range(limit)]}, 200)


def _json(answer: object, status: int) -> Response:
    return Response(_encode(answer), status_code=status, media_type="application/json")


def main() -> None:
    uvicorn.run(
        Starlette(routes=[Route(PATH, append, methods=["POST"]), Route(PATH, last, methods=["GET"])]),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        limit_concurrency=2048,
    )


if __name__ == "__main__":
    main()
