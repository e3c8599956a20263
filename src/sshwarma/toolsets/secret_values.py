"""Replaces what may be a secret in the servers of a manifest by `${VARIABLE}`.

An archive is handed on to others, so what may be a secret is replaced, and the one who
imports it sets a variable of that name. Stays as it is:

- a value that consists of `${VARIABLE}` alone, or of those and a scheme (`Bearer ${KEY}`);
- of `args`: names of options (`--verbose`, `-y`, and `--port` of `--port=80`), paths of files of
  the toolset itself (`/ts/server.py`), and the package or
  module that a known runner such as `npx` starts, if only options without values precede it. Any
  other word may be a password; a package that stands elsewhere looks the same;
- of `url`: the scheme, the host and the port, words of a path that many servers use (`/mcp`,
  `/v1`), and names of parameters, but not their values. Other parts of paths are secrets of some
  services.

- of `args`, `env` and `headers`: what `is_plain_value` knows, unless the name beside it is that of
  a secret.

Other values of `env` and `headers` are always replaced. The command stays: it is the
name of a program. A part that looks like a key is replaced everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from sshwarma.common.limits import MAX_URL_CHARACTERS
from sshwarma.common.secret_detection import looks_like_key
from sshwarma.toolsets.manifest import ServerEntry, ToolsetManifest
from sshwarma.toolsets.plain_values import is_plain_value

VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_AUTH_SCHEME: Final = re.compile(r"(?:Bearer|Basic|Token|ApiKey) ", re.IGNORECASE)
_OPTION: Final = re.compile(r"(-[A-Za-z]|--[A-Za-z][a-z]*(?:-[a-z]+)*)")
_RUNNERS: Final = frozenset(
    {"npx", "bunx", "pnpx", "uvx", "pipx", "uv", "python", "python3", "node", "deno"}
)
_OPTIONS_WITHOUT_VALUE: Final = frozenset(
    {
        "-y",
        "--yes",
        "-q",
        "--quiet",
        "-m",
        "-u",
        "-I",
        "-s",
        "-E",
        "run",
        "tool",
        "dlx",
        "exec",
        "--",
    }
)
"""Options and words of runners that stand before a package, none with a value of its own."""

_PACKAGE: Final = re.compile(
    r"@?[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*"
    r"(?:(?:@|==)[A-Za-z0-9][A-Za-z0-9.+_-]*)?"
)
_OWN_FILE: Final = re.compile(r"/ts(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)+")
_URL: Final = re.compile(r"(https?://)([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_PATH_WORD: Final = re.compile(
    r"|mcp|sse|api|http|stream|rpc|server|servers|tools|messages?|v[0-9]"
)
_PARAMETER_NAME: Final = re.compile(r"[A-Za-z][A-Za-z_-]{0,31}")
_HOST_LABEL: Final = re.compile(r"[A-Za-z0-9-]{0,63}")
MAX_RANDOM_LABEL_CHARACTERS: Final = 15
"""Characters of a part of a host with digits that is kept: longer ones may be addresses that only
their owner knows."""

MAX_URL_PIECES: Final = 8
"""Parts of the path and of the query of a URL that are looked at; the whole of a longer one is
replaced."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """A value that was replaced.

    `variable` stands in its place, `place` says where: `mcp_servers[0].env.API_KEY`.
    """

    variable: str
    place: str
    value: str = field(repr=False)


def replace_secrets(manifest: ToolsetManifest) -> tuple[ToolsetManifest, list[Replaced]]:
    """Return the manifest without what may be a secret, and what was replaced.

    A variable is named for its place, and never as one that the manifest uses already. To do it
    twice changes nothing.
    """
    replacer = _Replacer(find_variables(manifest))
    servers = tuple(
        replacer.replace_server(f"mcp_servers[{index}]", server)
        for index, server in enumerate(manifest.mcp_servers)
    )
    return manifest.model_copy(update={"mcp_servers": servers}), replacer.replaced


def find_variables(manifest: ToolsetManifest) -> dict[str, str]:
    """Return the variables that a manifest names, each with its first place."""
    found: dict[str, str] = {}
    for index, server in enumerate(manifest.mcp_servers):
        texts = {"command": server.command or "", "url": server.url or ""}
        texts |= {f"args[{number}]": text for number, text in enumerate(server.args)}
        texts |= {f"env.{name}": text for name, text in server.env.items()}
        texts |= {f"headers.{name}": text for name, text in server.headers.items()}
        for place, text in texts.items():
            for name in VARIABLE.findall(text):
                found.setdefault(name, f"mcp_servers[{index}].{place}")
    return found


class _Replacer:
    """Replaces values, and keeps names of variables apart."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self.replaced: list[Replaced] = []

    def replace_server(self, place: str, server: ServerEntry) -> ServerEntry:
        changes: dict[str, Any] = {
            "args": self._replace_arguments(place, server),
            "env": self._replace_values(f"{place}.env", server.env, server.id, "{name}"),
            "headers": self._replace_values(
                f"{place}.headers", server.headers, server.id, "{server}_{name}"
            ),
        }
        if server.command is not None and looks_like_key(server.command):
            changes["command"] = self._add(f"{place}.command", server.command, server.id, "COMMAND")
        if server.url is not None:
            before = len(self.replaced)
            url = self._replace_url(f"{place}.url", server.url, server.id)
            if len(url) > MAX_URL_CHARACTERS:
                del self.replaced[before:]
                url = self._add(f"{place}.url", server.url, server.id, "URL")
            changes["url"] = url
        return server.model_copy(update=changes)

    def _add(self, place: str, value: str, *names: str) -> str:
        """Return `${VARIABLE}` for a value, with a name that nothing else has."""
        words = [re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") for name in names]
        base = "_".join(filter(None, words))[:100] or "VALUE"
        name, number = base, 2
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        self.replaced.append(Replaced(name, place, value))
        return f"${{{name}}}"

    def _replace_values(
        self, place: str, values: Mapping[str, str], server: str, form: str
    ) -> dict[str, str]:
        """Replace values of variables or headers; `form` names the new variable."""
        return {
            name: value
            if _is_reference(_AUTH_SCHEME.sub("", value, count=1)) or is_plain_value(value, name)
            else self._add(f"{place}.{name}", value, form.format(server=server, name=name))
            for name, value in values.items()
        }

    def _replace_arguments(self, place: str, server: ServerEntry) -> tuple[str, ...]:
        package = _find_package(server)
        arguments = []
        for index, argument in enumerate(server.args):
            option, equals, value = argument.partition("=")
            names = (server.id, "arg", str(index + 1))
            where = f"{place}.args[{index}]"
            before = server.args[index - 1] if index else ""
            is_kept = index == package or argument in _OPTIONS_WITHOUT_VALUE
            is_kept |= is_plain_value(argument, before)
            is_kept |= bool(_OWN_FILE.fullmatch(argument)) and not looks_like_key(argument)
            if is_kept or _is_reference(argument) or _is_option(argument):
                arguments.append(argument)
            elif equals and _is_option(option):
                kept = _is_reference(value) or is_plain_value(value, option)
                new = value if kept else self._add(where, value, server.id, option)
                arguments.append(f"{option}={new}")
            else:
                arguments.append(self._add(where, argument, *names))
        return tuple(arguments)

    def _replace_url(self, place: str, url: str, server: str) -> str:
        parts = _URL.fullmatch(url)
        if parts is None:
            is_kept = _is_reference(url)
            return url if is_kept else self._add(place, url, server, "URL")
        scheme, host, path, query, fragment = parts.groups()
        pieces = path.count("/") + (query or "").count("&")
        if pieces > MAX_URL_PIECES or not _is_plain_host(host):
            return self._add(place, url, server, "URL")
        segments = [
            part
            if _PATH_WORD.fullmatch(part) or _is_reference(part)
            else self._add(place, part, server, "path")
            for part in path.split("/")
        ]
        text = f"{scheme}{host}{'/'.join(segments)}"
        if query is not None:
            text += f"?{self._replace_query(place, query, server)}"
        if fragment is not None:
            kept = _is_reference(fragment)
            text += f"#{fragment if kept else self._add(place, fragment, server, 'fragment')}"
        return text

    def _replace_query(self, place: str, query: str, server: str) -> str:
        parts = []
        for part in query.split("&"):
            name, equals, value = part.partition("=")
            if _is_reference(part):
                parts.append(part)
            elif equals and _PARAMETER_NAME.fullmatch(name) and not looks_like_key(name):
                kept = _is_reference(value)
                parts.append(f"{name}={value if kept else self._add(place, value, server, name)}")
            else:
                parts.append(self._add(place, part, server, "query"))
        return "&".join(parts)


def _is_reference(text: str) -> bool:
    """Return whether a text consists of `${VARIABLE}` alone, or of nothing."""
    return not VARIABLE.sub("", text)


def _is_option(text: str) -> bool:
    return bool(_OPTION.fullmatch(text)) and not looks_like_key(text)


def _find_package(server: ServerEntry) -> int:
    """Return the index of the package that a runner starts; -1 if none is sure."""
    if server.command is None or PurePosixPath(server.command).name not in _RUNNERS:
        return -1
    for index, argument in enumerate(server.args):
        if argument in _OPTIONS_WITHOUT_VALUE:
            continue
        is_package = bool(_PACKAGE.fullmatch(argument)) and not looks_like_key(argument)
        return index if is_package else -1
    return -1


def _is_plain_host(host: str) -> bool:
    """Return whether a host, with its port, says nothing but where a server is."""
    name, colon, port = host.partition(":")
    if colon and not (port.isascii() and port.isdecimal()) and not _is_reference(port):
        return False
    return all(
        _HOST_LABEL.fullmatch(VARIABLE.sub("", label))
        and not looks_like_key(label)
        and not (
            len(label) > MAX_RANDOM_LABEL_CHARACTERS and re.search(r"\d", VARIABLE.sub("", label))
        )
        for label in name.split(".")
    )
