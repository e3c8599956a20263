"""A room as a document: what it holds, what it leaves out, and its limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.export import ExportAdvice, ExportedRoom
from sshwarma.verbs.views import draw_result, dump_json
from sshwarma.world.errors import Forbidden, NotFound
from support.people import Someone, do, refused


async def exported(who: Someone, line: str = "/export") -> ExportedRoom:
    """The document that a command over ssh prints."""
    result = await run_line(replace(who.caller, door="exec"), line)
    assert isinstance(result, ExportedRoom)
    return result


async def fill_room(alice: Someone) -> None:
    for line in (
        "/create den",
        "/describe A quiet place.",
        "/vibe calm",
        "/portal north lobby",
        "/put plan = first\n```\nsecond",
        "/put me:secret = hidden",
        "/link page https://example.org/",
        "hello",
        "two\nlines",
        "/me waves",
        "/note the relay is 10.0.0.9",
    ):
        await do(alice, line)


async def test_document_has_the_texts_and_the_log_of_a_room(alice: Someone) -> None:
    await fill_room(alice)
    text = draw_result(await exported(alice)).plain()
    assert text.startswith("# den\n\nA quiet place.\n\nVibe: calm\n\nAccess: open. Exported ")
    assert "## Exits\n\n- north: lobby\n" in text
    assert "### plan (data)\n\n````\nfirst\n```\nsecond\n````\n" in text
    assert "### page (reference)\n\n```\nhttps://example.org/\n```\n" in text
    log = text.partition("## Log\n\n")[2]
    assert "**alice**: hello\n" in log
    assert "**alice**: two\n  lines\n" in log
    assert "**alice** [emote]: waves\n" in log
    assert "the relay is 10.0.0.9" in log
    assert "hidden" not in text


async def test_document_for_programs_has_every_row(alice: Someone) -> None:
    await fill_room(alice)
    data = dump_json(await exported(alice))
    assert data["name"] == "den"
    assert data["exits"] == [{"direction": "north", "to": "lobby"}]
    assert [text["name"] for text in data["texts"]] == ["page", "plan"]
    hello = next(row for row in data["rows"] if row["text"] == "hello")
    assert (hello["kind"], hello["who"]) == ("chat", "alice")
    assert "presence" not in {row["kind"] for row in data["rows"]}


async def test_document_names_the_tool_of_each_call_and_result(alice: Someone) -> None:
    await fill_room(alice)
    await do(alice, "/run sshwarma:who")
    document = await exported(alice)
    called, result = (row for row in document.rows if row.tool)
    assert (called.kind, called.tool, called.call) == ("tool.call", "sshwarma:who", None)
    assert (result.kind, result.tool, result.call) == ("tool.result", "sshwarma:who", called.seq)
    text = draw_result(document).plain()
    assert f"**alice** [row {called.seq}: tool.call sshwarma:who]: {{}}\n" in text
    where = f"[row {result.seq}: tool.result sshwarma:who, called in row {called.seq}]"
    assert where in text


async def test_document_holds_only_what_its_reader_may_see(alice: Someone, bob: Someone) -> None:
    await fill_room(alice)
    await do(alice, "/create vault")
    await do(alice, "/room private")
    await do(alice, "/join den")
    await do(alice, "/portal down vault")
    await do(bob, "/join den")
    assert "vault" not in str((await exported(bob)).exits)
    assert [way.to for way in (await exported(alice)).exits] == ["vault", "lobby"]
    with pytest.raises(NotFound, match="Unknown room vault"):
        await bob.caller.in_room("vault")
    in_vault = replace(bob.caller, room_id=(await alice.caller.find_room("vault")).id, door="exec")
    with pytest.raises(Forbidden, match="enter right"):
        await run_line(in_vault, "/export")


async def test_document_is_limited_and_says_how_to_read_on(
    alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    await do(alice, "/create den")
    for number in range(20):
        await do(alice, f"line {number}")
    for number in range(3):
        await do(alice, f"/put text{number} = {'x' * 100}")
    monkeypatch.setattr("sshwarma.verbs.export.MAX_EXPORT_ROWS", 8)
    monkeypatch.setattr("sshwarma.verbs.export.MAX_EXPORT_CHARACTERS", 250)
    newest = await exported(alice)
    assert len(newest.texts) == 2
    assert newest.left_out_texts == 1
    assert "1 text did not fit" in draw_result(newest).plain()
    assert newest.older is not None
    call = f"/export room --before {newest.older}"
    assert call.removeprefix("/") in draw_result(newest).plain()
    seqs = [row.seq for row in newest.rows]
    while newest.older is not None:
        newest = await exported(alice, f"/export room --before {newest.older}")
        seqs = [row.seq for row in newest.rows] + seqs
    assert seqs == sorted(set(seqs))
    text = " ".join(row.text for row in newest.rows)
    assert "line 0" in text


async def test_terminal_gets_the_command_and_no_document(alice: Someone) -> None:
    await fill_room(alice)
    advice = await do(alice, "/export room")
    assert isinstance(advice, ExportAdvice)
    assert "ssh HOST export room --room den > den.md" in draw_result(advice).plain()
    refusal = await refused(alice, "/export world")
    assert str(refusal) == "Unknown action world of /export. /export has room, folder."
