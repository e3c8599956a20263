"""A strict reader of YAML from strangers: values that JSON has, and nothing else.

The events of the document are read first, without recursion: a document that is too deep, or that
has aliases, anchors or tags, is refused before any of it is built. Then a loader builds it that
refuses equal keys, keys that are no text, and numbers in forms that few people know. Dates are
texts. `yes`, `no`, `on` and `off` are true and false, as YAML 1.1 has it.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import yaml

from sshwarma.common.limits import (
    MAX_MANIFEST_BYTES,
    MAX_MANIFEST_DEPTH,
    MAX_MANIFEST_DIGITS,
    MAX_MANIFEST_VALUES,
)
from sshwarma.common.shorten import shorten_name
from sshwarma.world.errors import Invalid

_WHOLE: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\.[0-9]+(?:[eE][-+][0-9]{1,3})?")
_MAX_DECIMAL_CHARACTERS: Final = 32
"""More than any double needs to be written exactly."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters that no text of a manifest needs: all but tab and the ends of lines."""

_TEXT_TAGS: Final = ("timestamp", "merge", "value")
"""What plain words can be in YAML 1.1 that JSON does not have: here they are texts."""


def load_yaml(data: bytes, name: str) -> Any:
    """Read a YAML document of values that JSON has.

    Args:
        data: the document in UTF-8.
        name: what refusals call it: "toolset.yaml".

    Raises:
        Invalid: if it is too long, too deep, or violates a rule; the text names the line.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise Invalid(f"{name}: must have at most {MAX_MANIFEST_BYTES} bytes (got {len(data)}).")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Invalid(f"{name}, line {line}: must be text in UTF-8.") from None
    try:
        _check_events(text)
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a subclass of a safe loader
    except _Refused as refusal:
        raise Invalid(f"{name}, {refusal}.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise Invalid(f"{name}{place}: {error.problem or 'is not valid YAML'}.") from None
    except yaml.YAMLError:
        # Only a character that YAML does not allow has no mark; its text names no line of ours.
        raise Invalid(f"{name}: must not have control characters.") from None


class _Refused(Exception):
    """A rule of ours that a document violates, after its place."""

    def __init__(self, place: yaml.Event | yaml.Node, problem: str) -> None:
        mark = place.start_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        super().__init__(f"{where}{problem}")


def _check_events(text: str) -> None:
    """Refuse what a manifest may not have, before any of it is built."""
    depth = documents = values = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if documents > 1:
            raise _Refused(event, "there must be one document only")
        values += isinstance(event, yaml.NodeEvent)
        if values > MAX_MANIFEST_VALUES:
            raise _Refused(event, f"must have at most {MAX_MANIFEST_VALUES} values")
        if depth > MAX_MANIFEST_DEPTH:
            raise _Refused(event, f"must have at most {MAX_MANIFEST_DEPTH} levels")
        if problem := _find_event_problem(event):
            raise _Refused(event, problem)


def _find_event_problem(event: yaml.Event) -> str:
    match event:
        case yaml.DocumentStartEvent() if event.tags:
            return "tags must not be declared"
        case yaml.AliasEvent():
            return "aliases (*name) are not allowed: write the value again"
        case yaml.ScalarEvent() | yaml.CollectionStartEvent():
            if event.anchor is not None:
                return "anchors (&name) are not allowed: write the value again"
            if event.tag is not None:
                return "tags (!name) are not allowed: put a text in quotes"
    return ""


class _StrictLoader(yaml.CSafeLoader):
    """A safe loader of values that JSON has."""

    def construct_unique_mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        """Build a mapping whose keys are texts, each once."""
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.tag.endswith(":str"):
                raise _Refused(key_node, "keys must be text: put it in quotes")
            key = self.construct_plain_text(key_node)
            if key in mapping:
                raise _Refused(key_node, f"{shorten_name(key)!r} is there twice")
            mapping[key] = self.construct_object(value_node, deep=True)
        return mapping

    def construct_plain_text(self, node: yaml.ScalarNode) -> str:
        """Build a text without control characters."""
        text = str(node.value)
        if found := _CONTROL.search(text):
            raise _Refused(node, f"texts must not contain U+{ord(found[0]):04X}")
        return text

    def construct_whole_number(self, node: yaml.ScalarNode) -> int:
        """Build a whole number in decimal."""
        return int(_number_text(node, _WHOLE, MAX_MANIFEST_DIGITS))

    def construct_decimal(self, node: yaml.ScalarNode) -> float:
        """Build a number with a point."""
        number = float(_number_text(node, _DECIMAL, _MAX_DECIMAL_CHARACTERS))
        if not math.isfinite(number):
            raise _Refused(node, "a number is too large")
        return number


def _number_text(node: yaml.ScalarNode, pattern: re.Pattern[str], most: int) -> str:
    text = str(node.value)
    if len(text) > most:
        problem = f"numbers must have at most {most} characters: put a text in quotes"
        raise _Refused(node, problem)
    if not pattern.fullmatch(text):
        raise _Refused(node, f"{text} must be a number such as 12 or 1.5, or a text in quotes")
    return text


_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(_TEXT_TAGS)]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_StrictLoader.add_constructor("tag:yaml.org,2002:map", _StrictLoader.construct_unique_mapping)
_StrictLoader.add_constructor("tag:yaml.org,2002:str", _StrictLoader.construct_plain_text)
_StrictLoader.add_constructor("tag:yaml.org,2002:int", _StrictLoader.construct_whole_number)
_StrictLoader.add_constructor("tag:yaml.org,2002:float", _StrictLoader.construct_decimal)
