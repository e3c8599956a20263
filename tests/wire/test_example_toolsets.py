"""The toolsets of the examples, used over ssh."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sshwarma.toolsets.page_data import PAGE_BEGIN
from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.fixtures import serving
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import pack

EXAMPLES = Path(__file__).parents[2] / "examples" / "toolsets"

CSV = "city;people;area\nOslo;709000;454\nBergen;291000;465\nMalmö;357000;158\n"

pytestmark = needs_bubblewrap


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving() as server:
        for name in ("charts", "data-explorer", "app-builder"):
            folder = tmp_path_factory.mktemp("zip")
            packed = shutil.make_archive(str(folder / name), "zip", EXAMPLES / name)
            done = server.owner.run("toolset import", Path(packed).read_bytes(), "-T")
            assert done.status == 0, done
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"))
    one.does(f"create {name('bench')}", "equip room charts:*,data-explorer:*,app-builder:*")
    yield one
    one.hang_up()


def call(person: Person, tool: str, **arguments: Any) -> Any:
    return person.run(f"run --json {tool} {json.dumps(arguments)}").json


def test_charts_are_plots_in_a_terminal_and_data_for_a_page(ann: Person) -> None:
    values = {"title": "Sold", "labels": ["tea", "coffee"], "values": [3, 6]}
    done = call(ann, "charts:bar_chart", **values)
    assert done["structured"] == values | {"kind": "bars"}
    assert done["render_plan"]["renderer"] == "html"
    shown = ann.run(f"run charts:bar_chart {json.dumps(values)}").out
    assert f"   tea {20 * '█'} 3" in shown and f"coffee {40 * '█'} 6" in shown
    assert "page artifacts/chart.html, with the result as its data" in shown
    assert shown.count('"kind": "bars"') == 1
    screen = ann.sit(room=ann.json("files")["room"])
    line = {"title": "Heat", "values": [1, 2, 4, 8, 4, 2, 1]}
    screen.enter(f"/run charts:line_chart {json.dumps(line)}")
    screen.wait_for("⠉")
    number = ann.json("history show --tools")["entries"][-1]["seq"]
    watching = ann.sit(columns=100, room=ann.json("files")["room"])
    watching.wait_for(f"/expand {number}")
    (row,) = [one for one in watching.lines if "✓ charts:line_chart" in one]
    assert " · html · " in row
    expanded = ann.json(f"expand {number}")
    assert (
        expanded["render_plan"]["renderer"] == "html" and expanded["structured"]["title"] == "Heat"
    )
    assert (
        "page artifacts/chart.html, with the result as its data" in ann.run(f"expand {number}").out
    )
    assert f"for a browser: ssh HOST render {number} > page.html" in ann.run(f"expand {number}").out
    refused = ann.run('run charts:bar_chart {"title": "x", "labels": ["a"], "values": []}')
    assert refused.status == 2 and "values" in refused.err + refused.out


def test_tools_are_listed_by_where_they_come_from(house: Server, ann: Person) -> None:
    equipped = ann.json("inv")["equipped"]
    chart = next(item for item in equipped if item["name"] == "charts:bar_chart")
    assert (chart["origin"], chart["renderer"], chart["confirms"]) == ("toolset", "html", False)
    ann.does("put notes = x", "equip room notes")
    lines = ann.run("inv all").lines
    headings = ["Equipped:", "  Builtin", "  toolset charts", "  toolset data-explorer", "  room"]
    at = [lines.index(heading) for heading in headings]
    assert at == sorted(at) and lines[1] == "  Builtin"
    assert lines[at[2] + 1].split() == ["✓", "charts:bar_chart", "[html]"]
    assert lines[at[4] + 1].split() == ["✓", "notes", "[data]"]
    ann.does("unequip room charts:*,data-explorer:*,notes")
    lines = ann.run("inv all").lines
    start = lines.index("Available to equip:")
    assert "  toolset charts" not in lines[:start]
    charts = lines.index("  toolset charts")
    assert lines[charts + 1].split() == ["○", "charts:bar_chart", "[html]"]
    assert start < lines.index("  Builtin", start) < charts < lines.index("  toolset data-explorer")


def test_explorer_answers_sql_on_csv_and_database(ann: Person, tmp_path: Path) -> None:
    ann.run("file put data/cities.csv", CSV.encode(), "-T")
    found = call(ann, "data-explorer:describe", path="data/cities.csv")["structured"]
    assert found["tables"] == [
        {"table": "data", "columns": ["city", "people", "area"], "rows": 3}
    ]  # fmt: skip
    sql = "SELECT city, people / area AS density FROM data ORDER BY density DESC"
    done = call(ann, "data-explorer:query", path="data/cities.csv", sql=sql, limit=2)
    assert done["structured"]["rows"] == [["Malmö", 2259], ["Oslo", 1561]]
    assert done["structured"]["is_cut"] is True
    shown = ann.run(
        "run data-explorer:query " + json.dumps({"path": "data/cities.csv", "sql": sql})
    ).out
    assert "Bergen" in shown and "density" in shown
    database = tmp_path / "shop.db"
    with sqlite3.connect(database) as opened:
        opened.execute("CREATE TABLE sold (name TEXT, count INTEGER)")
        opened.execute("INSERT INTO sold VALUES ('tea', 3)")
    ann.run("file put shop.db", database.read_bytes(), "-T")
    done = call(ann, "data-explorer:query", path="shop.db", sql="SELECT * FROM sold")
    assert done["structured"]["rows"] == [["tea", 3]]
    for path, asked, said in (
        ("shop.db", "DELETE FROM sold", "readonly"),
        ("shop.db", "SELECT * FROM gone", "no such table"),
        ("none.csv", "SELECT 1", "there is no file none.csv"),
        ("../../etc/passwd", "SELECT 1", "there is no file"),
    ):
        failed = call(ann, "data-explorer:query", path=path, sql=asked)
        assert said in str(failed), failed
    assert ann.json("files")["count"] == 2


def test_file_that_a_renderer_names_is_shown_page_by_page(ann: Person) -> None:
    text = "".join(f"row = {number}\n" for number in range(3_000))
    ann.run("file put big.py", text, "-T")
    call(ann, "app-builder:write_file", path="a.py", content="value = 'grüße'\n")
    shown = ann.run("run app-builder:read_file path=a.py").out
    assert "  value = 'grüße'\n" in shown and "content" not in shown
    assert "open in workspace: /file show a.py" in shown
    row = call(ann, "app-builder:read_file", path="big.py")["seq"]
    ann.run("file put big.py", "another = 1\n", "-T")
    pages = [ann.run(f"expand {row}").out]
    while (start := pages[-1].rpartition("--start ")[2].split(",")[0].strip()).isdigit():
        pages.append(ann.run(f"expand {row} --start {start}").out)
    assert len(pages) == 2
    lines = "".join(pages).splitlines()
    assert sum(line.startswith("  row = ") for line in lines) >= 2_999
    assert "\\n" not in "".join(pages) and "another" not in "".join(pages)
    data = ann.run(f"expand {row} --json").json
    assert data["text"].startswith("{") and "content" not in data["render_plan"]["config"]


def test_export_names_the_command_that_saves_it(house: Server) -> None:
    screen = house.owner.sit()
    screen.enter("/toolset export charts")
    screen.wait_for("ssh HOST toolset export charts > FILE  saves it")


PAGES = """
id: pages
name: Pages
version: "1"
manifest_version: "1"
tools:
  - {id: listed, entrypoint: "m:give", renderer: {type: code, content: $return}}
  - {id: gone, entrypoint: "m:give", renderer: {type: code, file: $args.value}}
  - {id: page, entrypoint: "m:give", renderer: {type: frame, url: $args.value}}
"""


def test_renderer_says_what_it_cannot_show(house: Server, ann: Person) -> None:
    code = "def give(value: str):\n    print('gave')\n    return {'rows': [1, 2]}\n"
    done = house.owner.run("toolset import", pack({"toolset.yaml": PAGES, "m.py": code}), "-T")
    assert done.status == 0, done
    ann.does("equip room pages:*")
    listed = ann.does("run pages:listed value=x")
    assert listed.count('"rows"') == 1 and listed.endswith("printed:\n  gave\n"), listed
    saved = house.owner.run("toolset export pages", b"", "-tt").out
    assert "ssh HOST toolset export pages > FILE  saves it" in saved
    gone = ann.does("run pages:gone value=no.py")
    assert "renderer: file: no.py is not a file of the room" in gone
    assert "open in workspace" not in gone
    page = ann.json("run pages:page value=javascript:alert(1)")["render_plan"]
    assert (
        page["config"] == {"url": None} and "must be the address of a page" in page["problems"][0]
    )
    assert "page: http://localhost:80/" in ann.does("run pages:page value=http://localhost:80/")


@covers("render")
def test_page_of_a_frame_embeds_what_is_local_and_no_other(house: Server, ann: Person) -> None:
    code = "def give(value: str):\n    return value\n"
    done = house.owner.run("toolset import", pack({"toolset.yaml": PAGES, "m.py": code}), "-T")
    assert done.status == 0, done
    ann.does("equip room pages:*")
    local = ann.does("run pages:page value=http://127.0.0.1:8080/a?b=1&c=2")
    assert "page: http://127.0.0.1:8080/a?b=1&c=2" in local
    assert "> page.html" in local
    shown = ann.run("render", b"", "-T").raw.decode()
    assert '<iframe src="http://127.0.0.1:8080/a?b=1&amp;c=2"' in shown
    assert 'frame-src http://127.0.0.1:8080"' in shown
    assert 'sandbox="allow-scripts allow-forms"' in shown
    other = ann.does("run pages:page value=https://elsewhere.example/x")
    assert "page.html" not in other
    assert "page: https://elsewhere.example/x\n  Pages of elsewhere.example are not" in other
    refused = ann.run("render", b"", "-T")
    assert refused.status == 1 and not refused.raw
    assert refused.err == (
        "Pages of elsewhere.example are not embedded: http.frame_hosts does not name it."
        " Open it by itself: https://elsewhere.example/x\n"
    )
    ann.does("run pages:page value=ftp://elsewhere.example/")
    assert "has no address of a page" in ann.run("render", b"", "-T").err


@covers("render")
def test_page_of_a_result_is_one_file_with_its_data(ann: Person) -> None:
    title = "</script><b>Sold"
    ann.does(f"run charts:line_chart {json.dumps({'title': title, 'values': [1, 2]})}")
    number = ann.json("history show --tools")["entries"][-1]["seq"]
    written = ann.run(f"render {number}", b"", "-T").raw.decode()
    original = (EXAMPLES / "charts" / "artifacts" / "chart.html").read_text()
    before, script, after = written.partition("<script>window.__TOOL_DATA__ = ")
    data, end, rest = after.partition(";</script>")
    start, policy, body = before.partition(PAGE_BEGIN.decode())
    assert '<meta http-equiv="Content-Security-Policy"' in policy
    assert "default-src 'none'" in policy
    assert script and end and start + body + rest == original
    assert rest.startswith("</head>")
    assert json.loads(data)["title"] == title and "<" not in data
    assert ann.run("render", b"", "-T").raw.decode() == written, "the newest is the default"
    screen = ann.sit(room=ann.json("files")["room"])
    screen.enter(f"/render {number}")
    screen.wait_for(f"ssh HOST render {number} > page.html  saves it for a browser")
    assert "is no result with a page" in ann.run("render 1").err


def test_page_of_a_toolset_that_is_gone_is_not_offered(house: Server, ann: Person) -> None:
    manifest = PAGES.replace("id: pages", "id: gonepages").replace(
        "{type: frame, url: $args.value}", "{type: html, artifact: p.html}"
    )
    files = {
        "toolset.yaml": manifest,
        "m.py": "def give(value: str):\n    return 1\n",
        "p.html": "<p>it</p>",
    }
    done = house.owner.run("toolset import", pack(files), "-T")
    assert done.status == 0, done
    ann.does("equip room gonepages:*")
    assert "for a browser: ssh" in ann.does("run gonepages:page value=x")
    house.owner.does("toolset uninstall gonepages --yes")
    shown = ann.does("expand")
    assert "page.html" not in shown
    assert "The toolset of gonepages:page is not installed any more, and so has no pages." in shown
