"""`[[models]]`: one model that answers when it is mentioned."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from sshwarma.common.limits import (
    BACKEND_SILENCE_SECONDS,
    DEFAULT_DAY_TOKENS,
    DEFAULT_FIRST_TOKEN_SECONDS,
    DEFAULT_FULL_OUTPUT_TOKENS,
    DEFAULT_LOCAL_BASE_MEMORY_MIB,
    DEFAULT_RESULT_SHARE,
    DEFAULT_SMALL_OUTPUT_TOKENS,
    DEFAULT_STALL_SECONDS,
    DEFAULT_TURN_SECONDS,
    DEFAULT_TURN_STEPS,
    DEFAULT_TURN_TOKENS,
    MAX_LOCAL_THREADS,
    MAX_MODEL_ID_CHARACTERS,
    MAX_MODEL_ROOMS,
    MAX_MODEL_TIMEOUT_SECONDS,
    MAX_RESULT_SHARE,
    MAX_SEED,
    MAX_SMALL_BILLIONS,
    MAX_SMALL_CONTEXT_TOKENS,
    MAX_SYSTEM_PROMPT_CHARACTERS,
    MAX_TEMPERATURE,
    MAX_TURN_SECONDS,
    MAX_TURN_STEPS,
    MIN_LOCAL_MEMORY_MIB,
    MIN_MODEL_CONTEXT_TOKENS,
    MIN_RESULT_SHARE,
)
from sshwarma.common.secret_detection import has_key_prefix, looks_like_key
from sshwarma.settings.addresses import check_web_url
from sshwarma.settings.paths import SettingsPath
from sshwarma.settings.section import SettingsSection, TableName

ModelKind = Literal[
    "openai",
    "openai-responses",
    "anthropic",
    "google",
    "ollama",
    "llamacpp",
    "compatible",
    "local",
]

ProfileName = Literal["small", "full"]
"""How much a model is sent; see `sshwarma.wrap.profiles`."""

OfferedTools = Literal["all", "few", "none"]
"""Which of its tools a model is offered."""

_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_variable_name(value: str) -> str:
    if looks_like_key(value):
        raise ValueError("this looks like the key itself: give the variable's name")
    if value and not _VARIABLE_NAME.fullmatch(value):
        raise ValueError("must be the name of an environment variable, such as OPENAI_API_KEY")
    return value


def _check_key_path(value: object) -> object:
    if has_key_prefix(str(value)) or ("/" not in str(value) and looks_like_key(str(value))):
        raise ValueError("this looks like the key itself: give the path of a file with it")
    return value


def _check_no_key(value: str) -> str:
    if has_key_prefix(value):
        raise ValueError("this looks like a key: give key_env or key_file")
    return value


def _split_names(value: object) -> object:
    """Return names of a typed list, `lab,den` or `lab den`; other values as they are."""
    return tuple(re.split(r"[,\s]+", value.strip(", "))) if isinstance(value, str) else value


class ModelSettings(SettingsSection):
    """One model that answers when mentioned; `[[models]]` in the file."""

    # Hidden because a key may have been put into the wrong field.
    model_config = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)

    name: TableName = Field(description="The agent's name, as in @name.")
    kind: ModelKind = Field(
        description="Provider, which decides the API to use. google needs the package of"
        " `pip install 'sshwarma[google]'`."
    )
    model: Annotated[str, AfterValidator(_check_no_key)] = Field(
        min_length=1, max_length=MAX_MODEL_ID_CHARACTERS, description="Model id at the provider."
    )
    base_url: Annotated[str, AfterValidator(check_web_url)] | None = Field(
        None, description="URL of the API (default: the provider's own); required by `compatible`."
    )
    key_env: Annotated[str, AfterValidator(_check_variable_name)] = Field(
        "",
        description="Environment variable with the API key (default: the provider's usual one).",
    )
    key_file: Annotated[SettingsPath, BeforeValidator(_check_key_path)] | None = Field(
        None, description="File with the API key; only its owner may read it (0600)."
    )
    context_tokens: int | None = Field(
        None,
        ge=MIN_MODEL_CONTEXT_TOKENS,
        description="Context window in tokens; a longer log is summarized.",
    )
    rooms: Annotated[tuple[TableName, ...], BeforeValidator(_split_names)] = Field(
        (),
        max_length=MAX_MODEL_ROOMS,
        description="Names of the rooms in which it may be called (default: every room).",
    )
    max_output_tokens: int | None = Field(
        None,
        gt=0,
        description="Maximum length of an answer of one step in tokens, reasoning included"
        f" (default: {DEFAULT_FULL_OUTPUT_TOKENS:,}, {DEFAULT_SMALL_OUTPUT_TOKENS:,} with the"
        " profile small, or less with a small context). A longer answer is cut, and marked.",
    )
    profile: ProfileName | None = Field(
        None,
        description="Size of the context that it is sent: full or small. small: short rules,"
        " examples and few tools. Default: small for kind local and, on a server of yours, for a"
        f" name with at most {MAX_SMALL_BILLIONS:g}b or a context up to"
        f" {MAX_SMALL_CONTEXT_TOKENS:,} tokens; otherwise full.",
    )
    tools: OfferedTools | None = Field(
        None,
        description="Tools that it is offered: all, few (the most useful ones, with short schemas)"
        " or none (default: few with the profile small, else all).",
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=MAX_LOCAL_THREADS,
        description="Threads of the process of a model of kind local (default: the processors but"
        " one).",
    )
    memory_mib: int | None = Field(
        None,
        ge=MIN_LOCAL_MEMORY_MIB,
        description="Memory limit of a local model's process in MiB, the mapped model file not"
        f" counted (default: {DEFAULT_LOCAL_BASE_MEMORY_MIB:,} plus twice the file's size).",
    )
    seed: int | None = Field(
        None,
        ge=0,
        le=MAX_SEED,
        description="Seed of sampling, for answers that can be repeated (default: random);"
        " some providers ignore it.",
    )
    result_share: float = Field(
        DEFAULT_RESULT_SHARE,
        ge=MIN_RESULT_SHARE,
        le=MAX_RESULT_SHARE,
        description="Share of the context window that results of tools may take in a turn. They may"
        " take more while the rest is free; then old results are cut.",
    )
    temperature: float | None = Field(
        None, ge=0, le=MAX_TEMPERATURE, description="Sampling temperature."
    )
    prompt: Annotated[str, AfterValidator(_check_no_key)] = Field(
        "", max_length=MAX_SYSTEM_PROMPT_CHARACTERS, description="System prompt of this model."
    )
    first_token_seconds: float = Field(
        DEFAULT_FIRST_TOKEN_SECONDS,
        gt=0,
        le=MAX_MODEL_TIMEOUT_SECONDS,
        description="Timeout for the first token, in seconds.",
    )
    stall_seconds: float = Field(
        DEFAULT_STALL_SECONDS,
        gt=0,
        le=MAX_MODEL_TIMEOUT_SECONDS,
        description="Timeout between two parts of the provider's answer, in seconds; then the"
        " request fails. With any value, a turn ends after"
        f" {BACKEND_SILENCE_SECONDS:.0f} s of silence.",
    )
    turn_steps: int = Field(
        DEFAULT_TURN_STEPS,
        ge=1,
        le=MAX_TURN_STEPS,
        description="Maximum number of requests of one turn; tools are called between them.",
    )
    turn_seconds: float = Field(
        DEFAULT_TURN_SECONDS,
        gt=0,
        le=MAX_TURN_SECONDS,
        description="Timeout of one turn, tools included, in seconds.",
    )
    turn_tokens: int | None = Field(
        DEFAULT_TURN_TOKENS,
        gt=0,
        description="Maximum number of tokens of one turn, sent and received, over all its steps.",
    )
    turn_cost: float | None = Field(
        None, gt=0, description="Maximum cost of one turn, in US dollars; the price must be known."
    )
    day_tokens: int | None = Field(
        DEFAULT_DAY_TOKENS,
        gt=0,
        description="Maximum number of tokens of one day (UTC), over all rooms.",
    )
    day_cost: float | None = Field(
        None,
        gt=0,
        description="Maximum cost of one day (UTC), in US dollars; the price must be known.",
    )
    price_in: float | None = Field(
        None, ge=0, description="US dollars per million tokens sent (default: the list price)."
    )
    price_out: float | None = Field(
        None, ge=0, description="US dollars per million tokens received; set both or neither."
    )

    @model_validator(mode="after")
    def _check_key_and_url(self) -> Self:
        if self.kind == "compatible" and self.base_url is None:
            raise ValueError("kind compatible needs base_url")
        if self.kind == "local":
            if self.base_url or self.key_env or self.key_file is not None:
                raise ValueError("kind local runs on this server: it has no base_url and no key")
        elif self.threads is not None or self.memory_mib is not None:
            raise ValueError("threads and memory_mib are for kind local")
        if self.key_env and self.key_file is not None:
            raise ValueError("give key_env or key_file, not both")
        return self
