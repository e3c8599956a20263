"""The text that a command is piped."""

from __future__ import annotations

import asyncio
from typing import Final

from sshwarma.common.limits import PIPE_WAIT_SECONDS
from sshwarma.ssh.door.context import decode_text
from sshwarma.ssh.transport.interfaces import Channel
from sshwarma.world.errors import Invalid

UNREAD_INPUT_MESSAGE: Final = (
    f"Standard input was not read: it was open, and empty for {PIPE_WAIT_SECONDS:g} s."
    " --stdin waits for it; < /dev/null closes it.\n"
).encode()

UNUSED_INPUT_MESSAGE: Final = (
    b"Standard input was not used: the command has its text. In a loop, ssh -n leaves the input to"
    b" the next command.\n"
)


def two_texts_error() -> Invalid:
    """Return the refusal of a text by a pipe besides one on the line."""
    return Invalid(
        "The command has a text, and another one comes by a pipe.",
        hint='A name with spaces stands in quotes within quotes: ssh HOST "mem project set'
        " 'plan b'\" < FILE. With = before a text, no pipe is read.",
    )


class PipedText:
    """Standard input of a command, held up to a limit until the command wants it."""

    def __init__(self, channel: Channel, max_bytes: int) -> None:
        self._channel = channel
        self._max_bytes = max_bytes
        self._text = bytearray()
        self._came = asyncio.Event()
        self._ended = asyncio.Event()

    def add(self, data: bytes) -> None:
        """Hold a part of the input: one byte over the limit, to know that it is longer."""
        self._text += data[: self._max_bytes + 1 - len(self._text)]
        self._came.set()
        if len(self._text) > self._max_bytes:
            self._ended.set()  # it is refused without waiting for the rest

    def end(self) -> None:
        """Know that nothing more comes."""
        self._ended.set()
        self._came.set()

    def warn_unused(self) -> None:
        """Tell the client if it sent a text to a command that has one."""
        if self._text:
            self._channel.write_stderr(UNUSED_INPUT_MESSAGE)

    async def read(self, *, waits: bool) -> str | None:
        """Return the whole text; None if none began within PIPE_WAIT_SECONDS.

        Then the client is warned, because what comes later is lost. With `waits` it has no limit.

        Raises:
            Invalid: if the input is longer than the limit, or is no text.
        """
        if not waits:
            try:
                await asyncio.wait_for(self._came.wait(), PIPE_WAIT_SECONDS)
            except TimeoutError:
                self._channel.write_stderr(UNREAD_INPUT_MESSAGE)
                return None
        await self._ended.wait()
        if len(self._text) > self._max_bytes:
            # Reading ended at the limit, so that the size of the whole is not known.
            raise Invalid(f"piped input: must have at most {self._max_bytes} bytes.")
        return decode_text(self._text, "Piped input")
