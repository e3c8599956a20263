"""Drafts: texts that are changed in the line editor."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.shell_command import quote_ssh_command
from sshwarma.verbs.views import view
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid

TAB_SIGN: Final = "␉"
"""Stands for a tab in the line editor, where the key completes words."""

_LOST_CHARACTERS: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_LOST_NAMES: Final = {"\t": "tabs", "\r": "line ends of Windows"}


@dataclass(frozen=True, slots=True)
class EditDraft:
    """The text of a thing to edit. A terminal opens `line` in its line editor.

    Attributes:
        is_new: whether there is no such thing yet.
        language: of the text, or the name of its file; "" for prose.
    """

    terminal_only: ClassVar[bool] = True

    name: str
    text: str
    line: str
    is_new: bool = False
    language: str = ""


def _has_tabs(caller: Caller) -> bool:
    """Return whether the editor of the caller has tabs: in a page, not a terminal."""
    return caller.door == "web" and not caller.is_at_terminal


def hide_tabs(caller: Caller, text: str) -> tuple[str, str]:
    """Return a text with TAB_SIGN for tabs, and the flag of a line that says so.

    The text as it is, and "", if it has no tabs, or has the sign itself; and in a browser, whose
    editor has tabs.
    """
    if "\t" not in text or TAB_SIGN in text or _has_tabs(caller):
        return text, ""
    return text.replace("\t", TAB_SIGN), " --tabs"


def make_edit_draft(
    caller: Caller, name: str, text: str, line: str, *,
    signs: str = "", is_new: bool = False, language: str = "",
) -> EditDraft:  # fmt: skip
    """Return a draft of a text.

    Args:
        caller: who edits it.
        name: of what is edited.
        text: the present text, as the editor shows it.
        line: the line that stores a text, without the text; `= TEXT` follows it.
        signs: flags of the line that say which signs of the text stand for others. A text that
            comes from a file has none of them.
        is_new: whether there is nothing of that name yet.
        language: as of `EditDraft`.

    Raises:
        Invalid: if the line would be too long to submit, or the editor would lose characters.
    """
    command = line.removeprefix("/")
    if lost := _LOST_CHARACTERS.search(text.replace("\t", "") if _has_tabs(caller) else text):
        what = _LOST_NAMES.get(lost[0], "control characters")
        if lost[0] == "\r" and "\n" in text.replace("\r\n", ""):
            what = "line ends of two kinds"
        raise Invalid(
            f"{name} has {what}, which the line editor cannot keep.",
            hint=f"From a shell: {quote_ssh_command(command)} < FILE",
        )
    line_text = f"{line}{signs} = {text}"
    size, limit = len(line_text.encode()), caller.limits.line_bytes
    if size > limit and caller.is_at_terminal:
        raise Invalid(
            f"{name} is too long for the line editor: its line has {size} bytes, at most {limit}"
            " can be sent.",
            hint=f"From a shell: {quote_ssh_command(command)} < FILE",
        )
    return EditDraft(name, text, line_text, is_new, language)


@view(EditDraft)
def draw_edit_draft(result: EditDraft) -> Block:
    """Draw the keys that store or cancel an edit."""
    return block(
        line(
            "Editing ",
            ("thing", result.name),
            ", which is new" if result.is_new else "",
            ": Enter stores it, Alt-Enter starts a new line, Ctrl-C cancels.",
        )
    )


def no_editor_error(draft: EditDraft) -> Invalid:
    """Return the refusal of an editor without terminal: the line that stores a text."""
    command = draft.line.removesuffix(draft.text).removesuffix(" = ")
    return Invalid("The line editor needs a terminal.", hint=f"{command} = TEXT replaces the text.")
