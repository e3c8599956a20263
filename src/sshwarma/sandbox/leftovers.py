"""Sandboxes of a server that was killed while they started.

Bubblewrap ends with the server, and its child with bubblewrap, but only from the moment at which
each has asked the kernel for that. A child whose bubblewrap has ended before waits for it without
end. Each sandbox holds an open file whose name tells which data directory it belongs to, and only
one server at a time uses that: what holds it when a server starts belongs to nobody.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROUNDS: Final = 50
"""Times that all processes are looked at: one that is ended may have just made another."""

_END_SECONDS: Final = 5.0
"""Seconds in which killed processes end."""


def name_mark(devices: Path) -> str:
    """Return the name of the open file that tells a server's sandboxes.

    Args:
        devices: where the server makes device files; the directory around it must exist. Its inode
            is in the name, because two containers may have the same path.
    """
    status = devices.parent.stat()
    words = f"{status.st_dev} {status.st_ino} {devices.name}"
    return f"sshwarma-sandbox-{hashlib.sha256(words.encode()).hexdigest()[:32]}"


def end_leftovers(mark: str) -> int:
    """End all sandboxes with a mark; return how many processes that were.

    Raises:
        OSError: if some do not end.
    """
    ended = empty = 0
    for _ in range(_ROUNDS):
        with contextlib.ExitStack() as stack:
            found = list(_open_marked(mark, stack))
            # One may end during a look that began before it made another.
            empty = 0 if found else empty + 1
            if empty == 2:
                return ended
            for process in found:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
            _wait(found)
            ended += len(found)
    raise OSError(f"leftover sandboxes were killed {_ROUNDS} times, and there are more")


def _wait(processes: list[int]) -> None:
    for process in processes:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        if not poll.poll(1000 * _END_SECONDS):
            raise OSError(f"a leftover sandbox did not end in {_END_SECONDS:.0f} s")


def _open_marked(mark: str, stack: contextlib.ExitStack) -> Iterator[int]:
    """Yield each process of bubblewrap with a mark, as a pidfd that the stack closes."""
    with os.scandir("/proc") as entries:
        numbers = [int(entry.name) for entry in entries if entry.name.isdigit()]
    for number in numbers:
        if not _is_marked(number, mark):
            continue
        with contextlib.suppress(ProcessLookupError):
            process = os.pidfd_open(number)
            stack.callback(os.close, process)
            if _is_marked(number, mark):  # the number may be another's by now
                yield process


def _is_marked(number: int, mark: str) -> bool:
    directory = Path("/proc", str(number))
    try:
        if (directory / "comm").read_bytes() != b"bwrap\n":
            return False
        links = [str(file.readlink()) for file in (directory / "fd").iterdir()]
    except OSError:  # it has ended, or is another user's
        return False
    return f"/memfd:{mark} (deleted)" in links
