"""The result of `/toolset export`, and how it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.file_views import FileData, draw_file_data
from sshwarma.verbs.views import view_for_reader
from sshwarma.world.reader import Reader


@dataclass(frozen=True, slots=True)
class ToolsetVariable:
    """A variable that a manifest names; `place` is the first one."""

    name: str
    place: str


@dataclass(frozen=True, slots=True)
class ToolsetData(FileData):
    """The archive of a toolset; `data` is base64.

    Attributes:
        variables: that its manifest names; who imports it must set them.
    """

    variables: tuple[ToolsetVariable, ...] = ()


def describe_variables(variables: Sequence[ToolsetVariable]) -> str:
    """Return which variables must be set on the server where an archive is imported."""
    named = ", ".join(f"{one.name} ({one.place})" for one in variables)
    return (
        "It names variables, also in place of values that may be secrets. Set them in the"
        f" environment of the server that imports it: {named}."
    )


@view_for_reader(ToolsetData)
def draw_toolset_data(result: ToolsetData, reader: Reader) -> Block:
    """Draw the size of an archive, the command that saves it, and its variables."""
    drawn = draw_file_data(result, reader)
    if not result.variables:
        return drawn
    return block(*drawn.lines, line(("warn", describe_variables(result.variables)), hang=2))
