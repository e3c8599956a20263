"""Sentences for the operator about a server that cannot start."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sshwarma.common.user_names import name_user
from sshwarma.wrap.errors import LuaWorkerError


@contextmanager
def using_data_dir(path: Path) -> Iterator[None]:
    """Say in the error of a data directory that cannot be used how to choose another.

    Raises:
        OSError: with a message for the operator.
    """
    try:
        yield
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        reason = os.strerror(error.errno or errno.EACCES).lower()
        raise OSError(
            f"Cannot use the data directory {path}: {reason}. Choose another with --data-dir DIR"
            " or SSHWARMA_DATA_DIR."
        ) from error


@contextmanager
def listening_at(address: str, flag: str) -> Iterator[None]:
    """Name the address and its flag in the error of a server that cannot listen.

    Raises:
        OSError: with a message for the operator.
    """
    try:
        yield
    except UnicodeError as error:  # such as a name with two dots in a row
        raise OSError(
            f"Cannot listen on {address}: it is no name of a host. Choose another with {flag}"
            " HOST:PORT."
        ) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = "another process uses the address"
        elif error.errno is not None and error.errno > 0:
            reason = os.strerror(error.errno).lower()
            if error.errno == errno.EACCES:
                reason += " (ports below 1024 need CAP_NET_BIND_SERVICE)"
        else:
            reason = str(error.strerror or error).lower()
        raise OSError(
            f"Cannot listen on {address}: {reason}. Choose another with {flag} HOST:PORT."
        ) from error


@contextmanager
def starting_workers() -> Iterator[None]:
    """Name the interpreter in the error of worker processes that cannot start.

    Raises:
        OSError: with a message for the operator.
    """
    try:
        yield
    except LuaWorkerError as error:
        raise OSError(
            f"{error} It is run by {sys.executable}, which {name_user(os.geteuid())} must be able"
            " to execute. Install sshwarma where that user may, such as in /opt/sshwarma."
        ) from error
