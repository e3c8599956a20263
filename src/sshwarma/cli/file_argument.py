"""Files that commands are given: not "", and nothing that is read without end."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import click
from typing_extensions import override


class FileArgument(click.Path):
    """A path; "" is refused, as a variable of a shell that is not set gives it."""

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":  # pathlib takes it for the current directory
            self.fail("must not be empty.", param, ctx)
        return super().convert(value, param, ctx)


def check_ends(path: Path, *, may_be_device: bool = False) -> None:
    """Refuse a file whose reading may not end, or not begin.

    The pipe of a shell, as in `<(command)`, has a writer. A FIFO may have none.

    Args:
        path: the file.
        may_be_device: whether a device is read, too, because a limit is.

    Raises:
        OSError: if it is a FIFO or a device, or does not exist.
    """
    mode = path.stat().st_mode
    is_device = stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
    # The pipe of a shell is a link in /proc to what has no path.
    is_fifo = stat.S_ISFIFO(mode) and os.path.lexists(os.path.realpath(path))
    if is_fifo or (is_device and not may_be_device):
        kind = "FIFO" if is_fifo else "device"
        raise OSError(f"{path} is a {kind}. Name a file, or - for standard input.")
