"""Node code. Its context `ax` gives access to the memory of the running flow only."""

from typing import Any

import msgspec


class ChatRequest(msgspec.Struct):
    session_id: str
    text: str


class ChatReply(msgspec.Struct):
    text: str


async def chat_agent(ax: Any, input: ChatRequest) -> ChatReply:
    session = ax.agent.memory.session(input.session_id)
    await session.history.append(role="user", content=input.text)
    recent = await session.history.last(20)
    known = await ax.agent.memory.search(input.text, limit=5)
    reply = f"I see {len(recent)} recent turn(s) and {len(known)} relevant memorie(s)."
    await session.history.append(role="assistant", content=reply)
    return ChatReply(text=reply)
