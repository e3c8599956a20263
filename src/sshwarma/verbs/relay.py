"""The verb relay, with which a bridge speaks for people of another place."""

from __future__ import annotations

import re
from typing import Final

from sshwarma.common.limits import MAX_SPEAKER_CHARACTERS
from sshwarma.verbs.arguments import Text, Word
from sshwarma.verbs.journal import EntryKind, JournalNote, add_entry
from sshwarma.verbs.registry import verb
from sshwarma.verbs.say import SentMessage, speak
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import empty_error

_UNFIT: Final = re.compile(r"[^\w.|-]+")
"""Characters that would make the name of a speaker look like the frame of a line."""


@verb(
    "relay",
    section="Talking",
    needs=Right.TALK,
    scope=TokenScope.ACT,
    examples=("/relay alice hello from the other side", "/relay --note idea alice use a queue"),
)
async def relay(
    caller: Caller, speaker: Word, text: Text, *, note: EntryKind | None = None
) -> SentMessage | JournalNote:
    """Say or note something for somebody who is elsewhere.

    The room sees it as SPEAKER@YOU. You alone have said it, with your rights: this is for bridges
    to other places of talk.

    Args:
        speaker: their name; characters other than letters, digits, . | and - become _.
        text: the message.
        note: the kind of the journal entry that it becomes, instead of being said.
    """
    name = clean_speaker(speaker)
    if note is not None:
        return await add_entry(caller, note, text, name)
    return await speak(caller, text, name)


def clean_speaker(name: str) -> str:
    """Return a name as rows show it, in at most MAX_SPEAKER_CHARACTERS.

    Raises:
        Invalid: if it is empty.
    """
    cleaned = _UNFIT.sub("_", name.strip())
    if not cleaned.strip("_"):
        raise empty_error("speaker")
    return cleaned[:MAX_SPEAKER_CHARACTERS]
