"""What went wrong with a model, in words for people, and whether asking again may help."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sshwarma.common.limits import MAX_MODEL_ATTEMPTS, MAX_RETRY_AFTER_SECONDS
from sshwarma.models.backend import BackendError
from sshwarma.models.providers import base_url_of
from sshwarma.models.secrets import Secret, describe_key_location
from sshwarma.settings import ModelSettings

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError

FIRST_RETRY_SECONDS: Final = 0.5
"""Seconds before the second try; each later wait is twice as long, give or take half."""

MAX_RETRY_JITTER: Final = 1.2
"""A wait that a server asks for is made longer by up to this factor, so that those who were told
the same do not all come back at once."""

MAX_DETAIL_CHARACTERS: Final = 300

_CONTEXT_TOO_LONG: Final = re.compile(
    r"context.{0,12}(length|size|window)|prompt is too long|too many tokens|exceed_context"
    r"|input length|token count.{0,40}exceeds",
    re.IGNORECASE | re.DOTALL,
)
_KEY_LIKE: Final = re.compile(r"\b(sk|key|AIza)[-_]?[A-Za-z0-9*_-]{8,}")


class StreamStalled(Exception):
    """Nothing came for this many seconds."""

    def __init__(self, seconds: float, *, begun: bool) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.begun = begun


class EmptyAnswer(Exception):
    """The stream ended and there was nothing in it; the argument is why it ended, if known."""


class StreamTruncated(Exception):
    """The stream ended without an end."""


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """A failure: what to say of it, and how often the model may be asked in all. `why` is a word
    or two for those who wait for the next try."""

    failed: BackendError
    tries: int = 1
    after: float | None = None
    why: str = ""

    def wait(self, tried: int) -> float:
        """Seconds before the next try, MAX_RETRY_AFTER_SECONDS at most."""
        backoff: float = FIRST_RETRY_SECONDS * 2 ** (tried - 1) * random.uniform(0.5, 1.5)  # noqa: S311 - jitter
        asked: float = (self.after or 0) * random.uniform(1, MAX_RETRY_JITTER)  # noqa: S311 - jitter
        return min(max(backoff, asked), MAX_RETRY_AFTER_SECONDS)


def expected_exceptions() -> tuple[type[Exception], ...]:
    """The exceptions that `classify_error` knows; any other is a mistake in here."""
    import httpx2
    from pydantic_ai.exceptions import AgentRunError, UserError

    return (StreamStalled, EmptyAnswer, StreamTruncated, AgentRunError, UserError, httpx2.HTTPError)


def classify_error(
    error: Exception, settings: ModelSettings, key: Secret, *, begun: bool
) -> ModelFailure:
    """What an exception of a request means. `begun`: some of the answer was there."""
    from pydantic_ai import exceptions as known

    model, where = settings.model, base_url_of(settings)
    if isinstance(error, StreamStalled):
        when = "amid its answer" if error.begun else "to begin with"
        return ModelFailure(BackendError(f"{model} said nothing for {error.seconds:g} s {when}"))
    if isinstance(error, StreamTruncated):
        return _connection_failure(settings, begun=True)
    if isinstance(error, EmptyAnswer):
        if "length" in error.args:
            words = f"{model} used up its tokens before it began to answer"
            return ModelFailure(BackendError(words))
        if "content_filter" in error.args:
            return ModelFailure(BackendError(f"{where} withheld the answer of {model}"))
        return ModelFailure(BackendError(f"{model} gave no answer"), tries=2, why="no answer")
    if isinstance(error, known.ContentFilterError):
        return ModelFailure(BackendError(f"{where} withheld the answer of {model}"))
    if isinstance(error, known.UnexpectedModelBehavior):
        if "ended without content" in str(error):
            return ModelFailure(BackendError(f"{model} gave no answer"), tries=2, why="no answer")
        return ModelFailure(BackendError(f"the answer of {model} cannot be read"))
    if isinstance(error, known.ModelAPIError):
        return _classify_api_error(error, settings, key, begun=begun)
    if isinstance(error, known.UserError):
        return ModelFailure(
            BackendError(f"{model} cannot be asked this: {_shorten_detail(str(error), key)}")
        )
    return _connection_failure(settings, begun=begun)


def _classify_api_error(
    error: ModelAPIError, settings: ModelSettings, key: Secret, *, begun: bool
) -> ModelFailure:
    """What an error of the server, or of the way there, means."""
    from pydantic_ai import exceptions as known

    model, where = settings.model, base_url_of(settings)
    detail = _error_detail(error, key)
    after = error.retry_after
    if isinstance(error, known.ModelContextWindowExceededError) or _CONTEXT_TOO_LONG.search(detail):
        words = f"the conversation is longer than {model} can read"
        return ModelFailure(BackendError(words, too_long=True))
    if isinstance(error, known.ModelAuthenticationError):
        held = describe_key_location(settings)
        look = f"look at {held}" if held else "it wants one: set key_env or key_file"
        return ModelFailure(BackendError(f"{where} does not accept the key; {look}"))
    if isinstance(error, known.ModelQuotaExceededError):
        return ModelFailure(BackendError(f"there is no credit left at {where}"))
    if isinstance(error, known.ModelNotFoundError):
        return ModelFailure(BackendError(f"{where} has no model {model}"))
    if isinstance(error, known.ModelRateLimitError):
        when = f"; try again in {after:.0f} s" if after else ""
        return _retryable_failure(f"{where} is asked too much{when}", after, "rate limited")
    if isinstance(error, known.ModelConnectionError):
        return _connection_failure(settings, begun=begun)
    status = getattr(error, "status_code", None)
    if isinstance(error, known.ModelUnavailableError | known.ModelServerError) or (
        isinstance(status, int) and (status >= 500 or status in (408, 409))
    ):
        if getattr(error, "provider_retry_hint", None) is False:
            after = MAX_RETRY_AFTER_SECONDS + 1
        words = f"{where} is in trouble ({status or 'error'}): {detail}"
        return _retryable_failure(words, after, "server in trouble")
    return ModelFailure(BackendError(f"{where} refused the request: {detail}"))


def _retryable_failure(words: str, after: float | None, why: str) -> ModelFailure:
    tries = 1 if after is not None and after > MAX_RETRY_AFTER_SECONDS else MAX_MODEL_ATTEMPTS
    return ModelFailure(BackendError(words), tries, after, why)


def _connection_failure(settings: ModelSettings, *, begun: bool) -> ModelFailure:
    where = base_url_of(settings)
    if begun:
        return ModelFailure(BackendError(f"the connection to {where} broke off"))
    return ModelFailure(
        BackendError(f"{where} cannot be reached"), MAX_MODEL_ATTEMPTS, why="cannot be reached"
    )


def _error_detail(error: ModelAPIError, key: Secret) -> str:
    """What the server itself said, if it said anything."""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        body = inner.get("message", inner) if isinstance(inner, dict) else inner
    return _shorten_detail(str(body or error.message), key)


def _shorten_detail(text: str, key: Secret) -> str:
    text = _KEY_LIKE.sub("•••", key.hide(" ".join(text.split())))
    return text if len(text) <= MAX_DETAIL_CHARACTERS else f"{text[:MAX_DETAIL_CHARACTERS]}…"
