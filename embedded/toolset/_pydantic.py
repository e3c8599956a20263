"""The one private name of pydantic that the worker replaces: what looks for its plugins.

It imports what reads the metadata of all installed packages, which takes a fifth of the time until
a worker can take a call. There are no plugins inside. To import this before pydantic is enough.
"""

from __future__ import annotations

import sys
from types import ModuleType

LOADER = "pydantic.plugin._loader"

_loader = ModuleType(LOADER)
vars(_loader)["get_plugins"] = tuple
sys.modules[LOADER] = _loader
