"""The verbs of `/keys`: the ssh keys with which somebody logs in.

They work over ssh alone: who adds a key has the account. Those of others are an operator's, who has
`sshwarma keys` on the server's machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from sshwarma.common.public_key import EXAMPLE_KEY, ParsedKey, UnusableKey, parse_public_key
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.verbs.arguments import Arg, CompletionRequest, Flag, Option
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import Confirmation, format_clock, view
from sshwarma.world import login_keys, owners
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.login_keys import AgentKey
from sshwarma.world.reader import next_call
from sshwarma.world.store import Change


@dataclass(frozen=True, slots=True)
class KeyItem:
    """A key of the caller. Times are in milliseconds since 1970.

    Attributes:
        fingerprint: by which it is removed.
        type: its kind, as in its .pub file.
        comment: from there.
        expires_at: None if it never expires.
        last_used_at: None if it was never used; recorded once in LAST_USE_MINUTES.
        is_of_connection: whether the request came with it.
    """

    fingerprint: str
    type: str
    comment: str
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    is_of_connection: bool


@dataclass(frozen=True, slots=True)
class KeyList:
    """The keys of the caller, the oldest first."""

    keys: tuple[KeyItem, ...]


@view(KeyList)
def draw_key_list(result: KeyList) -> Block:
    """Draw keys with two lines each: a whole fingerprint leaves no room for the rest."""
    lines = [part for item in result.keys for part in _draw_item(item)]
    return block(line(("heading", "Your keys:")), *lines)


def _draw_item(item: KeyItem) -> tuple[Line, Line]:
    here = "  the key of this connection" if item.is_of_connection else ""
    times = [f"added {format_clock(item.created_at)}"]
    used = item.last_used_at
    times.append(f"used {format_clock(used)}" if used is not None else "never used")
    if item.expires_at is not None:
        times.append(f"until {format_clock(item.expires_at)}")
    return (
        line("  ", ("mark", item.fingerprint), f"  {item.type}", ("dim", here), hang=4),
        line("    ", ("time", ", ".join(times)), f"  {item.comment}", hang=4),
    )


@dataclass(frozen=True, slots=True)
class AddedKey:
    """A key that was added, or that the caller had already.

    Attributes:
        expires_at: in milliseconds since 1970; None if it never expires.
        is_new: False if the caller had it already; nothing was changed then.
    """

    fingerprint: str
    type: str
    comment: str
    expires_at: int | None
    is_new: bool


@view(AddedKey)
def draw_added_key(key: AddedKey) -> Block:
    """Draw what an added key is good for."""
    until = f" until {format_clock(key.expires_at)}" if key.expires_at is not None else ""
    named = f"{key.fingerprint}{f' ({key.comment})' if key.comment else ''}"
    if not key.is_new:
        return block(line(f"You have the key {named}{until} already.", hang=2))
    return block(line(f"Added the key {named}. Who has it logs in as you{until}.", hang=2))


async def complete_keys(request: CompletionRequest) -> list[Option]:
    """List the fingerprints of the caller's keys, with their comments."""
    caller = request.caller
    return [(key.fingerprint, key.comment) for key in caller.world.agents.keys_of(caller.agent.id)]


PublicKeyLine: TypeAlias = Annotated[str, Arg("text", rest=True, label="public-key")]
"""A line of a .pub file."""

OwnKey: TypeAlias = Annotated[str, Arg(complete=complete_keys)]
"""A key by its fingerprint, or the start of it."""

keys = group(
    "keys",
    section="Yourself",
    default="list",
    doc="""List, add and remove the ssh keys with which you log in.

    Each of your machines can have one. What you do with them needs one of them: a browser, a token
    and a script cannot. /help accounts says how others get in.
    """,
)


@keys.verb(
    "list", tool=False, ssh_only=True, examples=("/keys", "/keys list"), scope=TokenScope.BUILD
)
async def list_keys(caller: Caller) -> KeyList:
    """List your keys, with their addition, last use and end.

    The use of a key is recorded once in {LAST_USE_MINUTES} minutes.
    """
    current = caller.origin.fingerprint
    found = caller.world.agents.keys_of(caller.agent.id)
    return KeyList(
        tuple(
            KeyItem(
                fingerprint=key.fingerprint,
                type=_type_of(key),
                comment=key.comment,
                created_at=key.created_at,
                expires_at=key.expires_at,
                last_used_at=key.last_used_at,
                is_of_connection=key.fingerprint == current,
            )
            for key in sorted(found, key=lambda key: key.created_at)
        )
    )


@keys.verb(
    "add",
    tool=False,
    ssh_only=True,
    adds_piped_text=False,
    examples=("/keys add ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJPPvUwEYNBgMX0 me@laptop",),
    scope=TokenScope.BUILD,
)
async def add_key(caller: Caller, public_key: PublicKeyLine) -> AddedKey:
    """Add a key, with which you then log in, too.

    From a shell: ssh HOST keys add < ~/.ssh/id_ed25519.pub. If the key of this connection expires,
    the new one does so with it. You can have {MAX_KEYS_PER_AGENT} keys.

    Args:
        public_key: the line of its .pub file. Add none of others: who has the key is you here.
    """
    fingerprint, openssh, comment = _parse_line(public_key)

    def work(tx: Change) -> tuple[AgentKey, bool]:
        return login_keys.add_own_key(
            tx, caller.agent.id, fingerprint, openssh, comment, caller.origin.fingerprint
        )

    # The audit names what was piped, and by what the key is removed.
    named = caller.with_verb(caller.verb, f"/keys add {fingerprint}")
    key, is_new = await named.change(work)
    return AddedKey(fingerprint, _type_of(key), key.comment, key.expires_at, is_new)


@keys.verb(
    "remove",
    tool=False,
    ssh_only=True,
    examples=("/keys remove SHA256:4bVJTYlO", "/keys remove SHA256:4bVJTYlO --yes"),
    scope=TokenScope.BUILD,
)
async def remove_key(caller: Caller, fingerprint: OwnKey, *, yes: Flag = False) -> Confirmation:
    """Remove a key of yours, and end at once what came with it.

    Terminals, commands and browsers that it let in end. Tokens stay: /token lists them.

    Args:
        fingerprint: its fingerprint, SHA256:..., or the start of it, of at least 8 characters.
        yes: remove it also if it is the key of this connection, or your last.
    """
    agent, origin = caller.agent, caller.origin
    lists = next_call("{} lists yours.", "keys list")
    own = caller.world.agents.keys_of(agent.id)
    whole = owners.find_key(own, agent.name, fingerprint, lists).fingerprint
    is_current = whole == origin.fingerprint

    def work(tx: Change) -> None:
        # Before the question, so that nobody is asked about a removal that is refused anyway.
        owners.remove_key(tx, agent.id, whole, asked_from=origin.address if is_current else "")
        left = [key for key in login_keys.read_keys(tx.conn, agent.id) if not key.expired]
        if not yes:
            _check_is_meant(whole, is_of_connection=is_current, is_last=not left)

    line = f"/keys remove {whole}{' --yes' if yes else ''}"
    await caller.with_verb(caller.verb, line).change(work)
    return Confirmation(f"Removed the key {whole}. What came with it has ended.")


def _check_is_meant(fingerprint: str, *, is_of_connection: bool, is_last: bool) -> None:
    """Refuse a removal that somebody may regret, saying what follows from it.

    Raises:
        Invalid: if it is the key of the connection, or the last.
    """
    follows = []
    if is_of_connection:
        follows.append(
            "It is the key of this connection, which ends at once, as all that came with it does:"
            " terminals, commands and browsers."
        )
    if is_last:
        follows.append(
            "It is your last key: nobody can log in as you then, until the operator of the server"
            " adds another."
        )
    if follows:
        hint = next_call("{} does it.", "keys remove", fingerprint=fingerprint, yes=True)
        raise Invalid(f"This removes the key {fingerprint}. {' '.join(follows)}", hint=hint)


def _parse_line(text: str) -> ParsedKey:
    """Parse a key that somebody typed or piped.

    Raises:
        Invalid: if it is not one key that can be used.
    """
    try:
        return parse_public_key(text)
    except UnusableKey as error:
        example = "" if EXAMPLE_KEY in str(error) else f"A line of a .pub file: {EXAMPLE_KEY}. "
        hint = f"{example}From a shell: ssh HOST keys add < ~/.ssh/id_ed25519.pub"
        raise Invalid(f"Invalid key: {error}.", hint=hint) from error


def _type_of(key: AgentKey) -> str:
    return key.public_key.partition(" ")[0]
