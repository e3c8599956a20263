"""File descriptors that a sandbox is started with."""

from __future__ import annotations

import contextlib
import fcntl
import os


class Descriptor:
    """A file descriptor that is closed once."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._is_open = True

    def close(self) -> None:
        """Close it, unless that was done."""
        if self._is_open:
            self._is_open = False
            os.close(self.number)


def open_pipe(
    read_stack: contextlib.ExitStack, write_stack: contextlib.ExitStack
) -> tuple[Descriptor, Descriptor]:
    """Return both ends of a pipe, which the stacks close."""
    reader, writer = map(Descriptor, os.pipe())
    read_stack.callback(reader.close)
    write_stack.callback(writer.close)
    return reader, writer


def open_gate(stack: contextlib.ExitStack) -> tuple[Descriptor, Descriptor]:
    """Return a pipe for bubblewrap that never ends; the stack closes both ends.

    Bubblewrap takes the end of a file for the word to begin. If the server was killed, a program
    would run without limits and without anyone who looks at it. This end is for reading and
    writing, so bubblewrap itself keeps the pipe open.
    """
    reader, writer = open_pipe(stack, stack)
    gate = Descriptor(os.open(f"/proc/self/fd/{reader.number}", os.O_RDWR | os.O_CLOEXEC))
    stack.callback(gate.close)
    reader.close()
    return gate, writer


def make_file(stack: contextlib.ExitStack, data: bytes) -> Descriptor:
    """Return a file in memory with a content, which the stack closes."""
    descriptor = Descriptor(os.memfd_create("sandbox"))
    stack.callback(descriptor.close)
    os.write(descriptor.number, data)
    os.lseek(descriptor.number, 0, os.SEEK_SET)
    return descriptor


def make_mark(stack: contextlib.ExitStack, name: str) -> Descriptor:
    """Return an empty file that nobody can write, with a name; the stack closes it."""
    descriptor = Descriptor(os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    stack.callback(descriptor.close)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor.number, fcntl.F_ADD_SEALS, seals)
    return descriptor
