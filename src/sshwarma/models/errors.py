"""Model errors: messages for people, and whether a retry may help."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sshwarma.common.limits import MAX_MODEL_ATTEMPTS, MAX_RETRY_AFTER_SECONDS
from sshwarma.models.backend import BackendError
from sshwarma.models.providers import base_url_of
from sshwarma.models.retry import ModelFailure
from sshwarma.models.secrets import Secret, describe_key_location
from sshwarma.models.stream_errors import (
    EmptyAnswer,
    StreamDamaged,
    StreamStalled,
    StreamTruncated,
)
from sshwarma.settings import ModelSettings

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError

MAX_DETAIL_CHARACTERS: Final = 300

_CONTEXT_TOO_LONG: Final = re.compile(
    r"context.{0,12}(length|size|window)|(prompt|input) is too long|too many tokens"
    r"|exceed_context|input length|prompt length|token count.{0,40}exceeds"
    r"|reduce the length of the (messages|prompt)|too large for model with \d+ maximum",
    re.IGNORECASE | re.DOTALL,
)
_KEY_LIKE: Final = re.compile(r"\b(sk|key|AIza)[-_]?[A-Za-z0-9*_-]{8,}")


def expected_exceptions() -> tuple[type[Exception], ...]:
    """Return the exceptions that `classify_error` handles; any other is a bug."""
    import httpx2
    from pydantic_ai.exceptions import AgentRunError, UserError

    return (
        StreamStalled,
        EmptyAnswer,
        StreamTruncated,
        StreamDamaged,
        AgentRunError,
        UserError,
        httpx2.HTTPError,
    )


def classify_error(
    error: Exception, settings: ModelSettings, key: Secret, *, has_begun: bool
) -> ModelFailure:
    """Classify an exception of a request; `has_begun` if part of the answer arrived."""
    from pydantic_ai import exceptions as known

    model, address = settings.model, base_url_of(settings)
    if isinstance(error, StreamStalled):
        phase = "in the middle of its answer" if error.has_begun else "before its first token"
        return ModelFailure(BackendError(f"{model} sent nothing for {error.seconds:g} s {phase}"))
    if isinstance(error, StreamTruncated):
        return _connection_failure(settings, error, has_begun=True)
    if isinstance(error, StreamDamaged):
        return ModelFailure(BackendError(f"the stream of its provider is damaged: {error}"))
    if isinstance(error, EmptyAnswer):
        if "length" in error.args:
            text = f"{model} reached its token limit before it began to answer"
            return ModelFailure(BackendError(text))
        if "content_filter" in error.args:
            return ModelFailure(
                BackendError(f"{address} blocked the answer of {model} (content filter)")
            )
        return ModelFailure(
            BackendError(f"{model} gave no answer"), max_attempts=2, reason="no answer"
        )
    if isinstance(error, known.ContentFilterError):
        return ModelFailure(
            BackendError(f"{address} blocked the answer of {model} (content filter)")
        )
    if isinstance(error, known.UnexpectedModelBehavior):
        if "ended without content" in str(error):
            return ModelFailure(
                BackendError(f"{model} gave no answer"), max_attempts=2, reason="no answer"
            )
        return ModelFailure(BackendError(f"the response of {model} is invalid"))
    if isinstance(error, known.ModelAPIError):
        return _classify_api_error(error, settings, key, has_begun=has_begun)
    if isinstance(error, known.UserError):
        return ModelFailure(
            BackendError(f"{model} does not support this: {_shorten_detail(str(error), key)}")
        )
    return _connection_failure(settings, error, has_begun=has_begun)


def _classify_api_error(
    error: ModelAPIError, settings: ModelSettings, key: Secret, *, has_begun: bool
) -> ModelFailure:
    """Classify an error of the server or of the connection to it."""
    from pydantic_ai import exceptions as known

    model, address = settings.model, base_url_of(settings)
    detail = _error_detail(error, key)
    retry_after = error.retry_after
    if isinstance(error, known.ModelContextWindowExceededError) or (
        _CONTEXT_TOO_LONG.search(detail) and not isinstance(error, known.ModelRateLimitError)
    ):
        text = f"the conversation exceeds the context window of {model}"
        return ModelFailure(BackendError(text, is_context_too_long=True))
    if isinstance(error, known.ModelAuthenticationError):
        location = describe_key_location(settings)
        advice = f"check {location}" if location else "set key_env or key_file"
        return ModelFailure(BackendError(f"{address} rejected the key; {advice}"))
    if isinstance(error, known.ModelQuotaExceededError):
        return ModelFailure(BackendError(f"{address} reports no credit left"))
    if isinstance(error, known.ModelNotFoundError):
        # A server answers 404 to a wrong path of base_url, too: its own words tell which it is.
        return ModelFailure(BackendError(f"{address} does not know {model}, or its path: {detail}"))
    if isinstance(error, known.ModelRateLimitError):
        hint = f"; try again in {retry_after:.0f} s" if retry_after else ""
        return _retryable_failure(f"{address} is rate limiting{hint}", retry_after, "rate limited")
    if isinstance(error, known.ModelConnectionError):
        return _connection_failure(settings, error, has_begun=has_begun)
    status = getattr(error, "status_code", None)
    if isinstance(error, known.ModelUnavailableError | known.ModelServerError) or (
        isinstance(status, int) and (status >= 500 or status in (408, 409))
    ):
        if getattr(error, "provider_retry_hint", None) is False:
            retry_after = MAX_RETRY_AFTER_SECONDS + 1
        text = f"{address} failed ({status or 'error'}): {detail}"
        return _retryable_failure(text, retry_after, "server error")
    if isinstance(error.__cause__, ValueError):
        text = (
            f"the stream of its provider is damaged: {_shorten_detail(str(error.__cause__), key)}"
        )
        return ModelFailure(BackendError(text))
    return ModelFailure(BackendError(f"{address} refused the request: {detail}"))


def _retryable_failure(message: str, after: float | None, why: str) -> ModelFailure:
    attempts = 1 if after is not None and after > MAX_RETRY_AFTER_SECONDS else MAX_MODEL_ATTEMPTS
    return ModelFailure(BackendError(message), attempts, after, why)


def _connection_failure(
    settings: ModelSettings, error: Exception, *, has_begun: bool
) -> ModelFailure:
    address, text = base_url_of(settings), "the connection to its provider was lost"
    if has_begun:
        return ModelFailure(BackendError(text))
    if _is_connection_lost(error):
        return ModelFailure(BackendError(text), MAX_MODEL_ATTEMPTS, reason="connection lost")
    return ModelFailure(
        BackendError(f"cannot reach {address}"), MAX_MODEL_ATTEMPTS, reason="unreachable"
    )


def _is_connection_lost(error: BaseException) -> bool:
    """Return whether a connection was made before it failed."""
    import httpx2

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, (httpx2.ReadError, httpx2.RemoteProtocolError)):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _error_detail(error: ModelAPIError, key: Secret) -> str:
    """Return the server's own error message, if it sent one."""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        body = inner.get("message", inner) if isinstance(inner, dict) else inner
    return _shorten_detail(str(body or error.message), key)


def _shorten_detail(text: str, key: Secret) -> str:
    text = _KEY_LIKE.sub("•••", key.hide(" ".join(text.split())))
    return text if len(text) <= MAX_DETAIL_CHARACTERS else f"{text[:MAX_DETAIL_CHARACTERS]}…"
