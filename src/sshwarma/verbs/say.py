"""The verbs say and me."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from sqlalchemy import Connection

from sshwarma.common.finish import finish
from sshwarma.common.limits import (
    MAX_ANSWERS_PER_ROOM,
    MAX_PROGRAM_QUESTIONS,
    PROGRAM_EXCHANGE_SECONDS,
)
from sshwarma.common.refusals import count_refusal
from sshwarma.events.calls_again import find_often_asked, is_called_again
from sshwarma.models.open_turns import open_turns
from sshwarma.models.turn_runner import TurnRunner
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, Line, block, line, lines_with_head
from sshwarma.verbs.arguments import Text
from sshwarma.verbs.log_rows import cut_long_text, draw_remainder
from sshwarma.verbs.registry import verb
from sshwarma.verbs.verb_synonyms import find_slash_line
from sshwarma.verbs.views import view_for_reader
from sshwarma.world import mentions, rows, turns
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.authors import EXTERNAL_KEY, name_speaker
from sshwarma.world.caller import Caller
from sshwarma.world.causes import is_of_program
from sshwarma.world.errors import (
    Unavailable,
    empty_error,
    too_long_error,
)
from sshwarma.world.ids import now_ms
from sshwarma.world.questions import SCRIPTED_KEY, Question
from sshwarma.world.reader import PERSON, NextCall, Reader, add_next_call, next_call
from sshwarma.world.request_keys import find_said, store_said
from sshwarma.world.row import Row
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that the caller sent. A terminal in the room shows its row instead."""

    room: str
    seq: int
    who: str
    text: str
    to: str | None = None
    emote: bool = False
    turns: tuple[str, ...] = ()  # turns of the models that it called
    note: str = ""  # a notice for the sender alone
    next: Annotated[SkipJsonSchema[NextCall | None], Field(exclude=True)] = None


@view_for_reader(SentMessage)
def draw_sent_message(message: SentMessage, reader: Reader) -> Block:
    """Draw a message the caller sent, cut as in a log, with the sender's notice."""
    text = cut_long_text(message.text)
    rest = draw_remainder(
        message.seq, len(message.text) - len(text), reader, agent=message.to and f"@{message.to}"
    )
    if message.emote:
        return block(
            *lines_with_head(("emote", f"* {message.who} "), text=text, style="emote"), *rest
        )
    head = ("private", f"you → {message.to}") if message.to is not None else ("self", message.who)
    return block(
        *lines_with_head(head, ": ", text=text), *rest, *sender_note_lines(message, reader)
    )


def sender_note_lines(message: SentMessage, reader: Reader = PERSON) -> list[Line]:
    """Draw the notice that only the sender sees; no lines without one."""
    note = add_next_call(message.note, message.next, reader)
    return [line(("warn", note))] if message.note else []


@verb(
    "say",
    section="Talking",
    needs=Right.TALK,
    examples=("/say hello",),
    default=True,
)
async def say(caller: Caller, text: Text) -> SentMessage:
    """Say something to the room.

    @NAME calls somebody: a person's terminal rings, a model answers.

    For people:
        A line without a slash is said. To say a line that begins with a slash, type two slashes.

    For models:
        Say something to your room. A line that begins with @NAME calls that model.

    Args:
        text: the message; it may have several lines.
    """
    return await speak(caller, text)


async def speak(caller: Caller, text: str, speaker: str = "") -> SentMessage:
    """Say something to the caller's room, and ask the models that it mentions.

    Args:
        caller: who says it.
        text: the message.
        speaker: name of somebody else for whom the caller says it.

    Raises:
        Invalid, RateLimited, Unavailable: if the text, or too many models at once, are refused.
    """
    message = clean_text(caller, text)
    answering = services_of(caller).turns
    here, now = await caller.room(), now_ms()
    mentioned = answering.find_mentioned_models(message, caller.agent)
    reasons = {agent.id: here.explain_silence(agent, now) for agent in mentioned}
    reasons |= await _find_often_asked(caller, mentioned)
    reasons |= _find_cut_off(answering, [one for one in mentioned if not reasons[one.id]])
    models = [agent for agent in mentioned if not reasons[agent.id]]
    question = caller.question or Question(
        caller.agent.id, caller.limits.turns_per_question, via=caller.origin.fingerprint
    )
    if caller.is_of_script:
        # For the whole question from now on: what a script says may come back to who asked.
        question.is_scripted = True
    if models:
        check_answer_capacity(caller, answering, len(models))
    append = partial(
        _append_message, caller=caller, text=message, models=models, question=question,
        speaker=speaker,
    )  # fmt: skip

    async def append_and_ask() -> tuple[Row, list[Turn]]:
        """Append the message, and start an answer for each turn that it opens."""
        with question.asking(models):
            row, new_turns = await caller.world.change(append)
        if new_turns and not question.root_turn_id:
            question.root_turn_id = new_turns[0].id
        for turn, agent in zip(new_turns, models, strict=bool(new_turns)):
            answering.start_turn(turn, agent, row, caller.services, asked=question)
        return row, new_turns

    sending = append_and_ask()
    # A stored turn has to be answered, even if the caller's connection ends meanwhile.
    row, new_turns = await (finish(sending) if models else sending)
    notes = [reason for reason in reasons.values() if reason]
    silent_models = answering.unavailable_mentions(message, caller.agent)
    notes += [_explain_no_answer(agent) for agent in silent_models]
    unknown = mentions.describe_unknown_mentions(message, caller.world.agents)
    notes += _hint_at_verb(caller, message)
    notes += await _name_unheard(caller, row)
    return SentMessage(
        here.name,
        row.seq,
        caller.world.agents.name_author(row),
        row.content,
        turns=tuple(turn.id for turn in new_turns),
        note=" ".join(notes) or unknown,
        next=next_call("{} shows who answers.", "models") if silent_models else None,
    )


def _find_cut_off(answering: TurnRunner, models: list[Agent]) -> dict[str, str]:
    """Return whose answer the end of the server could cut, by id, with the reason."""
    ends = [(model, answering.explain_end(model)) for model in models]
    return {model.id: f"{model.name} does not answer now: {end}." for model, end in ends if end}


async def _find_often_asked(caller: Caller, models: list[Agent]) -> dict[str, str]:
    """Return which models do not answer a program for now, by id, with the reason."""
    if not models or not is_of_program.get():
        return {}
    often = await caller.world.store.read(
        partial(
            find_often_asked, agents=caller.world.agents, me=caller.agent, models=models,
            room_id=caller.room_id,
        )
    )  # fmt: skip
    minutes = PROGRAM_EXCHANGE_SECONDS // 60
    return {
        model.id: f"{model.name} does not answer: a program may ask it {MAX_PROGRAM_QUESTIONS} "
        f"times in {minutes} minutes, until a person speaks."
        for model in often
    }


def _is_program(caller: Caller, agent: Agent) -> bool:
    """Return whether a program hears as an agent now."""
    here = caller.world.presence.connections_of(agent.id)
    return bool(caller.world.program_feeds[agent.id]) or any(one.door == "mcp" for one in here)


async def _name_unheard(caller: Caller, row: Row) -> list[str]:
    """Return notes on the programs that a message of a program calls in vain."""
    world = caller.world
    if not row.meta.get(EXTERNAL_KEY) or "@" not in row.content:
        return []
    listening = [
        agent
        for agent in world.agents
        if _is_program(caller, agent) and mentions.has_mention(row.content, agent.name)
    ]

    def find(conn: Connection) -> list[str]:
        return [
            agent.name
            for agent in listening
            if agent.id != row.author_id and is_called_again(conn, world.agents, agent, row)
        ]

    names = await world.store.read(find) if listening else []
    return [
        f"{name} was called by programs before and called back: a person has to call it now."
        for name in names
    ]


def _hint_at_verb(caller: Caller, message: str) -> list[str]:
    """Return a hint at a verb that was typed without its slash, once a connection."""
    line = find_slash_line(message) if caller.is_at_terminal else ""
    here = caller.connection
    if not line or (here is not None and not here.is_new_hint(line)):
        return []
    return [f"You said that to the room. The verb is {line}"]


def check_answer_capacity(caller: Caller, answering: TurnRunner, more: int) -> None:
    """Raise unless `more` models may answer in the caller's room at once.

    Raises:
        Unavailable: with the limit.
    """
    if not answering.has_capacity(caller.room_id, more):
        count_refusal("answers_per_room")
        raise Unavailable(
            f"At most {MAX_ANSWERS_PER_ROOM} models may answer in a room at once.",
            hint=next_call("Wait for one, or stop it with {}.", "stop"),
        )


def _append_message(
    tx: Change,
    caller: Caller,
    text: str,
    models: list[Agent],
    question: Question,
    speaker: str,
) -> tuple[Row, list[Turn]]:
    """Append a message to the room's log, with a turn for each model that it asks."""
    if caller.once and (said := find_said(tx, caller.agent.id, caller.once, text, caller.room_id)):
        return said, []
    new_turns = open_turns(
        tx,
        caller.room_id,
        models,
        caller.agent.id,
        root_turn_id=question.root_turn_id or None,
    )
    first_turn_id = new_turns[0].id if new_turns else None
    scripted = {SCRIPTED_KEY: True} if models and question.is_scripted else {}
    row = rows.append_row(
        tx,
        caller.room_id,
        "chat",
        text,
        author_id=caller.agent.id,
        turn_id=first_turn_id,
        meta=scripted | name_speaker(speaker),
    )
    turns.set_request_row(tx, [turn.id for turn in new_turns], row)
    if caller.once:
        store_said(tx, caller.agent.id, caller.once, row)
    return row, new_turns


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The answer of one model to a message."""

    who: str
    text: str


@dataclass(frozen=True, slots=True)
class MessageAnswers:
    """The answers of models, for a caller that waited for them."""

    said: SentMessage
    answers: tuple[ModelAnswer, ...]


@view_for_reader(MessageAnswers)
def draw_message_answers(answered: MessageAnswers, reader: Reader) -> Block:
    """Draw the answers of models to a message."""
    return block(
        *(
            row
            for answer in answered.answers
            for row in lines_with_head(("model", answer.who), ": ", text=answer.text)
        ),
        *sender_note_lines(answered.said, reader),
    )


async def wait_for_answers(caller: Caller, message: SentMessage) -> MessageAnswers:
    """Wait until the called models have answered. For doors that show no room."""
    answering = services_of(caller).turns
    for turn_id in message.turns:
        await answering.wait_until_ended(turn_id)
    answers = [
        row
        for turn_id in message.turns
        for row in await caller.world.store.read(partial(rows.read_turn_rows, turn_id=turn_id))
        if row.author_id != caller.agent.id and row.kind in ("chat", "notice")
    ]
    return MessageAnswers(
        message,
        tuple(
            ModelAnswer(caller.world.agents.name_of(row.author_id), row.content) for row in answers
        ),
    )


@verb("me", section="Talking", needs=Right.TALK, examples=("/me waves",))
async def me(caller: Caller, text: Text) -> SentMessage:
    """Show the room an action of yours.

    The room sees your name and then the text, as in: * alice waves.

    Args:
        text: what you do, in the third person.
    """
    row = await _append_row(caller, "emote", text)
    return SentMessage(
        (await caller.room()).name, row.seq, caller.agent.name, row.content, emote=True
    )


async def _append_row(caller: Caller, kind: str, text: str) -> Row:
    message = clean_text(caller, text)
    return await caller.world.change(
        lambda tx: rows.append_row(
            tx,
            caller.room_id,
            kind,
            message,
            author_id=caller.agent.id,
        )
    )


def _explain_no_answer(model: Agent) -> str:
    """Say why a model that was mentioned does not answer."""
    reason = "is disabled" if model.disabled else "was removed"
    return f"{model.name} does not answer now: it {reason}."


def clean_text(caller: Caller, text: str) -> str:
    """Strip empty lines before a text and white space after it.

    Raises:
        Invalid: if it is empty or too long.
        RateLimited: if the agent has stored too much text.
    """
    message = text.strip("\n").rstrip()
    if not message.strip():
        raise empty_error("text")
    size, limit = len(message.encode("utf-8", "surrogatepass")), caller.limits.line_bytes
    if size > limit:
        raise too_long_error(
            "text",
            size,
            limit,
            "bytes",
            hint=next_call("{} stores a long text.", "put", name="NAME", text="TEXT"),
        )
    caller.charge_text_volume(size)
    return message
