"""Dispatch of requests: a typed line, or a verb with arguments from a program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from sshwarma.verbs import commands
from sshwarma.verbs.called_verb import is_talk, split_verb
from sshwarma.verbs.commands import CustomCommand
from sshwarma.verbs.grammar import check_one_is_given, join_texts, parse_call, validate_arguments
from sshwarma.verbs.help_flag import find_help_topic
from sshwarma.verbs.registry import Verb, find_verb
from sshwarma.verbs.rights import DataRight, MemberRight
from sshwarma.verbs.unknown_verb import UnknownVerb, suggest_own_names, unknown_verb_error
from sshwarma.world.access import Right, list_granters, permission_denied_error
from sshwarma.world.caller import Caller
from sshwarma.world.causes import is_of_program
from sshwarma.world.doors import PEOPLE_DOORS, SSH_DOORS
from sshwarma.world.errors import Forbidden, Invalid, WorldError

NEVER_BY_ALIAS: Final = frozenset({"keys add", "keys remove"})
"""Verbs that no alias stands for: a token or a browser, which may not use them, can set an alias
that its owner types later with a key."""


async def run_line(caller: Caller, line: str, piped: str | None = None) -> Any:
    """Run a typed line: a verb or equipped command if it begins with `/`, else talk.

    `piped` is text from standard input: it is the text argument of the verb, or is added to it. It
    is None if there was no standard input.

    Raises:
        WorldError: with the problem, and how to correct the line.
    """
    _check_unicode(line, piped)
    has_screen = caller.check_question is not None
    if caller.world.program_feeds[caller.agent.id] and not has_screen:
        is_of_program.set(True)  # a bot, which hears by `events` and says by commands or a pipe
    typed, line = line, _expand_alias(caller, line)
    if is_talk(line):
        return await invoke(
            caller, "say", {"text": join_texts(line.removeprefix("/"), piped)}, line
        )
    command = await commands.find_typed_command(caller, line)
    if command is not None:
        return await _run_command(caller, *command, piped, line)
    if topic := find_help_topic(line):
        return await invoke(caller, "help", {"topic": topic}, line)
    try:
        verb, start = split_verb(line)
    except UnknownVerb as error:
        tools = (item.thing for item in (await caller.loadout()).tools)
        suggest_own_names(error, line, await commands.list_own_names(caller), tools)
        raise
    if line != typed and verb.name in NEVER_BY_ALIAS:
        alias = typed.split(None, 1)[0]
        raise Forbidden(f"The alias {alias} may not run /{verb.name}.", hint="Type the whole line.")
    return await _run_verb(caller, *parse_call(verb, line, start, piped), line)


async def _run_command(
    caller: Caller, command: CustomCommand, given: str, piped: str | None, line: str
) -> Any:
    """Run a custom command. Its line may be a verb or talk, but no other command."""
    given = join_texts(given, piped)
    command_caller = replace(caller.with_verb(command.name, line), command=f"/{command.name}")
    if command.is_script:
        await command_caller.require(Right.ENTER)
        return await commands.run_script(command_caller, command, given)
    expanded = command.expanded(given)
    try:
        verb, start = split_verb("/say" if is_talk(expanded) else expanded)
        arguments: dict[str, Any] = {"text": expanded.removeprefix("/")}
        if not is_talk(expanded):
            verb, arguments = parse_call(verb, expanded, start)
        await commands.check_command_verb(command_caller, command, verb, arguments, expanded)
        # For the audit, which has the beginning: the command can be changed, and padded.
        run_line = f"/{command.name} runs {' '.join(expanded.split())}"
        return await _run_verb(command_caller, verb, arguments, run_line)
    except WorldError as error:
        error.span = None  # it points into a line that nobody typed
        raise


async def invoke(
    caller: Caller, name: str, arguments: dict[str, Any], line: str = "", *, called: str = ""
) -> Any:
    """Run a verb by name, with arguments by name.

    `line` is recorded for the verb; "" records the verb's name. `called` is what a program called
    it, if that is another name.

    Raises:
        WorldError: with the problem, and how to correct the arguments.
    """
    verb = find_verb(name)
    if verb is None:
        raise unknown_verb_error(name, caller.reader)
    _check_unicode(*(value for value in arguments.values() if isinstance(value, str)))
    called = called or {"api": name, "mcp": verb.mcp_tool or ""}.get(caller.door, "")
    return await _run_verb(
        caller,
        verb,
        validate_arguments(verb, arguments, called=called),
        line or f"/{verb.name}",
        None if line else arguments,
    )


async def check_may_pipe(caller: Caller, verb: Verb) -> None:
    """Check the rights of a verb before its piped input is read.

    Raises:
        Forbidden: if the caller lacks one.
    """
    if verb.needs is not None:
        await caller.require(verb.needs)
    caller.require_scope(verb.scope)
    for rule in verb.also_needs:
        if isinstance(rule, MemberRight):
            await rule.check(caller, {})


async def check_may_change_files(caller: Caller) -> None:
    """Check the rights of `file put`, for doors that change files without a verb.

    Raises:
        Forbidden: if the caller lacks one.
    """
    verb = find_verb("file put")
    if verb is None:
        raise LookupError("there is no verb file put")
    await check_may_pipe(caller, verb)


async def _navigation_error(caller: Caller) -> Forbidden:
    """Return the refusal to leave a room in which navigation is off."""
    room = await caller.room()
    return permission_denied_error(
        f"navigation is off in {room.name}, so models and external agents cannot leave it;"
        f" switching it on needs the build right in {room.name}",
        ask=list_granters(Right.BUILD, caller.world.agents, room.members),
    )


async def _run_verb(
    caller: Caller,
    verb: Verb,
    arguments: dict[str, Any],
    line: str,
    given: dict[str, Any] | None = None,
) -> Any:
    """Run a verb; `given` are arguments of a program, which the audit records."""
    doors = PEOPLE_DOORS if verb.in_console else SSH_DOORS
    is_here = caller.door in doors or (verb.works_at_terminals and caller.is_at_terminal)
    if verb.ssh_only and not is_here:
        raise Forbidden(f"{verb.path} works only over ssh, with your ssh key.")
    program = caller.agent.kind == "model" or caller.door == "mcp"
    if verb.moves and program and not (await caller.room()).models_can_move:
        raise await _navigation_error(caller)
    if verb.needs is not None:
        await caller.require(verb.needs)
    caller.require_scope(verb.scope)
    for rule in verb.also_needs:
        if not isinstance(rule, DataRight):
            await rule.check(caller, arguments)
    if caller.door not in PEOPLE_DOORS:
        check_one_is_given(verb, arguments)
    return await verb.run(caller.with_verb(verb.name, line, given), **arguments)


def _expand_alias(caller: Caller, line: str) -> str:
    """Replace the first word of a line if it is an alias of the caller's.

    The replacement is not expanded again, so that aliases cannot loop.
    """
    if not line.startswith("/"):
        return line
    name, space, rest = line[1:].partition(" ")
    meaning = caller.agent.aliases.get(name.lower())
    return f"{meaning}{space}{rest}" if meaning else line


def _check_unicode(*texts: str | None) -> None:
    """Refuse text with an unpaired surrogate, which can be neither stored nor shown.

    Raises:
        Invalid: if any text contains one.
    """
    for text in texts:
        if text is not None and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise Invalid("Invalid Unicode: unpaired surrogate.") from None
