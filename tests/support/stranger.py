"""A user without a name or a home, as which tests run the program."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

USER_ID = 50_000 + os.getpid() % 10_000
"""An id that no table of users has, and no tests in another process: commands look for running
servers of their user."""


def as_stranger(*words: str, interpreter: str = sys.executable) -> list[str]:
    """Return a command that runs the program as a user without name, home and rights.

    The one right it has is to read all files: the interpreter may stand in somebody's home. The
    test is skipped where users cannot be changed.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can run a program as another user")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv of util-linux is missing")
    right = "dac_read_search"
    return [
        "setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups",
        f"--inh-caps=+{right}", f"--ambient-caps=+{right}", f"--bounding-set=-all,+{right}",
        interpreter, *words,
    ]  # fmt: skip
