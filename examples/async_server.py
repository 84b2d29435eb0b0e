"""The same API, awaited: against a server if MEMWELL_URL and MEMWELL_API_KEY are set, else embedded."""

import asyncio
import os
import tempfile

from memwell import AsyncMemory


async def main(target: str) -> None:
    async with AsyncMemory(target) as memory:
        session = memory.flow("example").session("async")
        await asyncio.gather(*(session.history.append(role="user", content=f"turn {n}") for n in range(10)))
        turns = await session.history.last(10)
        print(len(turns), "turns, numbered", [turn.seq for turn in turns])
        await memory.flow("example").delete()


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(os.environ.get("MEMWELL_URL", folder)))
