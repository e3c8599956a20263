"""Digests of library source whose private names our code was written for."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from functools import reduce


def digest_of(dotted: str) -> str:
    """Return 12 letters of the SHA-256 of the source of a module's function or class.

    Raises:
        ImportError, AttributeError: if there is no such name.
    """
    module, _, path = dotted.partition(":")
    source = inspect.getsource(reduce(getattr, path.split("."), importlib.import_module(module)))
    return hashlib.sha256(source.encode()).hexdigest()[:12]
