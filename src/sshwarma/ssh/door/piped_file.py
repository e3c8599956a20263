"""A file that a command is piped: any bytes, stored as they arrive."""

from __future__ import annotations

import asyncio
from typing import Final

from sshwarma.common.limits import MAX_FILE_BYTES
from sshwarma.common.shorten import shorten_name
from sshwarma.ssh.door.exec_flags import find_text_start
from sshwarma.ssh.transport.interfaces import Channel
from sshwarma.verbs.dispatch import check_may_pipe
from sshwarma.verbs.file_views import format_size
from sshwarma.verbs.verb import Verb
from sshwarma.workspaces.blobs import BlobStore, Upload
from sshwarma.workspaces.workspace import check_file_size
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, WorldError

REPORT_SECONDS: Final = 3.0
"""Seconds between two reports of how much of a file has come."""


def find_given_text(command: str, verb: Verb, verb_words: int) -> str:
    """Return what a command has after its words and flags, such as `= TEXT`."""
    return command[find_text_start(command, verb, verb_words) :].strip()


def check_given_text(command: str, verb: Verb | None, verb_words: int) -> None:
    """Refuse words without `=` for a verb that takes bytes: they may be of a path.

    Raises:
        Invalid: saying how a path with blanks, or a text, is given.
    """
    if verb is None or not verb.takes_bytes:
        return
    text = find_given_text(command, verb, verb_words)
    if text and not text.startswith("="):
        if "path" not in verb.input_schema["properties"]:
            raise Invalid(
                f"{shorten_name(text)!r} is not the content of a file, which comes by a pipe.",
                hint=f"From a shell: ssh HOST {verb.name} < {shorten_name(text)}",
            )
        raise Invalid(
            f"{shorten_name(text)!r} is neither a path nor a text.",
            hint="A text comes after =; quote a path with blanks twice: \"'my notes.txt'\".",
        )


class PipedFile:
    """The input of a command whose verb takes bytes.

    Nothing is read before the caller is known to have the rights, and nothing is held in memory.
    """

    def __init__(self, verb: Verb, channel: Channel) -> None:
        """Hold the input back until `receive`."""
        self._verb = verb
        self._channel = channel
        self._upload: Upload | None = None
        self._early = bytearray()  # what came before the channel held it back
        self._failure: WorldError | None = None
        self._ended = asyncio.Event()
        channel.pause_reading()

    def add(self, data: bytes) -> None:
        """Store a part of the input; one that is too long ends it."""
        if self._upload is None:
            self._early += data
            return
        if self._failure is not None or self._is_too_long():
            return
        try:
            self._upload.write(data)
        except WorldError as error:  # the disk is full
            self._failure = error
        if self._failure is not None or self._is_too_long():
            self._channel.pause_reading()
            self._ended.set()

    def end(self) -> None:
        """Take note that the input has ended."""
        self._ended.set()

    async def receive(self, caller: Caller, blobs: BlobStore) -> Upload:
        """Read the input to its end; `close` drops what is not stored by then.

        Raises:
            WorldError: if the caller may not store it, it is too large, or the disk is full.
        """
        await check_may_pipe(caller, self._verb)
        # Not in a thread: if this was cancelled meanwhile, nobody would close it.
        self._upload = blobs.begin_upload()
        self.add(bytes(self._early))
        self._early.clear()
        self._channel.resume_reading()
        await self._wait_for_end(caller)
        if self._failure is not None:
            raise self._failure
        check_file_size(self._upload.size, is_whole=False)  # it is not read to its end
        return self._upload

    async def _wait_for_end(self, caller: Caller) -> None:
        """Wait until the input has ended; say how much has come if that takes long."""
        while not self._ended.is_set():
            try:
                await asyncio.wait_for(self._ended.wait(), REPORT_SECONDS)
            except TimeoutError:
                size = self._upload.size if self._upload is not None else 0
                if caller.on_progress is not None:
                    caller.on_progress(f"Reading the file from the pipe: {format_size(size)}.")

    def _is_too_long(self) -> bool:
        return self._upload is not None and self._upload.size > MAX_FILE_BYTES

    def close(self) -> None:
        """Drop the content, unless it is stored."""
        if self._upload is not None:
            self._upload.close()
