"""A room as a folder: room.toml, a file for each text and each tool."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from sshwarma.common.limits import MAX_ROOM_FILES_CHARACTERS
from sshwarma.common.messages import with_limit
from sshwarma.common.validation_text import describe_validation_error
from sshwarma.world import names
from sshwarma.world.errors import Invalid, TooLarge

ROOM_FILE: Final = "room.toml"
TEXTS_FOLDER: Final = "things"
TOOLS_FOLDER: Final = "tools"
TOOL_SUFFIX: Final = ".lua"

_COLON: Final = "+"
"""Stands for : in the name of a file: not every system has that, and no name here has +."""

_BYTE_ORDER_MARK: Final = "\ufeff"
"""Some editors begin a file with it."""

_KEY: Final = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY: Final = re.compile(rf"(?<![\w\\-])(?:{_KEY}[ \t]*+\.[ \t]*+){{50}}")
"""A key of more parts than any name has: the memory for it grows with their square. None begins
behind a backslash, else each quote that is escaped would begin a search to the end."""

_Word = Annotated[str, StringConstraints(min_length=1, max_length=200)]

_Words = Annotated[list[_Word], Field(max_length=1_000)] | None


class RoomFile(BaseModel):
    """What room.toml says; None for what stays as it is.

    Attributes:
        description, vibe: texts of the room.
        access: who may enter.
        states: those that are set by hand.
        models: names of the models that may be called; ["*"] for all.
        equip: labels of what is on besides what new rooms have; own texts by their names.
        off: labels of what new rooms have on, and this one has not.
        disabled, approval: names of own tools that are disabled, and that need an approval.
        triggers: names of the triggers that are on.
        exits: rooms by direction.
        links: addresses by name.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    description: str | None = None
    vibe: str | None = None
    access: Literal["open", "invite", "private"] | None = None
    states: _Words = None
    models: _Words = None
    equip: _Words = None
    off: _Words = None
    disabled: _Words = None
    approval: _Words = None
    triggers: _Words = None
    exits: Annotated[dict[_Word, _Word], Field(max_length=200)] | None = None
    links: Annotated[dict[_Word, _Word], Field(max_length=1_000)] | None = None


@dataclass(frozen=True, slots=True)
class RoomFolder:
    """A room as files: its settings, texts by name, scripts of tools by name."""

    name: str
    file: RoomFile
    texts: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)


def write_folder(folder: RoomFolder) -> dict[str, str]:
    """Return the files of a room by their paths below its folder, in a stable order."""
    values = folder.file.model_dump(exclude_none=True)
    ordered = {key: values[key] for key in RoomFile.model_fields if key in values}
    return {
        ROOM_FILE: tomli_w.dumps(ordered, multiline_strings=not _has_returns(ordered)),
        **{
            f"{TEXTS_FOLDER}/{name.replace(':', _COLON)}": text
            for name, text in sorted(folder.texts.items())
        },
        **{
            f"{TOOLS_FOLDER}/{name}{TOOL_SUFFIX}": text
            for name, text in sorted(folder.tools.items())
        },
    }


def _has_returns(values: Mapping[str, Any]) -> bool:
    """Return whether a text has a carriage return, which long strings lose."""
    return any("\r" in text for text in values.values() if isinstance(text, str))


def read_folders(files: Mapping[str, str]) -> list[RoomFolder]:
    """Return the rooms that files describe, by name: each has a room.toml.

    Args:
        files: contents by path; the folder of a room has its name.

    Raises:
        Invalid: naming the file that is wrong.
        TooLarge: if all room.toml have more than MAX_ROOM_FILES_CHARACTERS.
    """
    roots = _find_roots(files)
    if not roots:
        raise Invalid(
            f"There is no {ROOM_FILE}.", hint="The folder of each room has one: NAME/room.toml."
        )
    size = sum(len(files[f"{root}/{ROOM_FILE}"]) for root in roots)
    if size > MAX_ROOM_FILES_CHARACTERS:
        limit = with_limit(f"The files {ROOM_FILE} are too long", MAX_ROOM_FILES_CHARACTERS)
        raise TooLarge(f"{limit}.")
    found: dict[str, RoomFolder] = {}
    for root in roots:
        name = names.check_name(root.rpartition("/")[2], "room")
        if name in found:
            raise Invalid(f"{root}: another folder is the room {name}, too.")
        inner = {
            path.removeprefix(f"{root}/"): text
            for path, text in files.items()
            if path.startswith(f"{root}/")
        }
        found[name] = _read_folder(root, name, inner)
    return [found[name] for name in sorted(found)]


def list_unread(files: Iterable[str]) -> list[str]:
    """Return the paths of files in no folder of a room, but for README and .git."""
    paths = sorted(files)
    roots = tuple(f"{root}/" for root in _find_roots(paths))
    others = (path for path in paths if not path.startswith(roots))
    return [path for path in others if not _is_beside(path.rpartition("/")[2])]


def _find_roots(files: Iterable[str]) -> list[str]:
    """Return the folders of rooms; a text may have the name room.toml."""
    found = {path.removesuffix(f"/{ROOM_FILE}") for path in files if path.endswith(f"/{ROOM_FILE}")}
    return sorted(
        root
        for root in found
        if not (root.rpartition("/")[2] == TEXTS_FOLDER and root.rpartition("/")[0] in found)
    )


def _read_folder(root: str, name: str, files: Mapping[str, str]) -> RoomFolder:
    texts: dict[str, str] = {}
    tools: dict[str, str] = {}
    for path, text in files.items():
        folder, _, file = path.rpartition("/")
        if path == ROOM_FILE or _is_beside(path):
            continue
        if folder == TEXTS_FOLDER:
            thing = _check(root, path, names.check_thing_name, file.replace(_COLON, ":"))
            if thing in texts:
                raise Invalid(f"{root}/{path}: another file is the text {thing}, too.")
            texts[thing] = text
        elif folder == TOOLS_FOLDER and file.endswith(TOOL_SUFFIX):
            plain = file.removesuffix(TOOL_SUFFIX)
            tools[_check(root, path, _check_tool_file, plain)] = text
        else:
            raise Invalid(
                f"{root}/{path}: nothing of a room.",
                hint="A room has room.toml, things/NAME and tools/NAME.lua.",
            )
    return RoomFolder(name, _parse_room_file(root, files[ROOM_FILE]), texts, tools)


def _is_beside(path: str) -> bool:
    """Return whether a file is for people alone: README.md, .gitignore."""
    return any(part.startswith(".") for part in path.split("/")) or path.startswith("README")


def _check_tool_file(name: str) -> str:
    return names.check_name(name, "tool")


def _check(root: str, path: str, check: Any, name: str) -> str:
    try:
        return str(check(name))
    except Invalid as error:
        error.message = f"{root}/{path}: {error.message}"
        raise


def _parse_room_file(root: str, text: str) -> RoomFile:
    try:
        if _LONG_KEY.search(text):
            raise Invalid(f"{root}/{ROOM_FILE}: a key has too many parts.")
        return RoomFile.model_validate(tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK)))
    except RecursionError as error:
        raise Invalid(f"{root}/{ROOM_FILE}: values are in each other too often.") from error
    except ValidationError as error:
        detail = error.errors()[0]
        field = ".".join(map(str, detail["loc"]))
        problem = describe_validation_error(detail, in_file=True)
        raise Invalid(f"{root}/{ROOM_FILE}: {field}: {problem}.") from error
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{root}/{ROOM_FILE}: {error}.") from error
    except ValueError as error:
        raise Invalid(f"{root}/{ROOM_FILE}: a number has too many digits.") from error


def join_files(folders: Iterable[RoomFolder]) -> dict[str, str]:
    """Return the files of rooms by path: NAME/room.toml and the others."""
    return {
        f"{folder.name}/{path}": text
        for folder in folders
        for path, text in write_folder(folder).items()
    }
