"""Rooms from and as folders of plain files."""

from __future__ import annotations

import base64
import io
import tarfile
from typing import Any

import pytest

from sshwarma.building import archive
from sshwarma.building.room_folder import read_folders
from sshwarma.common.limits import MAX_BUILD_BYTES
from sshwarma.verbs.dispatch import invoke
from sshwarma.world import triggers
from sshwarma.world.errors import Forbidden, Invalid, NotFound, TooLarge, WorldError
from sshwarma.world.world import World
from support.people import Someone, do, everything

pytestmark = pytest.mark.usefixtures("den")

OFFICE = {
    "world/README.md": "for people",
    "world/office/room.toml": (
        'description = "Desks."\nvibe = "calm"\nstates = ["open"]\nequip = ["prompt:style"]\n'
        'disabled = ["coin"]\ntriggers = ["door"]\n[exits]\nnorth = "lab"\n'
        '[links]\nrepo = "https://example.org/repo"\n'
    ),
    "world/office/things/prompt+style": "Be brief.\n",
    "world/office/things/trigger+door": '-- @on enter\nreturn "Welcome."\n',
    "world/office/tools/coin.lua": "-- Tosses.\nreturn math.random(2)\n",
    "world/office/.git/config": "no",
    "world/lab/room.toml": '[exits]\nsouth = "office"\n',
}


async def build(person: Someone, files: dict[str, str], **flags: bool) -> Any:
    encoded = base64.b64encode(archive.pack(files)).decode()
    given = {"archive": encoded, "encoded": True, **flags}
    return await invoke(person.caller, "build", given)


async def export(person: Someone, room: str) -> dict[str, str]:
    data = await invoke(person.caller, "export folder", {"room": room})
    return archive.unpack(base64.b64decode(data.data))


async def test_a_world_is_built_twice_with_an_empty_second_difference(
    world: World, alice: Someone, bob: Someone
) -> None:
    before = await everything(world)
    planned = await build(bob, OFFICE)
    assert (planned.status, planned.rooms) == ("planned", ("lab", "office"))
    assert await everything(world) == before
    applied = await build(bob, OFFICE, apply=True)
    assert (applied.status, applied.count) == ("applied", planned.count)
    again = await build(bob, OFFICE, apply=True)
    assert (again.status, again.count, again.kept) == ("same", 0, ())
    await do(bob, "/join office")
    seen = await do(bob, "/look")
    assert (seen.description, seen.vibe) == ("Desks.", "calm")
    assert (await do(bob, "/examine prompt:style")).content == "Be brief.\n"
    assert "open" in (await do(bob, "/state list")).set
    (trigger,) = (await do(bob, "/trigger")).triggers
    assert (trigger.name, trigger.is_on, trigger.by) == ("door", True, "bob")
    await do(bob, "/go north")
    await do(bob, "/go south")


async def test_a_trigger_that_is_built_knows_the_states_of_its_room(
    world: World, alice: Someone, bob: Someone
) -> None:
    """Detected ones too: else it would take them for new, and run at once."""
    await build(bob, OFFICE, apply=True)
    office = await world.find_room("office")
    world.set_detected_states({office.id: frozenset({"git-present"})})
    script = "-- @on state:git-present\nreturn 1"
    files = {"office/room.toml": 'triggers = ["watch"]', "office/things/trigger+watch": script}
    await build(bob, files, apply=True)
    watch = await world.store.read(lambda conn: triggers.find_trigger(conn, office.id, "watch"))
    assert watch.states == {"git-present", "open"}


async def test_an_export_is_what_a_build_reads(world: World, alice: Someone, bob: Someone) -> None:
    await build(bob, OFFICE, apply=True)
    files = await export(bob, "office")
    assert files["office/things/prompt+style"] == "Be brief.\n"
    assert files["office/tools/coin.lua"] == OFFICE["world/office/tools/coin.lua"]
    assert 'equip = [\n    "prompt:style",\n]' in files["office/room.toml"]
    assert (await build(bob, files)).status == "same"
    assert await export(bob, "office") == files, "in a stable order"
    copied = {path.replace("office/", "annex/", 1): text for path, text in files.items()}
    assert (await build(bob, copied, apply=True)).status == "applied"
    annex = await export(bob, "annex")
    assert {path.replace("annex/", "office/", 1): text for path, text in annex.items()} == files


async def test_changes_are_shown_and_missing_files_keep_or_prune_things(
    world: World, alice: Someone, bob: Someone
) -> None:
    await build(bob, OFFICE, apply=True)
    files = dict(OFFICE)
    files["world/office/things/prompt+style"] = "Be long.\n"
    files["world/office/room.toml"] = 'vibe = "loud"\nequip = []\ntriggers = []\n'
    del files["world/office/tools/coin.lua"]
    planned = await build(bob, files)
    steps = {(one.kind, one.name, one.action) for one in planned.steps}
    assert steps == {
        ("vibe", "", "change"), ("text", "prompt:style", "change"),
        ("equip", "prompt:style", "remove"), ("trigger", "door", "remove"),
    }  # fmt: skip
    (text,) = [one for one in planned.steps if one.kind == "text"]
    assert "-Be brief." in text.diff and "+Be long." in text.diff
    assert planned.kept == ("office/coin",)
    await build(bob, files, apply=True, prune=True)
    await do(bob, "/join office")
    assert (await do(bob, "/look")).description == "Desks.", "what it does not say stays"
    assert not (await do(bob, "/trigger")).triggers[0].is_on
    assert isinstance(await failed(bob, "/tool show coin"), NotFound)
    assert len((await do(bob, "/history prompt:style")).versions) == 2


async def failed(person: Someone, line: str) -> WorldError:
    with pytest.raises(WorldError) as caught:
        await do(person, line)
    return caught.value


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("office/room.toml", "vibe = 3", "office/room.toml: vibe"),
        ("office/room.toml", "vib = 'x'", "office/room.toml: vib"),
        ("office/room.toml", "vibe = ", "office/room.toml: Invalid value"),
        ("office/tool/x.lua", "return 1", "office/tool/x.lua: nothing of a room"),
        ("office/tools/X!.lua", "return 1", "office/tools/X!.lua: "),
        ("office/tools/x.lua", "return (", "office: tool x: Lua syntax error"),
        ("office/tools/x.lua", "-- @param 1", "office: tool x: Line 1 of the script"),
        ("office/things/trigger+x", "return 1", "does not say what starts it"),
        (
            "office/room.toml",
            'equip = ["nosuch:tool"]',
            "office: equip nosuch:tool: There is nothing",
        ),
        ("office/room.toml", '[exits]\nnorth = "nosuch"', "nosuch"),
        ("office/room.toml", '[exits]\n"NO WAY" = "lab"', "office: exit NO WAY"),
        ("office/room.toml", 'triggers = ["nosuch"]', "office: trigger nosuch: There is no text"),
        ("office/room.toml", 'models = ["nosuch"]', "nosuch"),
        ("office/room.toml", 'states = ["NO"]', "office: state NO"),
        ("office/room.toml", '[links]\nx = "nothing"', "office: link x: This is not a URL"),
        ("Office!/room.toml", "", "Office!"),
    ],
)
async def test_build_names_its_error_and_changes_nothing(
    world: World, alice: Someone, bob: Someone, path: str, text: str, told: str
) -> None:
    files = {key.removeprefix("world/"): value for key, value in OFFICE.items()} | {path: text}
    before = await everything(world)
    with pytest.raises(WorldError) as caught:
        await build(bob, files, apply=True)
    assert told in caught.value.message
    assert await everything(world) == before


async def test_building_needs_its_rights(
    world: World, alice: Someone, bob: Someone, guest: Someone
) -> None:
    await build(alice, OFFICE, apply=True)
    changed = {"office/room.toml": 'vibe = "mine"'}
    with pytest.raises(Forbidden, match="needs the build right in office"):
        await build(bob, changed)
    with pytest.raises(Forbidden, match="create"):
        await build(guest, {"shed/room.toml": ""})
    await do(alice, "/join office")
    await do(alice, f"/room builder {bob.caller.agent.name}")
    assert (await build(bob, changed, apply=True)).status == "applied"
    with pytest.raises(Forbidden, match="needs the moderate right in office"):
        await build(bob, {"office/room.toml": 'access = "private"'})
    await do(alice, "/create vault")
    await do(alice, "/room private")
    await do(alice, "/tool new secret = return 1")
    for text in ('[exits]\nup = "vault"', 'equip = ["vault:secret"]'):
        with pytest.raises((NotFound, Forbidden)):
            await build(bob, {"office/room.toml": text}, apply=True)
    with pytest.raises(WorldError, match="vault is taken"):
        await build(bob, {"vault/room.toml": ""}, apply=True)


async def test_a_build_neither_shows_nor_closes_exits_to_hidden_rooms(
    world: World, alice: Someone, bob: Someone
) -> None:
    await build(bob, OFFICE, apply=True)
    await do(alice, "/create vault")
    await do(alice, "/room private")
    await do(bob, "/join office")
    await do(bob, f"/room builder {alice.caller.agent.name}")
    await do(alice, "/join office")
    await do(alice, "/portal up vault")
    files = await export(bob, "office")
    assert "vault" not in files["office/room.toml"] and "up" not in files["office/room.toml"]
    assert (await build(bob, files, apply=True)).status == "same"
    assert isinstance(await failed(bob, "/unportal up"), NotFound)
    assert ("up", "vault") in (await do(alice, "/exits")).exits


def test_archives_of_others_are_read_with_care() -> None:
    def pack(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", size: int = 0) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as made:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, "/etc/passwd", size or len(data)
            made.addfile(info, io.BytesIO(data or bytes(size)))
        return out.getvalue()

    for data in (
        pack("office/../../room.toml"), pack("office/room.toml", tarfile.SYMTYPE),
        pack("office/room.toml", tarfile.LNKTYPE), pack("office/room.toml", tarfile.FIFOTYPE),
        pack("office/room.toml", data=b"\xff"), b"no archive" * 100, pack("a\x1b[31m/room.toml"),
    ):  # fmt: skip
        with pytest.raises(Invalid):
            archive.unpack(data)
    with pytest.raises(TooLarge):
        archive.unpack(pack("office/room.toml", size=MAX_BUILD_BYTES + 1))
    with pytest.raises(Invalid, match=r"There is no room\.toml"):
        read_folders({"office/things/x": "y"})
    with pytest.raises(Invalid, match="another folder is the room a"):
        read_folders({"x/a/room.toml": "", "y/a/room.toml": ""})


def make_header(size: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return the head of a member with any bytes as its size, and a right checksum."""
    block = bytearray(tarfile.TarInfo("h/things/n").tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = size.ljust(12, b"\0")
    block[156:157] = kind
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


END = bytes(1024)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (make_header(b"\xff" * 10 + b"\xfe\x00") + END, "has no -512 bytes"),
        (make_header(b"\xff" * 12) + END, "has no -1 bytes"),
        (make_header(b"77777777777") + END, "bytes"),
        (make_header(b"4", tarfile.GNUTYPE_SPARSE) + b"text".ljust(512, b"\0") + END, "neither"),
        (
            make_header(b"30", tarfile.XHDTYPE) + b"24 GNU.sparse.map=0,a,b\n".ljust(512) + END,
            "form",
        ),
        (make_header(b"13", tarfile.XHDTYPE) + b"11 size=-5\n".ljust(512) + END, "another form"),
        (make_header(b"4", tarfile.XHDTYPE) + b"4 a\n".ljust(512) + END, "long name"),
        (archive.pack({"r/room.toml": "", "r/things/a": "x"})[:1536], "its end is missing"),
        (archive.pack({"r/room.toml": ""})[:700], "its end is missing"),
        (archive.pack({"r/room.toml": ""})[:1024] + archive.pack({"r/x": ""}), "follows its end"),
        (make_header(b"13", tarfile.XHDTYPE) + b"99 path=ab\n".ljust(512) + END, "long name"),
        (archive.pack({"r/" + "a" * 2_000: ""}), "more than 1000 characters"),
        (b"\x1f\x8b" + END, "it is compressed"),
        (b"", "its end is missing"),
    ],
)
def test_damaged_archives_are_refused_whole(data: bytes, told: str) -> None:
    """A header that is taken for the end, with prune, would delete what follows it."""
    with pytest.raises(Invalid, match=told):
        archive.unpack(data)


def test_damage_in_the_middle_is_no_end() -> None:
    data = bytearray(archive.pack({"r/room.toml": "", "r/things/a": "x", "r/things/b": "y"}))
    data[512:517] = b"xxxxx"
    with pytest.raises(Invalid, match="checksum"):
        archive.unpack(bytes(data))


def test_archives_of_other_programs_are_read() -> None:
    """Long names as GNU and as POSIX write them, and the commit of `git archive`."""
    long = "r/things/" + "a" * 120
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        out = io.BytesIO()
        headers = {"comment": "commit"} if form == tarfile.PAX_FORMAT else {}
        with tarfile.open(fileobj=out, mode="w", format=form, pax_headers=headers) as made:
            for name, text in (
                (long, "x"),
                ("r/things/\u00e9" + "b" * 100, ""),
                ("r/room.toml", ""),
            ):
                info = tarfile.TarInfo(name)
                info.size = len(text)
                made.addfile(info, io.BytesIO(text.encode()))
        files = archive.unpack(out.getvalue())
        assert list(files) == [long, "r/things/\u00e9" + "b" * 100, "r/room.toml"]
        assert files[long] == "x"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (".".join("a" * 60_000) + "=1", "a key has too many parts"),
        ("[" + " . ".join(["'a'"] * 20_000) + "]", "a key has too many parts"),
        (".".join(['"a\\""'] * 20_000) + "=1", "a key has too many parts"),
        ("a = 1\n" * 100_000, r"room\.toml are too long"),
        ('"' + '\\"' * 120_000, "room.toml: "),
        ('"' * 200_000, "room.toml: "),
        ("'a\\'.\"b\".c" * 15_000, "room.toml: "),
        ("states=" + "[" * 5_000, "in each other too often"),
        ("vibe=" + "9" * 100_000, "a number has too many digits"),
    ],
)
def test_a_room_file_takes_bounded_work(text: str, told: str) -> None:
    with pytest.raises((Invalid, TooLarge), match=told):
        read_folders({"r/room.toml": text})


def test_a_text_with_many_dots_is_no_key() -> None:
    text = ".".join("1" * 34) + ". And then" + "." * 100
    (folder,) = read_folders({"r/room.toml": f'\ufeffdescription = "{text}"\n'})
    assert folder.file.description == text


def test_two_files_of_one_text_are_refused() -> None:
    files = {"r/room.toml": "", "r/things/p+q": "1", "r/things/p:q": "2"}
    with pytest.raises(Invalid, match="another file is the text p:q"):
        read_folders(files)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for _ in range(2):
            made.addfile(tarfile.TarInfo("r/room.toml"))
    with pytest.raises(Invalid, match="comes twice"):
        archive.unpack(out.getvalue())


async def test_files_outside_of_rooms_are_named(alice: Someone) -> None:
    files = {"w/r/room.toml": "", "w/s/Room.toml": "", "w/s/things/a": "x", "w/README.md": ""}
    assert (await build(alice, files)).unread == ("w/s/Room.toml", "w/s/things/a")


async def test_a_build_takes_no_longer_text_than_put(alice: Someone) -> None:
    size = alice.limits.thing_bytes + 1
    with pytest.raises(Invalid, match="r: text a: "):
        await build(alice, {"r/room.toml": "", "r/things/a": "x" * size}, apply=True)


async def test_texts_keep_their_line_ends(world: World, alice: Someone, bob: Someone) -> None:
    await build(
        alice, {"r/room.toml": 'description = "a\\r\\nb"', "r/things/a": "x\r\ny"}, apply=True
    )
    files = await export(alice, "r")
    assert files["r/things/a"] == "x\r\ny"
    assert (await build(alice, files)).status == "same"


async def test_the_notice_of_a_build_names_what_it_removed(alice: Someone) -> None:
    files = {"r/room.toml": "", "r/things/a": "x", "r/tools/t.lua": "return 1"}
    first = await build(alice, files, apply=True)
    assert [step.diff for step in first.steps if step.kind == "tool"] == [
        "@@ -0,0 +1 @@\n+return 1\n\\ No newline at end of file"
    ]
    await build(alice, {"r/room.toml": ""}, apply=True, prune=True)
    await do(alice, "/join r")
    said = [row.text for row in (await do(alice, "/history")).entries]
    assert any("from a folder: 2 changes; removed a, t" in text for text in said), said
    await do(alice, "/restore a")
    assert (await do(alice, "/examine a")).content == "x"


async def test_a_text_may_be_named_as_the_file_of_a_room(alice: Someone) -> None:
    await build(alice, {"r/room.toml": "", "r/things/room.toml": "x"}, apply=True)
    assert (await build(alice, await export(alice, "r"))).status == "same"


async def test_no_trigger_is_turned_on_whose_script_does_not_run(alice: Someone) -> None:
    """Also if the script is in the room already, where /put only warns."""
    await build(alice, {"r/room.toml": ""}, apply=True)
    await do(alice, "/join r")
    await do(alice, "/put trigger:bad =", "-- @on enter\nreturn (")
    for files in ({}, {"r/things/trigger+bad": "-- @on enter\nreturn ("}):
        with pytest.raises(Invalid, match=r"r: (text )?trigger.bad: "):
            await build(alice, {"r/room.toml": 'triggers = ["bad"]'} | files, apply=True)
    with pytest.raises(NotFound, match="r: trigger gone: "):
        await build(alice, {"r/room.toml": 'triggers = ["gone"]'}, apply=True)
