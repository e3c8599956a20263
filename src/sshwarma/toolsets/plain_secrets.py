"""Finds secrets in plain text in the servers of a manifest, which are stored.

The name says it, of a variable, a header or an option; or the form: a password in an address, a key
of a provider. A password beside a name that does not say so, such as `-p hunter2`, looks like any
other word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from sshwarma.common.secret_detection import (
    SENSITIVE_NAME_PATTERN,
    has_key_prefix,
    is_secret_name,
    looks_like_key,
)
from sshwarma.common.shorten import shorten_name
from sshwarma.terminal.escape import escape_lines
from sshwarma.toolsets.manifest import ServerEntry
from sshwarma.toolsets.manifest_errors import format_place
from sshwarma.toolsets.secret_values import VARIABLE

_ADDRESS: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://(?P<authority>[^\s\"'<>/?#]*)[^\s\"'<>]*"
)
_QUERY_VALUE: Final = re.compile(r"[?&;#]([^=&;#]+)=([^&;#]*)")
_SECRET_IN_ADDRESS: Final = re.compile(
    rf"{SENSITIVE_NAME_PATTERN}|pwd|signature|key$", re.IGNORECASE
)
"""Names of values in an address, which is stored and shown.

More than in the settings, where `PWD` is a folder and `SIGNATURE_VERSION` no secret: in an address
they are `?pwd=` and a signature, and `?apikey=` has no separator.
"""

_OPTION: Final = re.compile(r"--?[A-Za-z][A-Za-z0-9_.-]*")
_NAME: Final = re.compile(r"-{0,2}[A-Za-z][A-Za-z0-9_.-]*")
_SWITCH: Final = re.compile(r"--(?:no|without|disable|skip)-")
"""Options that turn something off, such as `--no-auth`: what follows one is not its value."""

_HEADER: Final = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9-]*):\s*(?P<value>\S.*)", re.DOTALL)
_HEADER_OPTIONS: Final = ("-H", "--header", "--headers")
_OWN_FILES: Final = "/ts/"
"""The files of the toolset: a path to one, such as `--key-file /ts/a.pem`, is no secret."""


def find_plain_secret(server: ServerEntry) -> str:
    """Return the first secret in plain text, as a problem with its field; or ""."""
    return next(_list_secrets(server), "")


def _list_secrets(server: ServerEntry) -> Iterator[str]:
    yield from _check_text("command", server.command or "")
    yield from _check_text("url", server.url or "")
    for index, argument in enumerate(server.args):
        place = f"args[{index}]"
        yield from _check_argument(place, argument, server.args[index - 1] if index else "")
        yield from _check_text(place, argument)
    for field, values in (("env", server.env), ("headers", server.headers)):
        for name, value in values.items():
            place = format_place((field, name))
            if is_secret_name(name) and _is_plain(value):
                yield _describe(place, "looks like a secret", f"${{{_name_variable(name)}}}")
            yield from _check_text(place, value)


def _check_argument(place: str, argument: str, before: str) -> Iterator[str]:
    """Find values of options, variables and headers with the name of a secret."""
    name, equals, value = argument.partition("=")
    if equals and is_secret_name(name) and _is_plain(value):
        if _NAME.fullmatch(name) or looks_like_key(value):
            yield _describe_value(place, name, f"{shorten_name(name)}=")
    elif _OPTION.fullmatch(before) and not _SWITCH.match(before) and is_secret_name(before):
        is_value = not argument.startswith("-") and not argument.startswith(_OWN_FILES)
        if is_value and _is_plain(argument):
            yield _describe_value(place, before, "")
    is_header = before in _HEADER_OPTIONS or ": " in argument
    header = _HEADER.fullmatch(value if name in _HEADER_OPTIONS else argument if is_header else "")
    if header is not None and is_secret_name(header["name"]) and _is_plain(header["value"]):
        yield _describe_value(place, header["name"], f"{shorten_name(header['name'])}: ")


def _check_text(place: str, text: str) -> Iterator[str]:
    """Find passwords and other secrets of addresses in a text, and keys of providers."""
    for found in _ADDRESS.finditer(text):
        _, _, password = found["authority"].rpartition("@")[0].partition(":")
        if _is_plain(password):
            yield _describe(place, "has an address with a password", "${PASSWORD} in its place")
        for name, value in _QUERY_VALUE.findall(found[0]):
            name = unquote(name)
            if _SECRET_IN_ADDRESS.search(name) and _is_plain(value):
                yield _describe_value(place, name, f"{shorten_name(escape_lines(name))}=")
    if has_key_prefix(text):
        yield _describe(place, "looks like a key", "${KEY} in its place")


def _is_plain(value: str) -> bool:
    return bool(value) and not VARIABLE.search(value)


def _describe_value(place: str, name: str, before: str) -> str:
    """Return a problem of the value beside a name, with what to write there."""
    shown = shorten_name(escape_lines(name))
    what = f"the value of {shown} looks like a secret"
    return _describe(place, what, f"{before}${{{_name_variable(shown)}}}")


def _describe(place: str, what: str, instead: str) -> str:
    return f"{place}: {what}: put it into the environment of the server and write {instead}"


def _name_variable(name: str) -> str:
    """Return the name of a variable for the value beside a name."""
    return re.sub(r"\W", "_", name.lstrip("-")).upper()
