"""Lazy imports of large libraries: in threads, one at a time, without a pause."""

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
    """Serialize the imports and the slow construction in this block.

    For a thread, not the event loop. The libraries of models and of MCP import each other in
    circles: two threads that start at two places would each get modules that the other has only
    half initialized. And a full garbage collection visits all of them, 60-120 ms without a key
    press or a message: it is delayed until the libraries are loaded, and then skips them for good
    (gc.freeze).
    """
    with _IMPORT_LOCK:
        module_count = len(sys.modules)
        gc.disable()
        try:
            yield
        finally:
            gc.enable()
        if len(sys.modules) > module_count + MIN_LARGE_IMPORT_MODULES:
            gc.collect(1)
            gc.freeze()
