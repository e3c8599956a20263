"""A toolset for tests: its manifest, its code, its archive."""

from __future__ import annotations

import io
import zipfile

KIT = """
manifest_version: "1"
id: {id}
name: Kit
version: "{version}"
tools:
{tools}
"""

DECORATOR = '@tool(name="Paint It", description="Paint a file", requires_confirmation=False)'

MODULE = '''
import os
import sys
import time
from enum import Enum
from typing import Literal

from covalt_toolset import get_context, tool
from pydantic import BaseModel, Field

from tools.helpers import double


class Colour(Enum):
    RED = "red"


class Where(BaseModel):
    path: str = Field(description="where it goes")
    times: int = 1


{decorator}
def paint(where: Where, colour: Colour = Colour.RED, mode: Literal["new", "old"] = "new") -> dict:
    """Paint.

    Args:
        mode: how it is opened.
    """
    context = get_context()
    (context.workspace / where.path).write_text(colour.value * double(where.times))
    print("painted", where.path)
    return {"room": context.chat_id, "kit": context.toolset_id, "kind": type(colour).__name__}


def fail(workspace):
    (workspace / "partial").write_text("half")
    raise ValueError("no paint is left")


def leave():
    os._exit(7)


def wait_long():
    while True:
        time.sleep(1)


def peek(path: str) -> str:
    return open(path).read()


def spend() -> int:
    return len(bytearray(4 << 30))


def ask() -> str:
    """Ask for nothing."""
    return sys.stdin.read() + "nothing"
'''

HELPERS = "def double(number: int) -> int:\n    return 2 * number\n"

FUNCTIONS = ("paint", "fail", "leave", "wait_long", "peek", "spend", "ask")


def pack(files: dict[str, str], folder: str = "") -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(f"{folder}{path}", text)
    return data.getvalue()


def kit(name: str, version: str = "1.0", functions: tuple[str, ...] = FUNCTIONS) -> dict[str, str]:
    decorator = DECORATOR if "paint" in functions else ""  # else it would be no tool
    tools = "".join(f"  - id: {one}\n    entrypoint: tools.kit:{one}\n" for one in functions)
    return {
        "toolset.yaml": KIT.format(id=name, version=version, tools=tools),
        "tools/kit.py": MODULE.replace("{decorator}", decorator),
        "tools/helpers.py": HELPERS,
    }
