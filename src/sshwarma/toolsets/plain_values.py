"""Values of servers that are certainly no secret: they can be nothing else.

The list is closed: any other word may be a password. What stands here is kept in archives, so that
who imports one need not set a variable for a port or a level of the log, which only owners may.
"""

from __future__ import annotations

import re
from typing import Final

from sshwarma.common.secret_detection import SENSITIVE_NAME_PATTERN

_SECRET_NAME: Final = re.compile(
    rf"{SENSITIVE_NAME_PATTERN}|pass|pwd|code|cred|signature|key|salt|bearer|session"
    r"|unseal|jwt|(?:^|[^a-z])(?:pin|pw|otp|totp|mfa|2fa|psk|seed)(?![a-z])",
    re.IGNORECASE,
)
"""Names beside which nothing is kept in an archive, where strangers read it.

Far more than what is refused elsewhere: a mistake here costs an importer one variable.
"""
_NUMBER_NAME: Final = re.compile(
    r"(?:^|[^a-z])(?:port|level|timeout|seconds|minutes|hours|days|workers|threads|retries|limit|size"
    r"|max|min|wait|count|depth|width|height|interval|debug|verbose|version|page|top|batch)(?![a-z])",
    re.IGNORECASE,
)
"""Names of which a number is no secret; beside any other it may be a code."""

_CHOICE_NAME: Final = re.compile(
    r"(?:^|[_-])(?:mode|level|format|language|locale|encoding|transport|type|style|accept)$",
    re.IGNORECASE,
)
_CHOICE: Final = re.compile(r"[a-z]{1,12}(?:[/_-][a-z]{1,12})?")
"""A word that a program offers to choose, such as `fast` or `application/json`."""

_NUMBER: Final = re.compile(r"-?[0-9]{1,5}(?:\.[0-9]{1,3})?")
_VARIABLE: Final = re.compile(r"\$[A-Z][A-Z_]{0,63}")
_OWN_PATH: Final = re.compile(r"/ts(?:/[a-z_][a-z_.-]{0,30}){0,4}")
_WORDS: Final = frozenset(
    {
        "", ".", "true", "false", "yes", "no", "on", "off", "none", "null", "auto", "default",
        "trace", "debug", "info", "warn", "warning", "error", "critical",
        "stdio", "sse", "http", "https", "streamable-http", "json", "text", "utf-8", "utc",
        "localhost", "127.0.0.1", "::1",
    }
)  # fmt: skip


def is_plain_value(value: str, name: str) -> bool:
    """Return whether a value is no secret.

    Plain are numbers beside names such as `port`, words such as `true`, `debug` and `localhost`,
    folders of the toolset itself, `$VARIABLE`, and words of small letters beside names of choices,
    such as `fast` beside `--mode`.

    Args:
        value: the value.
        name: of the variable, header or option that it stands beside.
    """
    if _SECRET_NAME.search(name):
        return False
    if _NUMBER.fullmatch(value):
        return bool(_NUMBER_NAME.search(name))
    if _CHOICE_NAME.search(name) and _CHOICE.fullmatch(value):
        return True
    is_path = _OWN_PATH.fullmatch(value) or _VARIABLE.fullmatch(value)
    return bool(is_path) or value.lower() in _WORDS
