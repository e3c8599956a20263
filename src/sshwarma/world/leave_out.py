"""Policies for what models read of a tool's calls once their turn is over.

From weak to strong: the default, what the tool declares, and what people decided about it
(`world/overrides.py`). Each has a policy for the whole tool and may have others for single actions,
which the argument `action` of a call names. A declaration comes from a verb, the manifest of a
toolset, or a plugin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_CONTEXT_RESULT_CHARACTERS, MAX_RESULT_CHARACTERS
from sshwarma.world import overrides, things
from sshwarma.world.overrides import Override
from sshwarma.world.things import Thing

RetentionMode: TypeAlias = Literal["KEEP", "SHORT", "PARAMS_ONLY", "OMIT"]

RETENTION_MODES: Final[tuple[RetentionMode, ...]] = get_args(RetentionMode)

LEAVE_OUT_KEY: Final = "leave_out"
"""Key of a tool's metadata: the mode that the tool declares."""

SHORT_AMOUNT_KEY: Final = "short_amount"
"""Key of a tool's metadata: the characters that SHORT keeps."""

PER_ACTION_KEY: Final = "leave_out_per_action"
"""Key of a tool's metadata: by action a mode, or a mode and a number of characters or None."""

ACTION_ARGUMENT: Final = "action"
"""The argument of a call that decides between the policies of a tool."""

ACTION_PATTERN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
"""Names of actions that a policy can have."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How much of a call is kept once its turn is over.

    KEEP the result as its turn was sent it, its start (SHORT, `max_characters` of it), the call
    with the size of the result (PARAMS_ONLY), or nothing (OMIT).
    """

    mode: RetentionMode = "SHORT"
    max_characters: int = MAX_CONTEXT_RESULT_CHARACTERS

    def __str__(self) -> str:
        """Return the policy as people write it: `SHORT 500`."""
        return f"SHORT {self.max_characters}" if self.mode == "SHORT" else self.mode

    @property
    def stored(self) -> list[str | int | None]:
        """The policy as metadata and overrides store it."""
        return [self.mode, self.max_characters if self.mode == "SHORT" else None]


DEFAULT_POLICY: Final = RetentionPolicy()
"""The policy of a tool that declares none."""


def make_policy(mode: object, amount: object = None) -> RetentionPolicy:
    """Return a policy from stored values; the default for what is not one.

    `amount` counts for SHORT alone.
    """
    name = mode.upper() if isinstance(mode, str) else ""
    if name in ("KEEP", "PARAMS_ONLY", "OMIT"):
        # KEEP reads on at the same character as the turn itself did.
        return RetentionPolicy(name, MAX_RESULT_CHARACTERS)  # type: ignore[arg-type]
    is_number = isinstance(amount, int) and not isinstance(amount, bool) and amount > 0
    if name != "SHORT" or not is_number:
        return DEFAULT_POLICY
    return RetentionPolicy("SHORT", min(int(str(amount)), MAX_RESULT_CHARACTERS))


def parse_policy(text: str) -> RetentionPolicy:
    """Return the policy that a text names: a mode, or `SHORT 500`.

    Raises:
        ValueError: if it names none.
    """
    mode, _, amount = " ".join(text.split()).upper().partition(" ")
    is_number = amount.isdecimal() and 1 <= int(amount[:9]) <= MAX_RESULT_CHARACTERS
    if mode not in RETENTION_MODES or (amount and not (mode == "SHORT" and is_number)):
        raise ValueError(f"choose one of: {', '.join(RETENTION_MODES)}")
    return make_policy(mode, int(amount) if amount else None)


SHORT_HINT: Final = (
    f"SHORT takes a number of characters, at most {MAX_RESULT_CHARACTERS}: SHORT 500."
)


def check_action(name: str) -> str:
    """Return the name of an action.

    Raises:
        ValueError: if an action cannot have that name.
    """
    if not ACTION_PATTERN.fullmatch(name):
        raise ValueError("an action has letters, digits, _, . and -, at most 64")
    return name


def declare_policies(
    leave_out: str | None, per_action: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the metadata of a tool that declares policies, all keys included.

    None declares nothing, also where an earlier version of the tool did.

    Raises:
        ValueError: if one of the texts names no policy.
    """
    policy = parse_policy(leave_out) if leave_out else None
    mode, amount = policy.stored if policy is not None else (None, None)
    actions = {name: parse_policy(text).stored for name, text in (per_action or {}).items()}
    return {LEAVE_OUT_KEY: mode, SHORT_AMOUNT_KEY: amount, PER_ACTION_KEY: actions or None}


@dataclass(frozen=True, slots=True)
class _Policies:
    """The policies of one source; `whole` is None if it has only actions."""

    whole: RetentionPolicy | None = None
    per_action: Mapping[str, RetentionPolicy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolRetention:
    """The policies of a tool.

    What people decided about the whole tool goes before what the tool declares of an action.
    """

    declared: _Policies = _Policies()
    decided: _Policies = _Policies()

    @classmethod
    def of(cls, policy: RetentionPolicy) -> ToolRetention:
        """Return the policies of a tool that declares one for all its calls."""
        return cls(_Policies(policy))

    @property
    def whole(self) -> RetentionPolicy:
        """The policy of calls whose action has none of its own."""
        return self.decided.whole or self.declared.whole or DEFAULT_POLICY

    @property
    def is_decided(self) -> bool:
        """Whether people decided any of it."""
        return self.decided.whole is not None or bool(self.decided.per_action)

    @property
    def per_action(self) -> dict[str, RetentionPolicy]:
        """The policies of actions that have one of their own."""
        declared = {} if self.decided.whole is not None else self.declared.per_action
        return {**declared, **self.decided.per_action}

    def for_action(self, action: object) -> RetentionPolicy:
        """Return the policy of a call, by its argument `action`."""
        own = self.per_action.get(action) if isinstance(action, str) else None
        return own or self.whole

    def __str__(self) -> str:
        """Return the policies as people write them: `KEEP; delete: OMIT`."""
        actions = (f"{name}: {policy}" for name, policy in sorted(self.per_action.items()))
        return "; ".join([str(self.whole), *actions])


DEFAULT_RETENTION: Final = ToolRetention()


def read_declared(metadata: Mapping[str, Any]) -> ToolRetention:
    """Return the policies that a tool declares in its metadata."""
    mode = metadata.get(LEAVE_OUT_KEY)
    whole = make_policy(mode, metadata.get(SHORT_AMOUNT_KEY)) if mode is not None else None
    return ToolRetention(_Policies(whole, _read_actions(metadata.get(PER_ACTION_KEY))))


def resolve_retention(tool: Thing, override: Override | None) -> ToolRetention:
    """Return the policies of a tool, with what people decided about it."""
    declared = read_declared(tool.metadata).declared
    stored = override.leave_out if override is not None else None
    if not stored:
        return ToolRetention(declared)
    actions = _read_actions(stored)
    return ToolRetention(declared, _Policies(actions.pop("", None), actions))


def read_retention(conn: Connection, tool: Thing) -> ToolRetention:
    """Return the policies of a tool."""
    return resolve_retention(tool, overrides.read_tool_override(conn, tool))


def read_retention_by_name(conn: Connection, name: str) -> ToolRetention | None:
    """Return the policies of a tool by its qualified name; None if unknown."""
    tool = things.find_by_qualified_name(conn, name)
    return read_retention(conn, tool) if tool is not None and tool.kind == "tool" else None


def decide(
    override: Override, action: str, policy: RetentionPolicy | None
) -> dict[str, list[str | int | None]] | None:
    """Return what an override stores once people decided; None if nothing is left.

    Args:
        override: the decisions so far.
        action: the action decided about; "" for the whole tool.
        policy: the policy; None withdraws the decision.
    """
    stored = dict(override.leave_out or {})
    stored.pop(action, None)
    if policy is not None:
        stored[action] = policy.stored
    return stored or None


def _read_actions(stored: object) -> dict[str, RetentionPolicy]:
    if not isinstance(stored, Mapping):
        return {}
    policies: dict[str, RetentionPolicy] = {}
    for name, value in stored.items():
        if isinstance(value, str):  # as plugins may say it
            policies[str(name)] = make_policy(value)
        elif isinstance(value, list | tuple) and value:
            policies[str(name)] = make_policy(*value[:2])
    return policies
