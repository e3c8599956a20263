"""What an answer costs, in US dollars: by the prices set on its model, else by the list prices that
genai-prices knows. Where neither is there, the price is not known, and is not guessed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sshwarma.common.lazy_import import serialize_imports
from sshwarma.models.backend import Usage
from sshwarma.models.providers import address
from sshwarma.settings import ModelSettings

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

MILLION = 1_000_000


def priced(settings: ModelSettings, used: Usage, answer: ModelResponse | None) -> Usage:
    """`used` with what it costs. `answer` is what was counted, if it was: it knows of cached
    tokens, for which list prices are lower."""
    cost = _by_settings(settings, used)
    if cost is None:
        cost = _by_list(answer or _like_an_answer(settings, used))
    return replace(used, cost=cost)


def known(settings: ModelSettings) -> bool:
    """Whether the price of a model is known. Imports what the list is in: not for the event
    loop."""
    with serialize_imports():
        return priced(settings, Usage(1000, 1000), None).cost is not None


def _by_settings(settings: ModelSettings, used: Usage) -> float | None:
    """Cached tokens count as any others."""
    if settings.price_in is None or settings.price_out is None:
        return None
    sent = used.prompt_tokens * settings.price_in
    return (sent + used.completion_tokens * settings.price_out) / MILLION


def _by_list(answer: ModelResponse) -> float | None:
    try:
        return float(answer.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None


def _like_an_answer(settings: ModelSettings, used: Usage) -> ModelResponse:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.usage import RequestUsage

    return ModelResponse(
        parts=[],
        usage=RequestUsage(input_tokens=used.prompt_tokens, output_tokens=used.completion_tokens),
        model_name=settings.model,
        provider_name=settings.kind.partition("-")[0],
        provider_url=address(settings),
    )
