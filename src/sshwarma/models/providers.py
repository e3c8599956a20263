"""Model providers: builds the pydantic-ai model of each kind of server.

pydantic-ai and its SDKs take seconds to import. Only `load_model` imports them, at the first use
and in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from sshwarma.common.lazy_import import serialize_imports
from sshwarma.models.backend import BackendError
from sshwarma.models.local_process import LocalAddress
from sshwarma.models.profiles import find_output_tokens
from sshwarma.models.request_body import record_request
from sshwarma.models.secrets import Secret, read_key
from sshwarma.settings import ModelKind, ModelSettings

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings as Knobs

PLACEHOLDER_KEY: Final = "none"
"""Key for servers that need none: with an empty one the SDKs would look for another."""

DEFAULT_BASE_URLS: Final[Mapping[ModelKind, str]] = {
    "openai": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
    "ollama": "http://127.0.0.1:11434/v1",
    "llamacpp": "http://127.0.0.1:8080/v1",
    "local": "llama.cpp on this server",  # for people: its process chooses a port
}
"""Base URL of each kind unless the settings name one. It is passed to the SDKs explicitly, because
they would otherwise read it, and so where to send the key, from their own environment variables."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A loaded model with its own HTTP client.

    `reports_finish_reason`: a response of its server without a finish reason was truncated.
    """

    model: Model
    request_settings: Knobs
    key: Secret
    http_client: httpx2.AsyncClient
    reports_finish_reason: bool = True


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """Properties of a kind of server.

    Attributes:
        make: Creates the pydantic-ai model.
        merges_roles: Join neighbouring messages of one role, because chat templates there may
            require alternating roles.
        supports_cache: Whether to request prompt caching.
        has_tool_choice: Whether a request can offer tools and forbid to call them.
        context_tokens: Context window unless the settings name one; a guess that also fits today's
            smaller models.
    """

    make: Callable[[ModelSettings, str, str, httpx2.AsyncClient], Model]
    merges_roles: bool = False
    supports_cache: bool = False
    has_tool_choice: bool = True
    context_tokens: int = 120_000


def base_url_of(settings: ModelSettings) -> str:
    """Return the base URL of a model's server."""
    return settings.base_url or DEFAULT_BASE_URLS[settings.kind]


def load_model(
    settings: ModelSettings,
    environ: Mapping[str, str],
    address: LocalAddress | None = None,
) -> LoadedModel:
    """Import the libraries of a model and create it.

    The first call takes seconds, so do not call it on the event loop.

    Args:
        settings: Settings of the model.
        environ: Variables that may hold its key.
        address: Where a model of kind local answers.

    Raises:
        BackendError: if its key or its package is missing.
    """
    key = address.key if address is not None else read_key(settings, environ)
    url = address.url if address is not None else base_url_of(settings)
    check_package(settings.kind)
    with serialize_imports():
        import pydantic_ai.direct  # noqa: F401 - here rather than at the first request
        from pydantic_ai.models import create_async_httpx2_client

        from sshwarma.models.event_stream import check_events

        http = create_async_httpx2_client()
        http.headers["Accept-Encoding"] = "identity"  # events are checked before the SDK reads them
        http.event_hooks["request"].append(record_request)
        http.event_hooks["response"].append(check_events)
        kind = PROVIDER_KINDS[settings.kind]
        model = kind.make(settings, url, key.reveal() or PLACEHOLDER_KEY, http)
    return LoadedModel(model, _request_settings(settings, kind), key, http)


def check_package(kind: ModelKind) -> None:
    """Check that the library of a kind of models is installed.

    Raises:
        BackendError: with the command that installs it.
    """
    if kind == "google" and not _is_installed("google.genai"):
        raise BackendError(
            "models of kind google need another package: pip install 'sshwarma[google]'"
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _request_settings(settings: ModelSettings, kind: ProviderKind) -> Knobs:
    """Return the request settings; SDK retries are off, so that a turn can stop."""
    context_tokens = settings.context_tokens or kind.context_tokens
    max_tokens = find_output_tokens(settings, context_tokens)
    options: dict[str, Any] = {"max_retries": 0, "max_tokens": max_tokens}
    if settings.seed is not None:
        options["seed"] = settings.seed
    if settings.temperature is not None:
        options["temperature"] = settings.temperature
    if kind.supports_cache:
        options["cache"] = True
    return options  # type: ignore[return-value]  # a TypedDict of pydantic-ai's


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
    "anthropic": ProviderKind(_make_anthropic_model, supports_cache=True),
    "google": ProviderKind(_make_google_model),
    "ollama": ProviderKind(
        _make_ollama_model, merges_roles=True, has_tool_choice=False, context_tokens=8_000
    ),
    "llamacpp": ProviderKind(
        _make_compatible_model, merges_roles=True, has_tool_choice=False, context_tokens=8_000
    ),
    "local": ProviderKind(
        _make_compatible_model, merges_roles=True, has_tool_choice=False, context_tokens=8_000
    ),
    "compatible": ProviderKind(
        _make_compatible_model, merges_roles=True, has_tool_choice=False, context_tokens=32_000
    ),
}
