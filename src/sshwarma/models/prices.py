"""What an answer costs, in US dollars: by the prices set on its model, else by the list prices that
genai-prices knows. Where neither is there, the price is not known, and is not guessed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sshwarma.common.lazy_import import serialize_imports
from sshwarma.models.providers import base_url_of
from sshwarma.settings import ModelSettings
from sshwarma.world.usage import TokenUsage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

TOKENS_PER_PRICE = 1_000_000


def add_cost(settings: ModelSettings, used: TokenUsage, answer: ModelResponse | None) -> TokenUsage:
    """`used` with what it costs. `answer` is what was counted, if it was: it knows of cached
    tokens, for which list prices are lower."""
    cost = _cost_from_settings(settings, used)
    if cost is None:
        cost = _cost_from_price_list(answer or _make_response(settings, used))
    return replace(used, cost=cost)


def is_price_known(settings: ModelSettings) -> bool:
    """Whether the price of a model is known. Imports what the list is in: not for the event
    loop."""
    with serialize_imports():
        return add_cost(settings, TokenUsage(1000, 1000), None).cost is not None


def _cost_from_settings(settings: ModelSettings, used: TokenUsage) -> float | None:
    """Cached tokens count as any others."""
    if settings.price_in is None or settings.price_out is None:
        return None
    sent = used.prompt_tokens * settings.price_in
    return (sent + used.completion_tokens * settings.price_out) / TOKENS_PER_PRICE


def _cost_from_price_list(answer: ModelResponse) -> float | None:
    try:
        return float(answer.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None


def _make_response(settings: ModelSettings, used: TokenUsage) -> ModelResponse:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.usage import RequestUsage

    return ModelResponse(
        parts=[],
        usage=RequestUsage(input_tokens=used.prompt_tokens, output_tokens=used.completion_tokens),
        model_name=settings.model,
        provider_name=settings.kind.partition("-")[0],
        provider_url=base_url_of(settings),
    )
