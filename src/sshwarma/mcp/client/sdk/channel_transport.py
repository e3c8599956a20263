"""MCP transport over a channel of lines, for a server that a person offers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from sshwarma.common.finish import finish
from sshwarma.common.limits import MAX_SERVER_MESSAGE_BYTES
from sshwarma.mcp.client.log_buffer import LogBuffer
from sshwarma.mcp.client.sdk.stdio import IncomingMessage, forward_messages
from sshwarma.mcp.client.throttle import Throttle
from sshwarma.mcp.line_stream import LineStream


@asynccontextmanager
async def channel_transport(
    lines: LineStream, log_buffer: LogBuffer, ended: Callable[[str], None]
) -> AsyncIterator[
    tuple[MemoryObjectReceiveStream[IncomingMessage], MemoryObjectSendStream[SessionMessage]]
]:
    """Open an MCP transport over an existing channel, with one message a line.

    Leaving the context does not close the channel; its owner does.

    Args:
        lines: The channel.
        log_buffer: Receives notes on invalid lines.
        ended: Called with the reason when the channel has no more lines.
    """
    read_stream_writer, read_stream = anyio.create_memory_object_stream[IncomingMessage](0)
    write_stream, write_stream_reader = anyio.create_memory_object_stream[SessionMessage](0)

    async def read_lines() -> AsyncIterator[bytes]:
        while (line := await lines.read_line(MAX_SERVER_MESSAGE_BYTES)) is not None:
            yield line

    async def forward_lines() -> None:
        try:
            reason = await forward_messages(
                read_lines(), read_stream_writer, log_buffer, Throttle()
            )
        except ValueError as error:
            reason = str(error)
        ended(reason or "the channel closed")
        read_stream_writer.close()

    async def write_messages() -> None:
        async for message in write_stream_reader:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await lines.write(text.encode() + b"\n")
            except ConnectionError:
                return  # `forward_lines` reports the end of the channel

    tasks = [asyncio.create_task(forward_lines()), asyncio.create_task(write_messages())]

    async def close() -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (read_stream_writer, read_stream, write_stream, write_stream_reader):
            stream.close()

    try:
        yield read_stream, write_stream
    finally:
        await finish(close())
