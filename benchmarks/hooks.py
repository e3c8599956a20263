"""Time of a line while others post to an incoming hook, 1,000 times a minute.

    python -m benchmarks.hooks [--seconds 30]

The baseline is the same lines in the same run, without posts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.events import make_tokens
from benchmarks.mcp_server import running, serve

POSTS_PER_SECOND = 1000 / 60
LINE_PAUSE_SECONDS = 0.3
"""Lines of one agent: a few less than it may say."""


class Connection:
    """A connection that sends one POST after another."""

    def __init__(self, address: str, token: str = "") -> None:
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self._bearer = f"Authorization: Bearer {token}\r\n" if token else ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, document: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Return how long the answer took, in ms, and the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self._streams
        body = json.dumps(document).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.host}\r\n{self._bearer}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        start = time.perf_counter()
        writer.write(head.encode() + body)
        status = (await reader.readline()).split()[1]
        length = 0
        while (line := await reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        answer: dict[str, Any] = json.loads(await reader.readexactly(length))
        if status != b"200":
            raise RuntimeError(f"{path}: {answer}")
        return (time.perf_counter() - start) * 1000, answer


async def say_lines(address: str, token: str, seconds: float) -> str:
    """Say lines for some seconds; return how long they took, as a text."""
    connection, end = Connection(address, token), time.monotonic() + seconds
    took = []
    while time.monotonic() < end:
        took.append((await connection.post("/api/v1/verbs/say", {"text": "a line"}))[0])
        await asyncio.sleep(LINE_PAUSE_SECONDS)
    took.sort()
    parts = (f"p{share} {took[int(len(took) * share / 100)]:.1f} ms" for share in (50, 90, 99))
    return ", ".join(parts)


async def post_for(address: str, path: str) -> None:
    """Post at the rate until cancelled; a slow answer delays no other post."""
    connections = [Connection(address) for _ in range(8)]
    number = 0
    start = time.monotonic()
    pending: set[asyncio.Task[Any]] = set()
    while True:
        connection = connections[number % len(connections)]
        pending.add(asyncio.create_task(connection.post(path, {"text": f"build {number} failed"})))
        pending = {task for task in pending if not task.done() or task.result()[0] < 0}
        number += 1
        await asyncio.sleep(max(0.0, start + number / POSTS_PER_SECOND - time.monotonic()))


async def main() -> None:
    """Print the times of lines without and with posts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as home:
        owner, member = await make_tokens(Path(home) / "world.db", 2)
        async with running(*serve(home)) as facts:
            address = facts["http"]
            made = await Connection(address, owner).post("/api/v1/verbs/hook_in", {"name": "ci"})
            path = "/hooks/" + made[1]["result"]["secret"]
            for name in ("alone", "with posts", "alone", "with posts"):
                posting = None
                if name == "with posts":
                    posting = asyncio.create_task(post_for(address, path))
                print(f"{name:10}: {await say_lines(address, member, seconds)}")
                if posting is not None:
                    posting.cancel()
                    await asyncio.gather(posting, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
