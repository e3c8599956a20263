"""What a notice in a room says of changed files, the same for all doors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sshwarma.common.limits import MAX_NAMED_FILES
from sshwarma.common.shorten import join_with_rest, shorten_name
from sshwarma.workspaces.change_kinds import ChangeKind
from sshwarma.workspaces.tree import Changes


def describe_changes(changes: Changes, kinds: Mapping[str, ChangeKind], by: str = "") -> str:
    """Return what changed: "changed 2 files by sftp: a, b; removed c"; "" if nothing.

    A folder is named only if nothing but folders was made.

    Args:
        changes: the new entries by path.
        kinds: what was done at each of these paths.
        by: how they were changed, such as "sftp"; it stands behind the first files, unless the
            reader knows it.
    """
    by = f" by {by}" if by else ""
    made = [path for path, entry in changes.items() if entry is not None and not entry.is_folder]
    removed = [path for path in changes if kinds[path] == "removed"]
    folders = [f"{path}/" for path, entry in changes.items() if entry is not None]
    if made:
        text = f"changed {_name_files(made, by)}"
        return f"{text}; removed {_name_files(removed)}" if removed else text
    if removed:
        return f"removed {_name_files(removed, by)}"
    return f"made {_name_files(folders, by, 'folders')}" if folders else ""


def _name_files(paths: Iterable[str], by: str = "", noun: str = "files") -> str:
    ordered = sorted(paths)
    names = [shorten_name(path) for path in ordered[:MAX_NAMED_FILES]]
    if len(ordered) == 1:
        return f"{names[0]}{by}"
    named = join_with_rest(names, MAX_NAMED_FILES, total=len(ordered))
    return f"{len(ordered)} {noun}{by}: {named}"
