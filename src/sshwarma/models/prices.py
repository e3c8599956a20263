"""Cost of an answer in US dollars.

The prices of the model's settings apply, else the list prices of genai-prices. Without either, the
price is unknown and is not guessed.
"""

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

COST_LIMITS = ("turn_cost", "day_cost")
"""Settings of a model that need its price."""


def add_cost(settings: ModelSettings, used: TokenUsage, answer: ModelResponse | None) -> TokenUsage:
    """Return `used` with its cost.

    `answer` is the response that the provider counted, if any: it includes cached tokens, whose
    list prices are lower.
    """
    cost = _cost_from_settings(settings, used)
    if cost is None:
        cost = _cost_from_price_list(answer or _make_response(settings, used))
    return replace(used, cost=cost)


def is_price_known(settings: ModelSettings) -> bool:
    """Return whether the price of a model is known.

    Imports the price list, so do not call it on the event loop.
    """
    with serialize_imports():
        return add_cost(settings, TokenUsage(1000, 1000), None).cost is not None


def _cost_from_settings(settings: ModelSettings, used: TokenUsage) -> float | None:
    """Return the cost by the configured prices; cached tokens cost as others."""
    if settings.price_in is None or settings.price_out is None:
        return None
    prompt_cost = used.prompt_tokens * settings.price_in
    return (prompt_cost + used.completion_tokens * settings.price_out) / TOKENS_PER_PRICE


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
