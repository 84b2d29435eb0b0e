"""What node code is given: `ax.agent.memory`, and nothing else that remembers.

No method here takes a tenant or a flow. The parent stamps both on every call, from who runs the flow now.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import msgspec

from .. import typed
from ..core.turns import Turn, Turns
from ..errors import NodeFailed, from_code
from ..facts.memories import Memory
from ..facts.search import Hits
from ..timelines.flows import Ended
from .gateway import HEAD, Ask, Tell, decode_from_parent, frame

T = TypeVar("T")


class Link:
    """The node's end of the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = 0
        self._pending: dict[int, asyncio.Future[Tell]] = {}

    async def ask(self, operation: str, data: dict[str, Any], kind: type[T]) -> T:
        self._numbers += 1
        answer: asyncio.Future[Tell] = asyncio.get_running_loop().create_future()
        self._pending[self._numbers] = answer
        self._writer.write(frame(Ask(self._numbers, operation, data)))
        await self._writer.drain()
        told = await answer
        if told.error is not None:
            raise from_code(told.error["code"], told.error["message"], told.error["details"])
        return typed.decode(told.result, kind)

    async def listen(self) -> None:
        """Hand answers to whoever asked, until the parent is gone."""
        try:
            while True:
                message = decode_from_parent(await self.read())
                if isinstance(message, Tell) and message.number in self._pending:
                    self._pending.pop(message.number).set_result(message)
        except (asyncio.IncompleteReadError, msgspec.DecodeError) as error:
            for answer in self._pending.values():
                answer.set_exception(NodeFailed(f"The process that runs this node is gone: {error}."))

    async def read(self) -> bytes:
        (length,) = HEAD.unpack(await self._reader.readexactly(HEAD.size))
        return await self._reader.readexactly(length)

    async def send(self, message: msgspec.Struct) -> None:
        self._writer.write(frame(message))
        await self._writer.drain()


class NodeHistory:
    """The turns of a session."""

    def __init__(self, link: Link, session: str) -> None:
        self._link = link
        self._session = session

    async def append(self, *, role: str, content: str, **more: Any) -> Turn:
        """Record a turn; the first one creates the session."""
        data = {"session": self._session, "role": role, "content": content, **more}
        return await self._link.ask("flows.append", data, Turn)

    async def last(self, n: int = 20) -> list[Turn]:
        """The most recent n turns, the oldest of them first."""
        return (await self._link.ask("flows.last", {"session": self._session, "limit": n}, Turns)).turns


class NodeSession:
    """One conversation of the flow."""

    def __init__(self, link: Link, session: str) -> None:
        self._link = link
        self.id = session
        self.history = NodeHistory(link, session)

    async def write(self, content: str, importance: float = 0.5) -> str:
        """Remember a statement for this session and return its id."""
        data = {"session": self.id, "content": content, "importance": importance}
        return (await self._link.ask("flows.write", data, Memory)).id

    async def search(self, query: str, limit: int = 5, **conditions: Any) -> Hits:
        """What fits best of what was written for this session and of what the flow knows."""
        data = {"session": self.id, "query": query, "limit": limit, **conditions}
        return await self._link.ask("flows.search", data, Hits)

    async def end(self) -> None:
        """Close the session and have it distilled."""
        await self._link.ask("flows.end", {"session": self.id}, Ended)


class NodeMemory:
    """The memory of the flow that is running now."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def session(self, session_id: str) -> NodeSession:
        return NodeSession(self._link, session_id)

    async def search(self, query: str, limit: int = 5, **conditions: Any) -> Hits:
        """What the flow knows that fits best, the best first."""
        return await self._link.ask("flows.search", {"query": query, "limit": limit, **conditions}, Hits)

    async def write(self, content: str, importance: float = 0.5) -> str:
        """Remember a statement for the flow and return its id."""
        return (await self._link.ask("flows.write", {"content": content, "importance": importance}, Memory)).id


class Agent:
    """What an agent is given beside its input."""

    def __init__(self, link: Link) -> None:
        self.memory = NodeMemory(link)


class NodeContext:
    """`ax`: the one argument through which a node reaches anything."""

    def __init__(self, link: Link, execution_id: str) -> None:
        self.agent = Agent(link)
        self.execution_id = execution_id
