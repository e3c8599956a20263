"""Importing large libraries while the server runs: in threads, one at a time, without a pause."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_IMPORT_LOCK: Final = threading.Lock()

MIN_LARGE_IMPORT_MODULES: Final = 50
"""New modules that count as a large library."""


@contextmanager
def serialize_imports() -> Iterator[None]:
    """Import inside of this, and make what takes long. For a thread, not the event loop.

    The libraries of models and of MCP import each other in circles: two threads that begin at two
    places would each be given modules that the other has half made. And a full collection looks
    through all of them, 60-120 ms in which no key and no word gets through: it waits until the
    libraries are there, and is then told that they stay.
    """
    with _IMPORT_LOCK:
        before = len(sys.modules)
        gc.disable()
        try:
            yield
        finally:
            gc.enable()
        if len(sys.modules) > before + MIN_LARGE_IMPORT_MODULES:
            gc.collect(1)
            gc.freeze()
