"""The values of a model's settings that are in force, as people read them."""

from __future__ import annotations

import asyncio
from typing import Final

from sshwarma.common.limits import DEFAULT_LOCAL_BASE_MEMORY_MIB
from sshwarma.models.local_process import default_threads
from sshwarma.models.providers import base_url_of
from sshwarma.models.roster import RosterEntry
from sshwarma.models.secrets import DEFAULT_KEY_VARIABLES
from sshwarma.settings import ModelSettings

LIMIT_FIELDS: Final = (
    "turn_steps",
    "turn_seconds",
    "turn_tokens",
    "turn_cost",
    "day_tokens",
    "day_cost",
)
OTHER_FIELDS: Final = (
    "key_env",
    "key_file",
    "context_tokens",
    "max_output_tokens",
    "profile",
    "tools",
    "temperature",
    "seed",
    "threads",
    "memory_mib",
    "first_token_seconds",
    "stall_seconds",
    "result_share",
    "rooms",
    "price_in",
    "price_out",
)


NONE_IS_A_VALUE: Final = frozenset({"tools"})
"""Settings of which `none` is one of the values; of the others it removes a limit."""


async def read_values(entry: RosterEntry, settings: ModelSettings) -> dict[str, str]:
    """Return each setting's value in force, by its name; the default if none is set.

    Args:
        entry: The model in the roster, whose backend has these settings.
        settings: Its settings.
    """
    limits = {name: _format_setting(getattr(settings, name), "no limit") for name in LIMIT_FIELDS}
    return {
        "kind": settings.kind,
        "model": settings.model,
        "base_url": base_url_of(settings),
        "prompt": settings.prompt or "none",
        **_format_other_fields(settings, await format_price(settings)),
        "context_tokens": str(entry.backend.context_tokens),
        "max_output_tokens": str(entry.backend.output_tokens),
        "profile": entry.backend.profile.name,
        "tools": entry.backend.profile.tools,
        **limits,
    }


def _format_other_fields(settings: ModelSettings, price: str) -> dict[str, str]:
    default_key = "" if settings.key_file else DEFAULT_KEY_VARIABLES.get(settings.kind, "")
    unset = dict.fromkeys(OTHER_FIELDS, "the provider's default") | {
        "key_env": default_key or "none",
        "key_file": "none",
        "rooms": "every room",
        "seed": "random",
        "threads": str(default_threads()) if settings.kind == "local" else "(kind local only)",
        "memory_mib": f"{DEFAULT_LOCAL_BASE_MEMORY_MIB:,} plus twice the file size"
        if settings.kind == "local"
        else "(kind local only)",
        "price_in": price,
        "price_out": price,
    }
    return {name: _format_setting(getattr(settings, name), unset[name]) for name in OTHER_FIELDS}


async def format_price(settings: ModelSettings) -> str:
    """Return the price of a model, or where it comes from."""
    from sshwarma.models import prices

    if settings.price_in is not None and settings.price_out is not None:
        return f"${settings.price_in:g} sent, ${settings.price_out:g} received, a million tokens"
    is_known = await asyncio.to_thread(prices.is_price_known, settings)
    return "its provider's list price" if is_known else "unknown: set price_in and price_out"


def _format_setting(value: object, nothing: str = "none") -> str:
    """Format a setting; return `nothing` for None, "" and an empty list."""
    if value in (None, "", ()):
        return nothing
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
