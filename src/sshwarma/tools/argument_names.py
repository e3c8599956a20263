"""Names that models know for arguments of the file tools, from other programs.

They were trained on these. A call with one of them means what it says, and is not refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sshwarma.world.builtin_containers import FILES_ID
from sshwarma.world.things import Thing

_USUAL_NAMES: Final[dict[str, str]] = {
    "file_path": "path",
    "filepath": "path",
    "filename": "path",
    "file": "path",
    "old_string": "old",
    "old_str": "old",
    "new_string": "new",
    "new_str": "new",
    "replace_all": "all",
    "text": "content",
    "file_text": "content",
    "contents": "content",
    "query": "pattern",
    "regex": "pattern",
    "cmd": "command",
    "workdir": "cwd",
    "working_directory": "cwd",
}
"""Other names by which arguments are given, each with the one of the file tools."""


def use_own_names(tool: Thing, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, by their own names if it is a file tool.

    A name that the tool has itself stays, and so does one whose own name is given, too.
    """
    schema = tool.metadata.get("input_schema")
    if tool.parent_id != FILES_ID or not isinstance(schema, dict):
        return dict(arguments)
    own = schema.get("properties", {})
    renamed: dict[str, Any] = {}
    for name, value in arguments.items():
        usual = _USUAL_NAMES.get(name, "")
        is_other = name not in own and usual in own
        is_free = usual not in arguments and usual not in renamed
        renamed[usual if is_other and is_free else name] = value
    return renamed
