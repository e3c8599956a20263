"""What went wrong with a model, in words for people, and whether asking again may help."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sshwarma.models.backend import BackendFailed
from sshwarma.models.providers import address
from sshwarma.models.secrets import Secret, place
from sshwarma.settings import ModelSettings

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError

TRIES: Final = 3
FIRST_WAIT: Final = 0.5
"""Seconds before the second try; each later wait is twice as long, give or take half."""

PATIENCE: Final = 1.2
"""A wait that a server asks for is made longer by up to this factor, so that those who were told
the same do not all come back at once."""

LONGEST_WAIT: Final = 60.0
"""A server that asks for more patience than this is not waited for."""

DETAIL_CHARACTERS: Final = 300

_TOO_LONG: Final = re.compile(
    r"context.{0,12}(length|size|window)|prompt is too long|too many tokens|exceed_context"
    r"|input length|token count.{0,40}exceeds",
    re.IGNORECASE | re.DOTALL,
)
_KEY_ALIKE: Final = re.compile(r"\b(sk|key|AIza)[-_]?[A-Za-z0-9*_-]{8,}")


class Silent(Exception):
    """Nothing came for this many seconds."""

    def __init__(self, seconds: float, *, begun: bool) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.begun = begun


class Empty(Exception):
    """The stream ended and there was nothing in it; the argument is why it ended, if known."""


class Cut(Exception):
    """The stream ended without an end."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure: what to say of it, and how often the model may be asked in all. `why` is a word
    or two for those who wait for the next try."""

    failed: BackendFailed
    tries: int = 1
    after: float | None = None
    why: str = ""

    def wait(self, tried: int) -> float:
        """Seconds before the next try, LONGEST_WAIT at most."""
        backoff: float = FIRST_WAIT * 2 ** (tried - 1) * random.uniform(0.5, 1.5)  # noqa: S311 - jitter
        asked: float = (self.after or 0) * random.uniform(1, PATIENCE)  # noqa: S311 - jitter
        return min(max(backoff, asked), LONGEST_WAIT)


def expected() -> tuple[type[Exception], ...]:
    """The exceptions that `fault` knows; any other is a mistake in here."""
    import httpx2
    from pydantic_ai.exceptions import AgentRunError, UserError

    return (Silent, Empty, Cut, AgentRunError, UserError, httpx2.HTTPError)


def fault(error: Exception, settings: ModelSettings, key: Secret, *, begun: bool) -> Fault:
    """What an exception of a request means. `begun`: some of the answer was there."""
    from pydantic_ai import exceptions as known

    model, where = settings.model, address(settings)
    if isinstance(error, Silent):
        when = "amid its answer" if error.begun else "to begin with"
        return Fault(BackendFailed(f"{model} said nothing for {error.seconds:g} s {when}"))
    if isinstance(error, Cut):
        return _unreachable(settings, begun=True)
    if isinstance(error, Empty):
        if "length" in error.args:
            words = f"{model} used up its tokens before it began to answer"
            return Fault(BackendFailed(words))
        if "content_filter" in error.args:
            return Fault(BackendFailed(f"{where} withheld the answer of {model}"))
        return Fault(BackendFailed(f"{model} gave no answer"), tries=2, why="no answer")
    if isinstance(error, known.ContentFilterError):
        return Fault(BackendFailed(f"{where} withheld the answer of {model}"))
    if isinstance(error, known.UnexpectedModelBehavior):
        if "ended without content" in str(error):
            return Fault(BackendFailed(f"{model} gave no answer"), tries=2, why="no answer")
        return Fault(BackendFailed(f"the answer of {model} cannot be read"))
    if isinstance(error, known.ModelAPIError):
        return _refused(error, settings, key, begun=begun)
    if isinstance(error, known.UserError):
        return Fault(BackendFailed(f"{model} cannot be asked this: {_short(str(error), key)}"))
    return _unreachable(settings, begun=begun)


def _refused(error: ModelAPIError, settings: ModelSettings, key: Secret, *, begun: bool) -> Fault:
    """What an error of the server, or of the way there, means."""
    from pydantic_ai import exceptions as known

    model, where = settings.model, address(settings)
    detail = _detail(error, key)
    after = error.retry_after
    if isinstance(error, known.ModelContextWindowExceededError) or _TOO_LONG.search(detail):
        words = f"the conversation is longer than {model} can read"
        return Fault(BackendFailed(words, too_long=True))
    if isinstance(error, known.ModelAuthenticationError):
        held = place(settings)
        look = f"look at {held}" if held else "it wants one: set key_env or key_file"
        return Fault(BackendFailed(f"{where} does not accept the key; {look}"))
    if isinstance(error, known.ModelQuotaExceededError):
        return Fault(BackendFailed(f"there is no credit left at {where}"))
    if isinstance(error, known.ModelNotFoundError):
        return Fault(BackendFailed(f"{where} has no model {model}"))
    if isinstance(error, known.ModelRateLimitError):
        when = f"; try again in {after:.0f} s" if after else ""
        return _again(f"{where} is asked too much{when}", after, "rate limited")
    if isinstance(error, known.ModelConnectionError):
        return _unreachable(settings, begun=begun)
    status = getattr(error, "status_code", None)
    if isinstance(error, known.ModelUnavailableError | known.ModelServerError) or (
        isinstance(status, int) and (status >= 500 or status in (408, 409))
    ):
        if getattr(error, "provider_retry_hint", None) is False:
            after = LONGEST_WAIT + 1
        words = f"{where} is in trouble ({status or 'error'}): {detail}"
        return _again(words, after, "server in trouble")
    return Fault(BackendFailed(f"{where} refused the request: {detail}"))


def _again(words: str, after: float | None, why: str) -> Fault:
    tries = 1 if after is not None and after > LONGEST_WAIT else TRIES
    return Fault(BackendFailed(words), tries, after, why)


def _unreachable(settings: ModelSettings, *, begun: bool) -> Fault:
    where = address(settings)
    if begun:
        return Fault(BackendFailed(f"the connection to {where} broke off"))
    return Fault(BackendFailed(f"{where} cannot be reached"), TRIES, why="cannot be reached")


def _detail(error: ModelAPIError, key: Secret) -> str:
    """What the server itself said, if it said anything."""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        body = inner.get("message", inner) if isinstance(inner, dict) else inner
    return _short(str(body or error.message), key)


def _short(text: str, key: Secret) -> str:
    text = _KEY_ALIKE.sub("•••", key.hide(" ".join(text.split())))
    return text if len(text) <= DETAIL_CHARACTERS else f"{text[:DETAIL_CHARACTERS]}…"
