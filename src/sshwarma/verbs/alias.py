"""The verb alias: short names for lines that an agent often types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sshwarma.common.limits import MAX_ALIAS_CHARACTERS, MAX_ALIAS_MEANING_CHARACTERS, MAX_ALIASES
from sshwarma.common.near_names import suggest_near_names
from sshwarma.common.secret_detection import has_key_prefix
from sshwarma.common.shorten import shorten_name
from sshwarma.terminal.text import Block, Span, block, line
from sshwarma.verbs.arguments import TextAfterEquals, Word
from sshwarma.verbs.registry import find_entry, verb
from sshwarma.verbs.views import Confirmation, draw_columns, view_for_reader
from sshwarma.world import agents
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound, empty_error, too_long_error
from sshwarma.world.reader import Reader, next_call
from sshwarma.world.store import Change


@dataclass(frozen=True, slots=True)
class AliasList:
    """The aliases of the caller: name, and the line that it stands for."""

    aliases: tuple[tuple[str, str], ...]


@view_for_reader(AliasList)
def draw_alias_list(result: AliasList, reader: Reader) -> Block:
    """Draw the caller's aliases."""
    if not result.aliases:
        return block(line("You have no aliases.", *_suggest_alias(reader)))
    slash = "/" if reader.is_person else ""
    return block(
        *draw_columns((("verb", slash + name), meaning) for name, meaning in result.aliases)
    )


def _suggest_alias(reader: Reader) -> tuple[Span, ...]:
    if not reader.is_person:
        return ()
    return (("", " "), ("verb", "/alias NAME = /verb …"), ("", " makes one."))


@verb(
    "alias",
    section="Yourself",
    tool=False,
    change_scope=TokenScope.ACT,
    examples=("/alias", "/alias ws = /join workshop", "/alias ws = -"),
)
async def alias(
    caller: Caller,
    name: Word | None = None,
    meaning: TextAfterEquals | None = None,
) -> AliasList | Confirmation:
    """Show, set or remove aliases: short names for lines that you often type.

    The rest of the line is added to the meaning of the alias.

    Args:
        name: the alias: letters, digits, - or _; at most {MAX_ALIAS_CHARACTERS} characters.
        meaning: the line it stands for, at most {MAX_ALIAS_MEANING_CHARACTERS} characters; -
            removes the alias.
    """
    aliases = dict(caller.agent.aliases)
    if name is None:
        return AliasList(tuple(sorted(aliases.items())))
    short = name.removeprefix("/").lower()
    if meaning is None:
        _check_exists(short, aliases)
        return AliasList(((short, aliases[short]),))
    if find_entry(short) is not None:
        raise Conflict(f"/{short} is a verb already.")
    if (
        not short.replace("-", "").replace("_", "").isalnum()
        or len(short) > MAX_ALIAS_CHARACTERS
        or not short.isascii()
    ):
        raise Invalid(
            f"An alias must consist of letters, digits, - or _, at most {MAX_ALIAS_CHARACTERS}"
            " characters."
        )
    if not meaning.strip():
        raise empty_error("meaning", hint="- removes the alias.")
    if meaning.strip() == "-":
        _check_exists(short, aliases)
        answer = f"Removed the alias /{short}."
    else:
        _check_meaning(meaning.strip())
        answer = f"/{short} now means {meaning.strip()}"
    is_removal = meaning.strip() == "-"
    if not is_removal:
        _check_count(len({*aliases, short}))
    caller.charge_text_volume(0 if is_removal else len(meaning.strip().encode()))

    def store(tx: Change) -> None:
        agent, _ = agents.read_agent(tx.conn, caller.agent.id)  # another terminal may set one, too
        stored = dict(agent.aliases) if agent is not None else {}
        stored.pop(short, None)
        if not is_removal:
            stored[short] = meaning.strip()
        _check_count(len(stored))
        agents.update_agent(tx, caller.agent.id, aliases=stored)

    await caller.change(store)
    return Confirmation(answer)


def _check_meaning(meaning: str) -> None:
    if len(meaning) > MAX_ALIAS_MEANING_CHARACTERS:
        raise too_long_error("meaning", len(meaning), MAX_ALIAS_MEANING_CHARACTERS)
    if has_key_prefix(meaning):
        raise Invalid(
            "The meaning looks like it contains a key.",
            hint="An alias is stored, and the audit shows it. Keep keys out of it.",
        )


def _check_count(count: int) -> None:
    if count > MAX_ALIASES:
        raise Conflict(f"You can have at most {MAX_ALIASES} aliases.")


def _check_exists(alias: str, known: Mapping[str, str]) -> None:
    if alias not in known:
        raise NotFound(
            f"You have no alias {shorten_name(alias)}.",
            hint=suggest_near_names(alias, known) or next_call("{} lists yours.", "alias"),
        )
