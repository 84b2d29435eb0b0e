"""A server that reads requests and does nothing with them, the target of a control: `python -m bench.sink PORT`."""

from __future__ import annotations

import asyncio
import re
import sys

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
WAIT_S = 10


async def main(port: int) -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", port)
    await server.serve_forever()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.read(1 << 14)
    missing = sum(map(int, re.findall(rb"content-length: (\d+)", head))) - len(head)
    if b"/wait" in head:
        await asyncio.sleep(WAIT_S)
    while missing > 0 or b"\r\n\r\n" not in head:
        part = await reader.read(1 << 16)
        if not part:
            break
        missing -= len(part)
    writer.write(ANSWER)
    writer.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
