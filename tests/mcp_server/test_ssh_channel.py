"""Messages of a channel: a peer that does not read is not read either."""

from __future__ import annotations

import asyncio
import json

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from sshwarma.common.limits import MAX_UNSENT_ANSWER_BYTES
from sshwarma.mcp.server.ssh_channel import MessageStream
from sshwarma.verbs.line_rate import LineRateLimiter


class Lines:
    """A peer that asks without end, and reads only while `reads` is set."""

    def __init__(self) -> None:
        self.asked = 0
        self.reads = asyncio.Event()

    async def read_line(self, limit: int) -> bytes:
        self.asked += 1
        return json.dumps({"jsonrpc": "2.0", "id": self.asked, "method": "ping"}).encode()

    async def write(self, data: bytes) -> None:
        await self.reads.wait()


async def test_peer_that_leaves_answers_unread_is_not_read() -> None:
    lines = Lines()
    messages = MessageStream(lines, "ann", LineRateLimiter(10**6, "requests", ""))
    answers = []
    size = MAX_UNSENT_ANSWER_BYTES // 10

    async def serve() -> None:
        async for message in messages:
            assert isinstance(message, SessionMessage)
            answer = JSONRPCResponse(jsonrpc="2.0", id=lines.asked, result={"text": "x" * size})
            answers.append(asyncio.create_task(messages.send(SessionMessage(answer))))
            await asyncio.sleep(0)

    serving = asyncio.create_task(serve())
    while len(answers) < 10:  # noqa: ASYNC110 - the task itself goes on
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert lines.asked == len(answers) == 10
    lines.reads.set()
    while lines.asked < 20:  # noqa: ASYNC110
        await asyncio.sleep(0)
    serving.cancel()
    await asyncio.gather(serving, *answers, return_exceptions=True)
