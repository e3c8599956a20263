"""Plugin folders for tests: a folder `tools/` with the files of a mapping."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.fixtures import homes

TOOL = """
from tools.{namespace}.helpers import shout

DEFINITION = {{
    "type": "function",
    "function": {{
        "name": "{name}",
        "description": "Shout a word.",
        "parameters": {{"type": "object", "properties": {{"word": {{"type": "string"}}}}}},
    }},
}}


def execute(args, session_data):
    {body}
"""

HELPERS = "def shout(word):\n    return word.upper()\n"


def tool(name: str, body: str = "return shout(args['word'])", namespace: str = "moltbook") -> str:
    """Return the module of a tool whose `execute` has a body of lines."""
    return TOOL.format(name=name, body=body.strip(), namespace=namespace)


def moltbook(**files: str) -> dict[str, str]:
    """Return a plugin with the tool `post`; files by their names without `.py`."""
    made = {"__init__": 'TOOL_NAMESPACE = "moltbook"\n', "helpers": HELPERS, "post": tool("post")}
    return {f"moltbook/{name}.py": text for name, text in (made | files).items()}


def write_plugins(home: Path, files: Mapping[str, str]) -> Path:
    """Write files below `tools/` of a directory; return that folder."""
    root = home / "tools"
    root.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


@pytest.fixture
def plugged() -> Iterator[Callable[..., Server]]:
    """Start servers in directories with plugins."""
    started: list[Server] = []
    with homes() as make:

        def start(*flags: str, files: Mapping[str, str]) -> Server:
            home = make()
            write_plugins(home, files)
            server = Server(home, *flags)
            started.append(server)
            return server

        yield start
        for server in started:
            assert server.stop() == 0


def call(person: Person, tool: str, **arguments: Any) -> Any:
    """Call a tool with arguments as JSON; return what came, also of a failed call."""
    return person.run(f"run --json {tool} {json.dumps(arguments)}").json
