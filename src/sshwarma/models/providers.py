"""Who serves models: for each kind of server, how pydantic-ai's model for it is made.

pydantic-ai and the SDKs under it take seconds to import, so that happens on the first use and in a
thread; only `load_model` imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from sshwarma.common.lazy_import import serialize_imports
from sshwarma.models.backend import BackendError
from sshwarma.models.secrets import Secret, read_key
from sshwarma.settings import ModelKind, ModelSettings

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings as Knobs

PLACEHOLDER_KEY: Final = "none"
"""Sent where a server needs no key: an empty one would make the SDKs look for another."""

DEFAULT_BASE_URLS: Final[Mapping[ModelKind, str]] = {
    "openai": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
    "ollama": "http://127.0.0.1:11434/v1",
    "llamacpp": "http://127.0.0.1:8080/v1",
}
"""Where each kind is unless the settings say. Given to the SDKs in so many words, because they
would else take an address, and where to send a key, from variables of their own."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to be asked, with the connections that are its own. `ends`: its server says
    why an answer ended, so one without a reason was cut off."""

    model: Model
    knobs: Knobs
    key: Secret
    http: httpx2.AsyncClient
    ends: bool = True


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """How a kind of server is spoken to. `plain`: chat templates there may insist that roles
    alternate, so neighbours of one role are sent as one message. `context_tokens` is what its
    models take unless the settings say: a guess that the smaller ones of today keep."""

    make: Callable[[ModelSettings, str, str, httpx2.AsyncClient], Model]
    plain: bool = False
    caches: bool = False
    context_tokens: int = 120_000


def base_url_of(settings: ModelSettings) -> str:
    """Where a model's server is."""
    return settings.base_url or DEFAULT_BASE_URLS[settings.kind]


def load_model(settings: ModelSettings, environ: Mapping[str, str]) -> LoadedModel:
    """Import what a model needs and make it. Takes seconds the first time: not for the event loop.

    Raises:
        BackendError: if its key or the package for it is missing.
    """
    key = read_key(settings, environ)
    if settings.kind == "google" and not _is_installed("google.genai"):
        raise BackendError(
            "models of kind google need one more package: pip install 'pydantic-ai-slim[google]'"
        )
    with serialize_imports():
        import pydantic_ai.direct  # noqa: F401 - here rather than at the first request
        from pydantic_ai.models import create_async_httpx2_client

        http = create_async_httpx2_client()
        kind = PROVIDER_KINDS[settings.kind]
        model = kind.make(settings, base_url_of(settings), key.reveal() or PLACEHOLDER_KEY, http)
    return LoadedModel(model, _request_settings(settings, kind), key, http)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _request_settings(settings: ModelSettings, kind: ProviderKind) -> Knobs:
    """The request's settings; retries are ours, so that they stop when a turn is stopped."""
    knobs: dict[str, Any] = {"max_retries": 0}
    if settings.max_output_tokens is not None:
        knobs["max_tokens"] = settings.max_output_tokens
    if settings.temperature is not None:
        knobs["temperature"] = settings.temperature
    if kind.caches:
        knobs["cache"] = True
    return knobs  # type: ignore[return-value]  # a TypedDict of pydantic-ai's


def _make_openai_model(
    settings: ModelSettings, url: str, key: str, http: httpx2.AsyncClient
) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key=key, http_client=http)
    return OpenAIChatModel(settings.model, provider=provider)


def _make_responses_model(
    settings: ModelSettings, url: str, key: str, http: httpx2.AsyncClient
) -> Model:
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key=key, http_client=http)
    return OpenAIResponsesModel(settings.model, provider=provider)


def _make_anthropic_model(
    settings: ModelSettings, url: str, key: str, http: httpx2.AsyncClient
) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(base_url=url, api_key=key, http_client=http)
    return AnthropicModel(settings.model, provider=provider)


def _make_google_model(
    settings: ModelSettings, url: str, key: str, http: httpx2.AsyncClient
) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(base_url=url, api_key=key, http_client=http)
    return GoogleModel(settings.model, provider=provider)


def _make_ollama_model(
    settings: ModelSettings, url: str, key: str, http: httpx2.AsyncClient
) -> Model:
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.providers.ollama import OllamaProvider

    provider = OllamaProvider(base_url=url, api_key=key, http_client=http)
    return OllamaModel(settings.model, provider=provider)


def _make_compatible_model(
    settings: ModelSettings, url: str, key: str, http: httpx2.AsyncClient
) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    # Servers that are not OpenAI's know max_tokens; many ignore max_completion_tokens.
    profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    provider = OpenAICompatibleProvider(
        settings.kind, base_url=url, api_key=key, http_client=http, profile=profile
    )
    return OpenAIChatModel(settings.model, provider=provider)


PROVIDER_KINDS: Final[Mapping[ModelKind, ProviderKind]] = {
    "openai": ProviderKind(_make_openai_model),
    "openai-responses": ProviderKind(_make_responses_model),
    "anthropic": ProviderKind(_make_anthropic_model, caches=True),
    "google": ProviderKind(_make_google_model),
    "ollama": ProviderKind(_make_ollama_model, plain=True, context_tokens=8_000),
    "llamacpp": ProviderKind(_make_compatible_model, plain=True, context_tokens=8_000),
    "compatible": ProviderKind(_make_compatible_model, plain=True, context_tokens=32_000),
}
