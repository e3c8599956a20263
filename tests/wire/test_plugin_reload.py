"""Plugins over reloads and restarts, and beside other toolsets."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable

from support.driver import Server
from support.driver.covers import covers
from support.plugin_folders import call, moltbook, plugged, tool, write_plugins
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack
from support.waiting import wait_until

pytestmark = needs_bubblewrap

__all__ = ["plugged"]


def test_without_the_flag_the_folder_is_not_read(plugged: Callable[..., Server]) -> None:
    server = plugged(files={"moltbook/__init__.py": "1 / 0"})
    assert server.owner.json("tools info")["customPlugins"] is None
    assert server.owner.json("plugins") == {"plugins": None}
    shown = server.owner.does("plugins")
    assert shown == (
        "This server loads no plugins. Its operator can start it with --load-custom-tools.\n"
    )
    refused = server.owner.run("plugins reload")
    assert refused.status == 1 and "start it with --load-custom-tools" in refused.err


def test_plugins_stay_over_a_restart_and_go_with_their_folder(
    plugged: Callable[..., Server],
) -> None:
    two = {**moltbook(), "other/__init__.py": "TOOL_NAMESPACE = 'other'", "other/x.py": tool("x")}
    server = plugged("--load-custom-tools", files=two)
    server.owner.does("tool disable moltbook:post")
    columns = "qualified_name, id, updated_at, metadata"
    query = f"sql SELECT {columns} FROM things WHERE qualified_name LIKE 'moltbook%' ORDER BY 1"
    before = server.owner.json(query)["rows"]
    server.owner.hang_up()
    server.stop()
    server.start()
    assert server.owner.json(query)["rows"] == before, "nothing was written"
    assert server.log().count("changed=['moltbook', 'other']") == 1
    server.owner.hang_up()
    server.stop()
    shutil.rmtree(server.home / "tools" / "other")
    server.start()
    assert "changed=['other']" in server.log()
    assert server.owner.run("run other:x").status == 1
    assert [one["name"] for one in server.owner.json("plugins")["plugins"]] == ["moltbook"]
    assert server.owner.run("run moltbook:post").status == 1, "it was disabled, and still is"
    server.owner.does("tool enable moltbook:post")
    server.owner.hang_up()
    server.stop()
    server.flags = ()
    server.start()
    refused = server.owner.run("run moltbook_post")
    assert "moltbook:post is unavailable: this server loads no plugins. Its operator can" in (
        refused.err
    ), refused
    assert server.owner.json("tools info")["customPlugins"] is None
    server.owner.hang_up()
    server.stop()
    server.flags = ("--load-custom-tools",)
    server.start()
    assert call(server.owner, "moltbook_post", word="again")["text"] == "AGAIN"
    server.owner.hang_up()


def test_plugins_that_other_rules_described_are_described_again(
    plugged: Callable[..., Server],
) -> None:
    """As a newer program finds them: the files are the same."""
    server = plugged("--load-custom-tools", files=moltbook())
    server.owner.hang_up()
    server.stop()
    ((metadata,),) = server.query("SELECT metadata FROM things WHERE qualified_name = 'moltbook'")
    older = json.dumps(json.loads(metadata) | {"plugin_rules": "0.0.1/1"})
    server.query("UPDATE things SET metadata = ? WHERE qualified_name = 'moltbook'", older)
    server.query(
        "UPDATE things SET description = 'as it was' WHERE qualified_name = 'moltbook:post'"
    )
    server.start()
    query = "sql SELECT description FROM things WHERE qualified_name = 'moltbook:post'"
    assert server.owner.json(query)["rows"] == [["Shout a word."]]
    server.owner.hang_up()


@covers("plugins reload")
def test_reload_replaces_all_plugins_or_none(plugged: Callable[..., Server]) -> None:
    server = plugged("--load-custom-tools", files=moltbook())
    post = server.home / "tools" / "moltbook" / "post.py"
    ann = server.owner
    assert call(ann, "moltbook_post", word="a")["text"] == "A"
    post.write_text(tool("post", "return 'new'"))
    write_plugins(server.home, {"moltbook/more.py": tool("more"), "bad/__init__.py": "x = 1"})
    refused = ann.run("plugins reload")
    assert refused.status != 0 and "The plugins stay as they were." in refused.err
    assert f"{server.home}/tools/bad/__init__.py: TOOL_NAMESPACE is missing" in refused.err
    asked = server.operate("reload")
    assert "bad/__init__.py: TOOL_NAMESPACE is missing" in asked["problems"][0], asked
    server.process.send_signal(signal.SIGHUP)
    event = "plugins were not loaded, and stay as they were"
    wait_until(lambda: server.log().count(event) == 3)
    assert call(ann, "moltbook_post", word="a")["text"] == "A", "the old set whole"
    assert ann.run("run moltbook:more word=x").status == 1
    shutil.rmtree(server.home / "tools" / "bad")
    done = ann.json("plugins reload")
    assert (done["changed"], done["plugins"][0]["count"]) == (["moltbook"], 2), done
    assert call(ann, "moltbook_post", word="a")["text"] == "new"
    assert call(ann, "moltbook:more", word="x")["text"] == "X"
    post.unlink()
    assert server.operate("reload")["changed"] == ["plugins.moltbook: changed"]
    assert ann.run("run moltbook_post word=a").status == 1
    shutil.rmtree(server.home / "tools")
    assert "No such file" in server.operate("reload")["problems"][0]
    assert call(ann, "moltbook:more", word="x")["text"] == "X", "it needs no folder"
    ann.hang_up()


def test_running_call_ends_as_it_began_while_plugins_are_reloaded(
    plugged: Callable[..., Server],
) -> None:
    slow = 'import time\n    time.sleep(4)\n    return "as it began"'
    server = plugged("--load-custom-tools", files=moltbook(hold=tool("hold", slow)))
    ann = server.owner
    screen = ann.sit(room="lobby")
    screen.enter("/run moltbook:hold")
    wait_until(lambda: ann.json("sql SELECT status FROM tool_calls")["rows"] == [["running"]])
    (server.home / "tools" / "moltbook" / "hold.py").write_text(tool("hold", "return 'new'"))
    assert ann.json("plugins reload")["changed"] == ["moltbook"]
    running = ann.json("sql SELECT status FROM tool_calls")["rows"]
    assert running == [["running"]], "it went on"
    screen.wait_for("as it began")
    assert call(ann, "moltbook:hold")["text"] == "new"
    screen.close()
    ann.hang_up()


def test_namespace_of_something_else_is_refused(plugged: Callable[..., Server]) -> None:
    server = plugged("--load-custom-tools", files={})
    server.owner.does("tool new taken:x = return 1")
    write_plugins(server.home, {"a/__init__.py": "TOOL_NAMESPACE = 'taken'"})
    refused = server.owner.run("plugins reload").err
    assert "tools/a/__init__.py: TOOL_NAMESPACE taken is the name of a namespace" in refused
    write_plugins(server.home, moltbook())
    (server.home / "tools" / "a" / "__init__.py").unlink()
    server.owner.does("plugins reload")
    refused = server.owner.run("toolset import", pack(kit("moltbook")), "-T").err
    assert "id: moltbook is a plugin of this server already (line" in refused
    for verb in ("export", "uninstall"):
        assert "is a plugin of this server" in server.owner.run(f"toolset {verb} moltbook").err
    server.owner.hang_up()
