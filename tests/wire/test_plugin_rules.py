"""The rules of plugins: at a start, and by `sshwarma plugins check`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.driver.fixtures import homes
from support.driver.server import forked_program
from support.plugin_folders import moltbook, tool, write_plugins
from support.sandboxes import needs_bubblewrap

SECONDS = 60.0
BROKEN_DEFINITION = tool("x").replace('"name": "x",', "")
OTHER = {"other/__init__.py": 'TOOL_NAMESPACE = "moltbook_post"\n', "other/helpers.py": ""}
COLLIDING = tool("again", namespace="a").replace("from tools.a.helpers import shout", "")

pytestmark = needs_bubblewrap

BREACHES: dict[str, tuple[Mapping[str, str], str]] = {
    # What is in tools/, and what the error says.
    "no namespace": (
        moltbook(__init__=""),
        "tools/moltbook/__init__.py: TOOL_NAMESPACE is missing",
    ),
    "a namespace that is no text": (
        moltbook(__init__="TOOL_NAMESPACE = 3"),
        "tools/moltbook/__init__.py: TOOL_NAMESPACE is no text (3)",
    ),
    "a namespace in capitals": (
        moltbook(__init__="TOOL_NAMESPACE = 'Molt Book'"),
        "TOOL_NAMESPACE 'Molt Book' cannot be the name of a namespace: it must be a lower-case",
    ),
    "the namespace of the program": (
        moltbook(__init__="TOOL_NAMESPACE = 'sshwarma'"),
        "TOOL_NAMESPACE sshwarma is the name of a built-in namespace",
    ),
    "no execute": (
        moltbook(post="DEFINITION = {'function': {'name': 'post'}}"),
        "tools/moltbook/post.py: it has DEFINITION and no function execute: write def execute",
    ),
    "no function.name": (
        moltbook(broken=BROKEN_DEFINITION),
        "tools/moltbook/broken.py: DEFINITION has no function.name: write",
    ),
    "a name in capitals": (
        moltbook(loud=tool("Loud")),
        "tools/moltbook/loud.py: function.name 'Loud' cannot be the name of a tool",
    ),
    "a name with escapes": (
        moltbook(loud=tool("\\x1b]0;pwned\\x07")),
        r"tools/moltbook/loud.py: function.name '\x1b]0;pwned\x07' cannot be the name",
    ),
    "two tools of a plugin": (
        moltbook(again=tool("post")),
        "tools/moltbook/post.py: the tool moltbook_post has the name of the tool of",
    ),
    "tools of two plugins": (
        {**moltbook(), **OTHER, "a/__init__.py": "TOOL_NAMESPACE = 'moltbook_post'",
         "a/x.py": COLLIDING, "b/__init__.py": "TOOL_NAMESPACE = 'moltbook'",
         "b/y.py": COLLIDING.replace('"again"', '"post_again"')},
        "tools/b/y.py: the tool moltbook_post_again has the name of the tool of",
    ),
    "the name of a built-in tool": (
        moltbook(__init__="TOOL_NAMESPACE = 'list'", post=tool("toolsets")),
        "tools/moltbook/post.py: the tool list_toolsets has the name of the built-in tool"
        " toolsets:list_toolsets",
    ),
    "a schema that is no JSON": (
        moltbook(odd=tool("odd").replace('"parameters": {', '"parameters": {"x": {1, 2}, ')),
        "tools/moltbook/odd.py: DEFINITION is not JSON",
    ),
    "a schema that is no schema": (
        moltbook(odd=tool("odd").replace('"type": "string"', '"type": 7')),
        "tools/moltbook/odd.py: function.parameters cannot be used: properties.word",
    ),
    "an error": (
        moltbook(helpers="1 / 0"),
        "tools/moltbook/helpers.py: it cannot be loaded: ZeroDivisionError: division by zero"
        " (tools/moltbook/helpers.py, line 1)",
    ),
    "an exit": (
        moltbook(post="import os\nos._exit(0)"),
        "tools/moltbook: the plugin cannot be read: it ended with status 0",
    ),
    "an unknown mode": (
        moltbook(post=tool("post") + "\nLEAVE_OUT = 'ALL'\n"),
        "LEAVE_OUT: choose one of: KEEP, SHORT, PARAMS_ONLY, OMIT (got 'ALL')",
    ),
    "an amount of what is not cut": (
        moltbook(post=tool("post") + "\nTOOL_SHORT_AMOUNT = 80\n"),
        "tools/moltbook/post.py: TOOL_SHORT_AMOUNT says nothing without LEAVE_OUT",
    ),
    "an action with spaces": (
        moltbook(post=tool("post") + "\nLEAVE_OUT_PER_ACTION = {'get it': 'KEEP'}\n"),
        "tools/moltbook/post.py: LEAVE_OUT_PER_ACTION['get it']: an action has letters, digits",
    ),
    "an execute that no call fits": (
        moltbook(post=tool("post").replace("args, session_data", "*, title")),
        "tools/moltbook/post.py: execute cannot be called: missing a required argument: 'title'",
    ),
    "a negative amount": (
        moltbook(post=tool("post") + "\nTOOL_SHORT_AMOUNT = -1\n"),
        "TOOL_SHORT_AMOUNT must be a number of characters from 1",
    ),
}  # fmt: skip


@pytest.fixture
def home() -> Iterator[Path]:
    with homes() as make:
        yield make()


def start(home: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Start a server that must end by itself."""
    words = ["serve", "--data-dir", str(home / "data"), "--listen", "127.0.0.1:0", "--http", "off"]
    return run(home, *words, *flags)


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(forked_program()), *words], cwd=home, env={"PATH": os.environ["PATH"]},
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("breach", BREACHES)
def test_breach_of_a_rule_ends_the_start_with_status_1(home: Path, breach: str) -> None:
    files, text = BREACHES[breach]
    root = write_plugins(home, files)
    done = start(home, "--load-custom-tools")
    assert done.returncode == 1, done
    assert text in done.stderr, done.stderr
    assert str(root) in done.stderr and "ready" not in done.stdout
    assert "\x1b" not in done.stderr.replace("\x1b[", ""), "a name is escaped"


def test_missing_or_unreadable_folder_ends_the_start_with_status_1(home: Path) -> None:
    done = start(home, "--load-custom-tools")
    assert done.returncode == 1, done
    assert f"{home}/tools: the plugins cannot be read: No such file or directory" in done.stderr
    assert "without --load-custom-tools" in done.stderr
    (home / "tools").write_text("no folder")
    done = start(home, "--load-custom-tools")
    assert done.returncode == 1 and "Not a directory" in done.stderr, done


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_folder_of_another_user_ends_the_start_with_status_1(home: Path) -> None:
    write_plugins(home, moltbook()).chmod(0)
    done = start(home, "--load-custom-tools")
    (home / "tools").chmod(0o700)
    assert done.returncode == 1 and "Permission denied" in done.stderr, done


def test_link_out_of_a_plugin_is_refused_and_a_linked_plugin_is_loaded(home: Path) -> None:
    root = write_plugins(home, moltbook())
    (root / "moltbook" / "secrets").symlink_to("/etc")
    done = run(home, "plugins", "check")
    assert done.returncode == 1 and "moltbook/secrets: is a symbolic link" in done.stderr, done
    (root / "moltbook" / "secrets").unlink()
    (root / "moltbook").rename(home / "elsewhere")
    (root / "moltbook").symlink_to(home / "elsewhere")
    assert run(home, "plugins", "check").stdout == "moltbook/ (1 tool)\n  moltbook_post\n"


def test_only_folders_with_an_init_are_plugins_and_they_are_sorted(home: Path) -> None:
    named = {"zoo/__init__.py": "TOOL_NAMESPACE = 'zoo'", "ant/__init__.py": "TOOL_NAMESPACE='ant'"}
    root = write_plugins(home, moltbook() | named)
    write_plugins(home, {"notes.txt": "x", "plain/x.py": "1 / 0", "loose.py": "1 / 0"})
    (root / ".hidden").mkdir()
    found = json.loads(run(home, "plugins", "check", "--json").stdout)
    assert [(one["name"], one["count"], one["path"]) for one in found] == [
        ("ant", 0, f"{root}/ant"), ("moltbook", 1, f"{root}/moltbook"), ("zoo", 0, f"{root}/zoo"),
    ]  # fmt: skip
    (root / "ant" / "__init__.py").write_text("")
    (root / "zoo" / "__init__.py").write_text("")
    assert "tools/ant/__init__.py" in run(home, "plugins", "check").stderr, "the first is named"


def test_empty_folder_has_no_plugin(home: Path) -> None:
    write_plugins(home, {})
    done = run(home, "plugins", "check", "--json")
    assert (done.returncode, done.stdout) == (0, "[]\n"), done


def test_module_has_its_internal_name(home: Path) -> None:
    asserted = "\nassert __name__ == '_custom_molt-1_post', __name__\n"
    text = moltbook(__init__="TOOL_NAMESPACE = 'molt-1'", post=tool("post") + asserted)
    write_plugins(home, text)
    done = run(home, "plugins", "check", "--json")
    assert json.loads(done.stdout)[0]["tools"] == ["molt-1_post"], done


def test_plugin_that_never_ends_is_ended(home: Path) -> None:
    write_plugins(home, moltbook(post="while True:\n    pass\n"))
    done = run(home, "plugins", "check", "--json")
    assert done.returncode == 1, done
    assert "cannot be loaded in 10 s" in json.loads(done.stdout)["message"]
