"""The lines of `toolset.yaml` on which its values stand, for refusals."""

from __future__ import annotations

from functools import cached_property

import yaml

from sshwarma.toolsets.manifest_errors import format_place


class ManifestLines:
    """The lines of a manifest by the place of what begins there: `tools[2].id`.

    Looked up only when something is wrong: most manifests are not read a second time.
    """

    def __init__(self, data: bytes) -> None:
        """Read a file that `load_yaml` has read without a refusal."""
        self._data = data

    def find(self, problem: str) -> int | None:
        """Return the line of a problem; None for one of the whole manifest.

        The problem begins with its place. A missing field has the line of its object.
        """
        known = [place for place in self._lines if _begins_with(problem, place)]
        return self._lines[max(known, key=len)] if known else None

    @cached_property
    def _lines(self) -> dict[str, int]:
        text = self._data.decode("utf-8-sig")
        root: yaml.Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
        lines: dict[str, int] = {}
        waiting: list[tuple[tuple[str | int, ...], yaml.Node | None]] = [((), root)]
        while waiting:
            path, node = waiting.pop()
            parts: list[tuple[str | int, yaml.Node, yaml.Node]] = []
            if isinstance(node, yaml.MappingNode):
                parts = [(str(key.value), key, value) for key, value in node.value]
            elif isinstance(node, yaml.SequenceNode):
                parts = [(index, value, value) for index, value in enumerate(node.value)]
            for name, start, value in parts:
                lines[format_place((*path, name))] = start.start_mark.line + 1
                waiting.append(((*path, name), value))
        return lines


def _begins_with(problem: str, place: str) -> bool:
    """Return whether a problem is about a place, or about something in it."""
    return problem.startswith(place) and problem[len(place) : len(place) + 1] in (
        "", ".", "[", ":", " ",
    )  # fmt: skip
