"""What a resolved renderer shows: a file of the room, or the address of a page.

The manifest is checked at the import, but an expression gets its value from a call: from arguments
of a model, or from what a tool returned. A page follows what stands here, so only what it may open
is left in a plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import idna

from sshwarma.common.shorten import shorten_name
from sshwarma.sandbox.profile import WORKSPACE_PATH
from sshwarma.settings.addresses import PORT_RULE, is_port
from sshwarma.workspaces.paths import find_path_problem
from sshwarma.workspaces.tree import Entry

_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
"""A name or an address, with or without a port."""

_MAX_URL_CHARACTERS: Final = 2_048
"""Maximum of an address: what browsers and proxies take."""


def check_target(key: str, value: Any, files: Mapping[str, Entry] | None) -> tuple[Any, str]:
    """Return what a key of a configuration names, and what is wrong with it.

    Args:
        key: `file`, `url` or `port`; others are not targets, and valid.
        value: its value, resolved.
        files: of the room, by path; None if they are not known, and every path may be one.

    Returns:
        The value, in its normal form, and ""; or None and the rest of a sentence, after the value.
    """
    match key:
        case "file":
            return _check_file(value, files)
        case "url":
            return _check_url(value)
        case "port":
            return _check_port(value)
    return value, ""


def find_url_problem(url: Any) -> str:
    """Return why a page cannot be opened, as the rest of a sentence; "" if it can."""
    return _check_url(url)[1]


def _check_url(url: Any) -> tuple[str | None, str]:
    """Return an address with its host in ASCII, as browsers send it.

    A host in other letters can look like another one: `http://аpple.com/` begins with a Cyrillic а.
    """
    if problem := _find_form_problem(url):
        return None, problem
    netloc = urlsplit(url).netloc
    host, colon, port = netloc.partition(":")
    no_name = f"must have a host that exists: {shorten_name(host)} is no name of one"
    if not netloc.isascii():
        try:
            encoded = idna.encode(host, uts46=True).decode()
        except UnicodeError:  # the base of what idna raises
            return None, no_name
        url, netloc = url.replace(netloc, f"{encoded}{colon}{port}", 1), f"{encoded}{colon}{port}"
    # Python takes other names, too, and sees another host in some than browsers do.
    if not _HOST.fullmatch(netloc):
        return None, no_name
    return url, ""


def _find_form_problem(url: Any) -> str:
    must_be = "must be the address of a page, which begins with http:// or https://"
    if not isinstance(url, str):
        return must_be
    if len(url) > _MAX_URL_CHARACTERS:
        return f"is longer than {_MAX_URL_CHARACTERS} characters"
    if any(char <= " " or char == "\\" or not char.isprintable() for char in url):
        return "must have no blanks, control characters or backslashes"
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return must_be
    if parts.scheme not in ("http", "https") or not has_host:
        return must_be
    if parts.username is not None or parts.password is not None:
        return "must have no name and password"
    if "%" in parts.netloc:  # a browser decodes it, and people read another host
        return "must have no % in its host"
    return ""


def _check_file(value: Any, files: Mapping[str, Entry] | None) -> tuple[str | None, str]:
    if not isinstance(value, str) or not value:
        return None, "must be the path of a file"
    path = value.removeprefix(f"{WORKSPACE_PATH}/").removeprefix("./")
    if problem := find_path_problem(path):
        return None, problem
    if files is not None:
        entry = files.get(path)
        if entry is None or not entry.is_file:
            return None, "is not a file of the room"
    return path, ""


def _check_port(value: Any) -> tuple[int | None, str]:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,5}", value):
        value = int(value)
    return (value, "") if is_port(value) else (None, f"must be a port from {PORT_RULE}")


def name_value(value: Any) -> str:
    """Return a value as a report names it: short, and without a name and password."""
    if isinstance(value, str) and "//" in value:
        before, slashes, after = value.partition("//")
        host, slash, rest = after.partition("/")
        value = f"{before}{slashes}{host.rpartition('@')[2]}{slash}{rest}"
    return shorten_name(value) if isinstance(value, str) else shorten_name(repr(value))
