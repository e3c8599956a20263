"""Parser of verbs' docstrings: a summary, text, and sections.

The sections are for readers and arguments.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Final

from sshwarma.common.limit_text import fill_limits

_ARGUMENTS: Final = re.compile(r"^Args:$", re.MULTILINE)
_FOR_PEOPLE: Final = re.compile(r"^For people:$", re.MULTILINE)
_FOR_MODELS: Final = re.compile(r"^For models:$", re.MULTILINE)
_ARGUMENT: Final = re.compile(r"^    (\w+): (.*)$")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A parsed docstring.

    Attributes:
        summary: its first line, without the full stop.
        detail: the text up to the sections.
        for_people: the text below `For people:`, about what is typed; programs do not read it.
        for_models: the text below `For models:`, which is what models and MCP clients read in place
            of the summary and the detail; "" without it.
        model_arguments: descriptions by parameter, for models; of those that the text does not
            explain.
        arguments: descriptions by parameter.
    """

    summary: str
    detail: str
    for_people: str
    for_models: str
    model_arguments: dict[str, str]
    arguments: dict[str, str]


def parse_docstring(text: str) -> Docstring:
    """Parse a docstring in Google style.

    Only lines below `Args:` describe parameters, so no sentence of the text is mistaken for one.
    The section `For models:` comes after `For people:`; behind its first paragraph it may describe
    parameters, as `Args:` does. `{MAX_HISTORY_ROWS}` becomes the value of that limit. Backticks are
    dropped: the text is shown as it is, not as Markdown.

    Raises:
        ValueError: if a line below `Args:` is neither a parameter nor the continuation of one, or
            a name in braces is not a limit.
    """
    text = fill_limits(inspect.cleandoc(text).replace("`", ""))
    body, arguments = _split_at(_ARGUMENTS, text)
    body, for_models = _split_at(_FOR_MODELS, body)
    body, for_people = _split_at(_FOR_PEOPLE, body)
    summary, _, detail = body.partition("\n")
    text_for_models, _, model_arguments = for_models.strip("\n").partition("\n\n")
    return Docstring(
        summary.strip().removesuffix("."),
        detail.strip(),
        inspect.cleandoc(for_people).strip(),
        " ".join(text_for_models.split()),
        _parse_arguments(model_arguments),
        _parse_arguments(arguments),
    )


def _parse_arguments(text: str) -> dict[str, str]:
    described: dict[str, str] = {}
    name = ""
    for line in text.split("\n"):
        argument = _ARGUMENT.match(line)
        if argument is not None:
            name = argument[1]
            described[name] = argument[2]
        elif line.startswith("        ") and name:
            described[name] += f" {line.strip()}"
        elif line.strip():
            raise ValueError(f"not the description of a parameter: {line.strip()!r}")
    return described


def _split_at(title: re.Pattern[str], text: str) -> tuple[str, str]:
    """Split a text at the title of a section; the second part is "" without it."""
    section = title.search(text)
    return (text[: section.start()], text[section.end() :]) if section else (text, "")
