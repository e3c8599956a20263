"""Detection of texts that look like API keys: never stored, never repeated."""

from __future__ import annotations

import re
from typing import Final

_KEY_PREFIXES: Final = re.compile(
    r"(?<![A-Za-z0-9])"
    r"(?:(?:sk|pk|rk|gsk|ghp|gho|hf|r8|xai|pplx|csk|nvapi|glpat)[-_]|AIza|github_pat_|AKIA)"
    r"[A-Za-z0-9_-]{16,}"
)
_RANDOM_WORD: Final = re.compile(r"[A-Za-z0-9]{24,}")

SENSITIVE_NAME_PATTERN: Final = (
    r"auth(?!or(?!i[sz]))|token|secret|passw|cookie|credential|(?:^|[-_])key(?!word)"
)
"""Parts of names whose values are secrets everywhere. `author` and `keywords` do not match.

Stored servers are checked by it whenever they are read, so a part that is added here shuts out
servers that worked before. A check that meets new data only may add parts, and says why.
"""
_SECRET_NAME: Final = re.compile(SENSITIVE_NAME_PATTERN, re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return whether what a variable, header or option has is a secret."""
    return _SECRET_NAME.search(name) is not None


def has_key_prefix(text: str) -> bool:
    """Return whether a word of a text starts like a provider's key: `sk-…`, `AIza…`."""
    return any(re.search(r"\d", match[0]) for match in _KEY_PREFIXES.finditer(text))


_LOGIN_COMMAND: Final = re.compile(r"\s*/mcp\s+login\s+\S+\s+\S", re.IGNORECASE)
"""A sign-in with the address to which the browser returned: it contains a code."""


def is_secret_line(typed: str) -> bool:
    """Return whether a typed line must not be stored in input history."""
    if _LOGIN_COMMAND.match(typed):
        return True
    setting = typed.lstrip().lower().startswith("/model ")
    return looks_like_key(typed) if setting else has_key_prefix(typed)


def looks_like_key(text: str) -> bool:
    """Return whether a word in the text is, or may well be, a key.

    Long random words count, so this is for fields of a name or an address only, not for talk.
    """
    return has_key_prefix(text) or any(
        all(re.search(kind, match[0]) for kind in ("[a-z]", "[A-Z]", r"\d"))
        or re.fullmatch(r"(?=.*\d)[0-9a-f]{32,}", match[0])
        for match in _RANDOM_WORD.finditer(text)
    )
