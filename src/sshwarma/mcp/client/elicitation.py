"""Elicitation: questions of MCP servers to the person whose call is running.

The form is asked in the person's terminal, one field at a time, and answered with /answer. A person
who is not at a terminal, or does not answer in ELICITATION_TIMEOUT_SECONDS, declines.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from sshwarma.common.limits import (
    ELICITATION_TIMEOUT_SECONDS,
    MAX_ELICITATION_ANSWER_CHARACTERS,
    MAX_ELICITATION_TRIES,
)
from sshwarma.common.shorten import shorten_name
from sshwarma.mcp.client.link import ElicitationField, ElicitationRequest
from sshwarma.world.errors import Invalid, NotFound, too_long_error
from sshwarma.world.events import PersonalNotice
from sshwarma.world.world import World

_SECRET_WORDS: Final = ("password", "passphrase", "secret", "token", "api key", "api_key", "apikey",
                     "credential", "private key")  # fmt: skip


class ElicitationDeclined(Exception):
    """The person declined, or cannot answer; the text says why, if they need to know."""


class Elicitation:
    """Pending questions by agent; each person is asked one at a time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting: dict[str, deque[asyncio.Future[str | None]]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    @property
    def waiting_count(self) -> int:
        """Number of questions that wait for an answer."""
        return sum(map(len, self._waiting.values()))

    def is_waiting_for(self, agent_id: str) -> bool:
        """Return whether a question waits for an answer of an agent."""
        return bool(self._waiting.get(agent_id))

    def answer(self, agent_id: str, text: str | None) -> None:
        """Answer the person's current question; None declines it.

        Raises:
            NotFound: if no question is pending.
            Invalid: if the answer is over MAX_ELICITATION_ANSWER_CHARACTERS.
        """
        queue = self._waiting.get(agent_id)
        if not queue:
            raise NotFound("No question is waiting for your answer.")
        if text is not None and len(text) > MAX_ELICITATION_ANSWER_CHARACTERS:
            raise too_long_error("answer", len(text), MAX_ELICITATION_ANSWER_CHARACTERS)
        future = queue.popleft()
        if not future.done():
            future.set_result(text)

    async def ask(
        self, agent_id: str, name: str, question: ElicitationRequest
    ) -> dict[str, Any] | None:
        """Ask a person, and return their answers by field.

        Returns an empty dict for a page that they opened, and None if they decline, have no
        terminal, or do not answer in time.
        """
        if not self._is_at_terminal(agent_id):
            return None
        lock = self._locks.setdefault(agent_id, asyncio.Lock())
        try:
            async with lock:
                return await self._ask_form(agent_id, name, question)
        except asyncio.CancelledError:
            self.notify(agent_id, name, "The call ended; no answer is needed.")
            raise
        except ElicitationDeclined as error:
            if str(error):
                self.notify(agent_id, name, str(error))
            return None
        finally:
            if not lock.locked() and not self._waiting.get(agent_id):
                self._locks.pop(agent_id, None)
                self._waiting.pop(agent_id, None)

    async def _ask_form(
        self, agent_id: str, name: str, question: ElicitationRequest
    ) -> dict[str, Any]:
        if question.url:
            host = question.url.split("/")[2].rpartition("@")[2]
            text = f"{question.message}\nOpen this page at {host}: {question.url}"
            reply = await self._ask_once(
                agent_id, name, text, "Then /answer yes, or /answer --decline"
            )
            if reply.strip().lower() not in ("yes", "y", "done", "ok"):
                raise ElicitationDeclined
            return {}
        if any(word in _field_words(field) for field in question.fields for word in _SECRET_WORDS):
            raise ElicitationDeclined(
                f"{name} asked for a secret; questions for secrets are always declined."
            )
        if not question.fields:
            text = question.message
            reply = await self._ask_once(agent_id, name, text, "/answer yes, or /answer --decline")
            if reply.strip().lower() not in ("yes", "y", "ok"):
                raise ElicitationDeclined
            return {}
        answers: dict[str, Any] = {}
        message = question.message
        for field in question.fields:
            value = await self._ask_field(agent_id, name, message, field)
            message = ""
            if value is not None:
                answers[field.name] = value
        return answers

    async def _ask_field(
        self, agent_id: str, name: str, message: str, field: ElicitationField
    ) -> Any:
        description = _describe_field(field)
        text = f"{message}\n{description}" if message else description
        hint = "/answer TEXT, or /answer --decline"
        if field.default is not None:
            default = _format_default(field.default)
            hint = f"/answer TEXT, /answer alone for {default}, or /answer --decline"
        elif not field.required:
            hint = "/answer TEXT, /answer alone to leave it out, or /answer --decline"
        for _ in range(MAX_ELICITATION_TRIES):
            reply = (await self._ask_once(agent_id, name, text, hint)).strip()
            if not reply and field.default is not None:
                return field.default
            if not reply and not field.required:
                return None
            try:
                return parse_field_value(field, reply)
            except Invalid as error:
                text = f"{error} {_describe_field(field)}"
        raise ElicitationDeclined(
            f"{MAX_ELICITATION_TRIES} invalid answers; the question was declined."
        )

    async def _ask_once(self, agent_id: str, name: str, text: str, hint: str) -> str:
        queue = self._waiting.setdefault(agent_id, deque())
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        queue.append(future)
        self.notify(agent_id, name, text, hint)
        try:
            async with asyncio.timeout(ELICITATION_TIMEOUT_SECONDS):
                reply = await future
        except TimeoutError:
            raise ElicitationDeclined(
                f"No answer in {ELICITATION_TIMEOUT_SECONDS:.0f} s; the question was declined."
            ) from None
        finally:
            if future in queue:
                queue.remove(future)
        if reply is None:
            raise ElicitationDeclined
        return reply

    def notify(self, agent_id: str, name: str, text: str, hint: str = "") -> None:
        """Show a server's text to one person, in their terminals only.

        A `hint` says how to answer it.
        """
        self._world.bus.publish(PersonalNotice(agent_id, name, text, hint))

    def _is_at_terminal(self, agent_id: str) -> bool:
        return any(link.is_terminal for link in self._world.presence.connections_of(agent_id))


def parse_field_value(field: ElicitationField, reply: str) -> Any:
    """Convert a typed answer to the type of its field.

    Raises:
        Invalid: if the answer does not fit the field; the text says what does.
    """
    match field.kind:
        case "boolean":
            if reply.lower() in ("yes", "y", "true", "on", "1"):
                return True
            if reply.lower() in ("no", "n", "false", "off", "0"):
                return False
            raise Invalid("Must be yes or no.")
        case "integer" | "number":
            try:
                number = int(reply) if field.kind == "integer" else float(reply)
            except ValueError:
                kind_name = "a whole number" if field.kind == "integer" else "a number"
                raise Invalid(f"Must be {kind_name}.") from None
            _check_range(field, number, "minimum", "maximum", "")
            return number
        case "choices":
            choices = [
                _parse_choice(field, part.strip()) for part in reply.split(",") if part.strip()
            ]
            _check_range(field, len(choices), "minItems", "maxItems", " choices")
            return choices
        case _ if field.options:
            return _parse_choice(field, reply)
        case _:
            _check_range(field, len(reply), "minLength", "maxLength", " characters")
            return reply


def _parse_choice(field: ElicitationField, reply: str) -> str:
    for value, title in field.options:
        if reply in (value, title):
            return value
    for value, title in field.options:
        if reply.lower() in (value.lower(), title.lower()):
            return value
    if not field.options:
        return reply
    choices = ", ".join(value for value, _ in field.options)
    raise Invalid(f"Choose one of: {choices} (got {shorten_name(reply)}).")


def _check_range(field: ElicitationField, number: float, least: str, limit: str, unit: str) -> None:
    low, high = field.limits.get(least), field.limits.get(limit)
    if low is not None and number < low:
        raise Invalid(f"Must be at least {low:g}{unit} (got {number:g}).")
    if high is not None and number > high:
        raise Invalid(f"Must be at most {high:g}{unit} (got {number:g}).")


def _describe_field(field: ElicitationField) -> str:
    title = field.title if field.title == field.name else f"{field.name} ({field.title})"
    if field.options:
        prefix = "some of " if field.kind == "choices" else ""
        titles = (f"{v} ({t})" if v != t else v for v, t in field.options)
        return f"{title}: {prefix}{', '.join(titles)}"
    kinds = {"integer": "a whole number", "number": "a number", "boolean": "yes or no"}
    return f"{title}: {kinds[field.kind]}" if field.kind in kinds else f"{title}:"


def _format_default(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return ", ".join(map(str, default)) if isinstance(default, list) else str(default)


def _field_words(field: ElicitationField) -> str:
    return f"{field.name} {field.title}".lower()
