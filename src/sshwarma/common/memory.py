"""Memory that the C library keeps."""

from __future__ import annotations

import ctypes


def return_freed_memory() -> None:
    """Return freed memory to the system, where the C library can: glibc.

    Loading a model frees as much as it keeps, and glibc would keep that for later.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
