"""Words that people know from other worlds, and the verb that does the same here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sshwarma.verbs.registry import find_entry
from sshwarma.world.names import DIRECTION_ABBREVIATIONS, OPPOSITE_DIRECTIONS
from sshwarma.world.reader import Reader


@dataclass(frozen=True, slots=True)
class Synonym:
    """The meaning of a word here.

    `line`: a line that does it; `verb`: the verb of that line.
    """

    verb: str
    line: str


_LINES: Final = {
    "/move NAME to me": "get take pick pickup grab carry",
    "/move NAME to room": "put-down putdown lay",
    "/me waves": "emote pose act action smile wave",
    "/tell NAME TEXT": "whisper page pm dm query privmsg talk",
    "/portal north ROOM": "tunnel exit-to @open",
    "/dig north NAME": "@dig tunnel-to",
    "/create NAME": "newroom mkdir channel",
    "/rename room NAME": "@rename mv ren",
    "/join ROOM": "goto teleport tp cd enter walk visit",
    "/leave": "back recall part lobby home",
    "/vibe TEXT": "topic title mood",
    "/describe TEXT": "desc @desc",
    "/rooms": "list ls channels areas where",
    "/who": "names users online people players finger",
    "/examine @bob": "whois profile",
    "/look": "ql glance see",
    "/inv": "inventory-list bag items equipment score",
    "/trigger new NAME": "cron schedule remind timer every at automate",
    "/hook in NAME": "webhook incoming",
    "/hook add NAME URL": "notify outgoing",
    "/history": "scrollback backlog recall-log last logs",
    "/put NAME = TEXT": "write touch upload paste save",
    "/drop room NAME": "delete del rm remove destroy recycle",
    "/room invite": "lock close",
    "/room private": "hide secret",
    "/room builder bob": "op grant promote",
    "/kick bob": "boot eject",
    "/mute bob 10": "ignore gag squelch silence",
    "/undo": "rollback oops",
    "/stop": "cancel kill abort interrupt",
    "/retry": "again regenerate redo",
    "/set": "settings config preferences prefs options colors colours",
    "/alias NAME = LINE": "macro bind shortcut",
    "/models": "ai llm gpt claude bots",
    "/model add NAME KIND MODEL": "apikey",
    "/mcp add NAME COMMAND": "connect server plugin",
    "/token new LABEL": "key api login password passwd",
    "/help": "commands man manual info tutorial hlep",
    "/version": "about",
    "/say TEXT": "shout yell gossip chat ooc speak",
    "/quit": "logout disconnect leave-world qq logoff close-connection",
    "/clone ROOM": "duplicate snapshot",
}  # fmt: skip

_ACTIONS: Final = ("add", "new", "in", "invite", "private", "builder")

NO_SUCH_VERB: Final[Mapping[str, str]] = {
    "nick": "The name of an account cannot be changed; it belongs to its key.",
    "name": "The name of an account cannot be changed; it belongs to its key.",
    "afk": "Nobody has to say that: /who shows who is idle.",
    "away": "Nobody has to say that: /who shows who is idle.",
    "git": "git runs on your machine: git clone ssh://NAME@HOST/ROOM. /help git has more.",
    "clear": "Ctrl-L redraws the screen.",
    "cls": "Ctrl-L redraws the screen.",
}
"""Words that no verb here can stand for, with what people do instead."""


def _list_synonyms() -> Iterator[tuple[str, Synonym]]:
    for line, words in _LINES.items():
        first, second, *_ = [*line.removeprefix("/").split(), ""]
        verb = f"{first} {second}" if second in _ACTIONS else first
        for word in words.split():
            yield word, Synonym(verb, line)
    abbreviations = {full: full for full in [*OPPOSITE_DIRECTIONS, *OPPOSITE_DIRECTIONS.values()]}
    for word, direction in (DIRECTION_ABBREVIATIONS | abbreviations).items():
        if word != "w":  # the alias of /tell
            yield word, Synonym("go", f"/go {direction}")


SYNONYMS: Final[Mapping[str, Synonym]] = dict(_list_synonyms())


def suggest_synonym(word: str, reader: Reader) -> str:
    """Return a sentence on what a word of other worlds is here; "" for other words."""
    if reader.is_person and word in NO_SUCH_VERB:
        return NO_SUCH_VERB[word]
    synonym = SYNONYMS.get(word)
    if synonym is None:
        return ""
    name = synonym.line if reader.is_person else reader.name_verb(synonym.verb)
    return f"Did you mean {name}?" if name else ""


def find_slash_line(text: str) -> str:
    """Return the line meant by a verb typed without its slash; "" for talk.

    Only a line of one word counts, `help` or `north`, and `go north`. Longer lines are talk.
    """
    word = text.strip().lower().rstrip("?!.")
    walked = SYNONYMS.get(word.removeprefix("go ").strip())
    if walked is not None and walked.line == f"/{word}":
        return walked.line
    if not word.isalpha():
        return ""
    if find_entry(word) is not None and word not in TALK_WORDS:
        return f"/{word}"
    synonym = SYNONYMS.get(word)
    return synonym.line if synonym is not None and word not in TALK_WORDS else ""


TALK_WORDS: Final = frozenset(
    """bye me say note back home again oops last see where people secret stop smile wave act talk
    message paste save api key about info list again retry reply answer set ai
    bots claude gpt llm online title topic tutorial delete close""".split()  # noqa: SIM905 - a list of fifty strings reads worse
)
"""Verbs and words that people say alone and mean so: no note about the slash."""
