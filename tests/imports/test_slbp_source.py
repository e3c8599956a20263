"""The memory of SLBP in its forms, and its plugins, which are not run."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from sshwarma.imports import slbp_source
from sshwarma.imports.plugins import find_plugins
from sshwarma.imports.report import ImportReport
from sshwarma.imports.source import SourceKind, check_source, read_slbp, recognise_source
from sshwarma.imports.sql_dump import SqlDump
from sshwarma.world.errors import Invalid, NotFound
from support.sources import hash_folder, make_slbp

VALUES = (
    ("/srv/a", "plan", 'it\'s\n"two" lines \\ ; -- no comment'),
    ("/srv/a", "empty", ""),
    ("/srv/b", "größe", "\N{GRINNING FACE} /* no comment */ ('x','y')"),
)


def read(source: Path) -> tuple[list[tuple[str, str, str]], list[dict[str, object]]]:
    """Return the values of a source, and what is left out."""
    report = ImportReport()
    items = [item for step in read_slbp(source, report) for item in step.items]
    return [(one.project, one.key, one.value) for one in items], report.as_json()["left_out"]


def write_forms(folder: Path) -> Iterator[Path]:
    """Write the same values in each form; yield the files."""
    make_slbp(folder / "dump", VALUES)
    yield folder / "dump" / "project_memory.sql"
    file = folder / "project_memory.csv"
    quoted = (",".join('"' + one.replace('"', '""') + '"' for one in row) for row in VALUES)
    file.write_text("project,memory_key,value\n" + "\n".join(quoted), newline="")
    yield file
    rows = [dict(zip(("project", "key", "value"), row, strict=True)) for row in VALUES]
    file = folder / "project_memory.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    yield file
    file = folder / "project_memory.json"
    file.write_text(json.dumps(rows))
    yield file
    file = folder / "by_project.json"
    by_project: dict[str, dict[str, str]] = {}
    for project, key, value in VALUES:
        by_project.setdefault(project, {})[key] = value
    file.write_text(json.dumps(by_project))
    yield file
    file = folder / "project_memory.db"
    connection = sqlite3.connect(file)
    connection.execute('CREATE TABLE project_memory (project TEXT, "key" TEXT, value TEXT)')
    connection.executemany("INSERT INTO project_memory VALUES (?, ?, ?)", VALUES)
    connection.commit()
    (folder / "sqlite.sql").write_text("\n".join(connection.iterdump()))
    connection.close()
    yield file
    (folder / "sqlite.sql").write_text(
        "PRAGMA foreign_keys=OFF;\n" + (folder / "sqlite.sql").read_text()
    )
    yield folder / "sqlite.sql"


def test_every_form_gives_the_same_values(tmp_path: Path) -> None:
    files = list(write_forms(tmp_path))
    assert len(files) == 7
    for file in files:
        assert recognise_source(file) == "slbp", file
        values, left_out = read(file)
        assert sorted(values) == sorted(VALUES), file
        assert left_out == [], file


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM project_memory;", "no INSERT into project_memory: 'DELETE FROM"),
        ("INSERT INTO project_memory SELECT 1;", "an INSERT without VALUES"),
        ("INSERT INTO project_memory VALUES (load_file('/etc/passwd'),'b','c');", "a value that"),
        ("INSERT INTO project_memory VALUES ('a','b');", "which columns the values"),
        ("INSERT INTO project_memory VALUES ('a','b','c') ON DUPLICATE KEY;", "after the values"),
        ("INSERT INTO project_memory VALUES ('a','b','c", "a value that is neither"),
        ("INSERT INTO project_memory VALUES", "do not begin with ("),
        ("CREATE TABLE project_memory (a int", "without an end"),
        ("\\! rm -rf x", "no INSERT"),
        ("SET x = 'y", "without an end"),
    ],
)
def test_other_statements_of_a_dump_are_refused_with_their_line(
    statement: str, problem: str
) -> None:
    text = f"-- a dump\nINSERT INTO project_memory VALUES ('/p','k','v');\n{statement}"
    with pytest.raises(Invalid) as refused:
        list(SqlDump(text, "dump.sql").read())
    assert "dump.sql, line 3: " in str(refused.value)
    assert problem in str(refused.value)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO project_memory VALUES ('" + "\\n" * 2_000_000,
        "INSERT INTO project_memory VALUES " + "(" * 1_000_000,
        "/*" + "*" * 3_000_000,
        "SET " + "''" * 2_000_000,
        "CREATE TABLE project_memory (" + "a," * 1_000_000,
        "--\n" * 1_000_000 + "x",
    ],
)
def test_dump_that_is_made_to_take_long_does_not(text: str) -> None:
    with pytest.raises(Invalid):
        list(SqlDump(text, "dump.sql").read())


def test_other_tables_of_a_dump_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "project_memory.sql"
    file.write_text(
        "INSERT INTO `users` VALUES (1,'o\\'neil; x','');\n"
        "INSERT INTO project_memory VALUES ('/p','k','v');\n"
        "INSERT INTO log VALUES ('INSERT INTO project_memory VALUES (1,2,3);');\n"
    )
    values, left_out = read(file)
    assert values == [("/p", "k", "v")]
    assert [(one["what"], one["names"]) for one in left_out] == [("tables", ["log", "users"])]


def test_values_that_cannot_be_stored_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "project_memory.json"
    rows = [
        {"project": "/p", "key": "k", "value": 5},
        {"project": "relative", "key": "k", "value": "v"},
        {"project": "/p", "key": "k", "value": "\ud800"},
        {"project": "/p", "key": "k", "value": "x" * 2_000_000},
        "no object",
        {"project": "/p", "key": "k", "value": "a\0b"},
        {"project": "/p", "key": "fine", "value": "v"},
    ]
    file.write_text(json.dumps(rows))
    values, left_out = read(file)
    assert values == [("/p", "fine", "v")]
    assert {str(one["reason"]): one["names"] for one in left_out} == {
        "project, key and value are not all texts": ["row 1", "row 5"],
        "the path of the project does not begin with /, or is no path of this machine": ["row 2"],
        "has lone surrogates, which are not characters": ["row 3"],
        "longer than 1 MiB": ["row 4"],
        "has a NUL character, which a text cannot have": ["row 6"],
    }


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.json", b"[" * 200_000, "nested too deeply|not JSON"),
        ("a.json", b"[" + b"[]," * 2_000_000 + b"[]]", "a.json has too many values"),
        ("a.jsonl", b"[" + b"[]," * 200_000 + b"[]]", "line 1 has too many values"),
        ("a.json", b"5", "neither a list"),
        ("a.jsonl", b'{"a": 1}\nnonsense', "line 2 is not JSON"),
        ("a.csv", b"x,y\n1,2\n", "no columns project, key and value"),
        ("a.csv", b'project,key,value\n"a"b,c,d\n', "after line 1"),
        ("a.sql", b"\xff\xfe", "is not UTF-8, from byte 0"),
    ],
)
def test_file_of_nonsense_is_refused_in_words(
    name: str, content: bytes, problem: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Invalid, match=problem):
        read(tmp_path / name)


def test_many_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slbp_source, "MAX_IMPORT_ROWS", 2)
    folder = make_slbp(tmp_path, VALUES)
    with pytest.raises(Invalid, match="more than 2 values"):
        read(folder)


def test_folder_stays_as_it_is_and_links_in_it_are_left_out(tmp_path: Path) -> None:
    folder = make_slbp(tmp_path / "slbp", VALUES)
    secret = tmp_path / "secret.json"
    secret.write_text('[{"project": "/p", "key": "k", "value": "secret"}]')
    (folder / "project_memory.json").symlink_to(secret)
    (folder / "tools" / "linked").symlink_to(tmp_path)
    before = hash_folder(folder)
    values, left_out = read(folder)
    assert values == list(VALUES)
    reasons = {str(one["what"]): one for one in left_out}
    assert reasons["files"]["names"] == ["project_memory.json"]
    assert hash_folder(folder) == before
    told = [str(one["reason"]) for one in left_out if one["names"] == ["moltbook"]]
    assert len(told) == 1
    assert told[0].startswith("its 1 tools are code")
    assert "--load-custom-tools" in told[0]


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"__init__.py": "x = 1"}, "__init__.py defines no text TOOL_NAMESPACE"),
        ({"__init__.py": "TOOL_NAMESPACE = 5"}, "__init__.py defines no text TOOL_NAMESPACE"),
        ({"__init__.py": "("}, "__init__.py is not Python"),
        ({"__init__.py": "x = " + "(" * 5000 + ")" * 5000}, "__init__.py is not Python"),
        ({"__init__.py": "#" * 300_000}, "__init__.py has over 262144 bytes"),
        (
            {"__init__.py": "TOOL_NAMESPACE = 'p'", "t.py": "DEFINITION = {}"},
            "t.py has a DEFINITION, and no function execute",
        ),
    ],
)
def test_plugin_that_would_not_load_is_reported(
    files: dict[str, str], problem: str, tmp_path: Path
) -> None:
    (tmp_path / "tools" / "p").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "tools" / "p" / name).write_text(text)
    assert [plugin.problem for plugin in find_plugins(tmp_path)] == [problem]


def test_unreadable_part_of_a_folder_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_slbp(tmp_path / "slbp", VALUES)
    os.mkfifo(folder / "project_memory.csv")
    bad = folder / "tools" / "bad"
    bad.mkdir()
    listed = Path.iterdir

    def list_folder(place: Path) -> Iterator[Path]:
        if place == bad:
            raise PermissionError(13, "Permission denied")
        return listed(place)

    monkeypatch.setattr(Path, "iterdir", list_folder)
    values, left_out = read(folder)
    assert values == list(VALUES)
    reasons = {str(one["reason"]): one["names"] for one in left_out}
    assert reasons["it would not load: it cannot be read"] == ["bad"]
    assert reasons["it is no file"] == ["project_memory.csv"]


@pytest.mark.parametrize("kind", ["slop", "covalt", "slbp"])
def test_source_of_a_given_kind_is_a_file_or_a_folder(tmp_path: Path, kind: SourceKind) -> None:
    """A pipe would never end, and all of a folder such as /proc neither."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Invalid, match="neither a file nor a folder"):
        check_source(tmp_path / "pipe", kind)
    with pytest.raises(Invalid, match="is not a"):
        check_source(tmp_path, kind)
    with pytest.raises(Invalid, match="neither a file nor a folder"):
        check_source(Path("/proc/version"), kind)  # such as kmsg, which waits for more
    with pytest.raises(NotFound):
        check_source(tmp_path / "none", kind)
