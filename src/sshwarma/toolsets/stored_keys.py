"""Keys of the metadata of an installed toolset, and where one is from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

TREE_KEY: Final = "tree"
"""Key of the metadata of a toolset and its tools: the hash of its files, which names their
folder."""

PACKAGES_KEY: Final = "packages"
"""Key of the metadata of a toolset: the packages that it requires, locked for uv; "" if none."""

SOURCE_TYPE_KEY: Final = "source_type"
"""Key of the metadata of a toolset: the kind of its source, ZIP, LINKED or PLUGIN."""

SOURCE_REF_KEY: Final = "source_ref"
"""Key of the metadata of a toolset: which source it is, of that kind."""

ZIP: Final = "zip"
"""Kind of the source of a toolset that came as an archive."""

LINKED: Final = "local"
"""Kind of the source of a toolset in a folder of this machine."""

PLUGIN: Final = "plugin"
"""Kind of the source of a toolset that is made of plugin folders of this machine."""

PLUGINS_KEY: Final = "plugins"
"""Key of the metadata of such a toolset: its folders, each with its tools."""

PLUGINS_GROUP: Final = "plugins"
"""The folder of the code of all plugins, in the directory of those of toolsets."""

INSTALLED_BY_KEY: Final = "installed_by"
"""Key of the metadata of a toolset: the id of the agent that has brought this version."""

INSTALLED_OVER_KEY: Final = "installed_over"
"""Key of the metadata of a toolset: the door through which it came."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a version of a toolset is from.

    Attributes:
        kind: ZIP or LINKED.
        ref: `sha256:` and the hash of the archive, in hexadecimal; or the folder.
        by: the id of the agent that has brought it.
        door: through which it came; "" if that is not known.
    """

    kind: str
    ref: str
    by: str
    door: str

    @classmethod
    def of_archive(cls, archive: bytes, by: str, door: str) -> Source:
        """Return the source of a ZIP file. It takes a moment: call it in a thread."""
        return cls(ZIP, f"sha256:{hashlib.sha256(archive).hexdigest()}", by, door)
