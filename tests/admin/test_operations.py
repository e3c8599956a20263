"""Operations: their effects, their audit rows, and calls of a running server."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from sqlalchemy import text

from sshwarma.admin.control_client import SOCKET_NAME, send_request, short_socket_path
from sshwarma.admin.control_socket import ControlServer
from sshwarma.admin.operations import OPERATIONS
from sshwarma.admin.server_operations import run_operation
from sshwarma.common.limits import MAX_CONTROL_REQUEST_BYTES
from sshwarma.common.times import format_iso
from sshwarma.settings import RegistrationMode, Settings, load_settings
from sshwarma.world import agents
from sshwarma.world.errors import Conflict, Invalid, NotFound, Unavailable, WorldError
from sshwarma.world.events import AgentEvicted, Event
from sshwarma.world.ids import now_ms
from sshwarma.world.reader import PERSON
from sshwarma.world.world import World
from support.people import Someone, everything


def key(comment: str = "a@b") -> str:
    made = asyncssh.generate_private_key("ssh-ed25519", comment=comment)
    return made.export_public_key("openssh").decode()


def registering(mode: RegistrationMode) -> Settings:
    return load_settings(registration={"mode": mode})


async def audit(world: World) -> list[tuple[Any, ...]]:
    query = text("SELECT agent_id, room_id, door, verb, what FROM audit ORDER BY n")
    return [tuple(row) for row in await world.store.read(lambda c: c.execute(query).all())]


async def test_keys_are_added_listed_and_removed(world: World, alice: Someone) -> None:
    public = key()
    done = await run_operation(world, "keys_add", {"name": "carol", "public_key": public})
    assert (done["agent"], done["role"]) == ("carol", "member")
    assert done["fingerprint"].startswith("SHA256:")
    second = await run_operation(
        world, "keys_add", {"name": "carol", "public_key": key("c@d"), "role": "admin"}
    )
    assert world.agents.find_by_name("carol").role == "admin"
    listed = await run_operation(world, "keys_list", {"name": "carol"})
    assert [one["comment"] for one in listed] == ["a@b", "c@d"]
    assert await run_operation(world, "keys_list", {}) == listed
    with pytest.raises(Conflict, match="already belongs to carol"):
        await run_operation(world, "keys_add", {"name": "alice", "public_key": public})
    again = await run_operation(world, "keys_add", {"name": "carol", "public_key": public})
    assert [key["done"] for key in again["keys"]] == ["unchanged"]
    gone = await run_operation(
        world, "keys_remove", {"name": "carol", "fingerprint": done["fingerprint"]}
    )
    assert gone == {"agent": "carol", "fingerprint": done["fingerprint"]}
    assert await audit(world) == [
        (None, None, "cli", "keys", f"add carol {done['fingerprint']}"),
        (None, None, "cli", "keys", f"add carol --role admin {second['fingerprint']}"),
        (None, None, "cli", "keys", f"add carol {done['fingerprint']}"),
        (None, None, "cli", "keys", f"remove carol {done['fingerprint']}"),
    ]


async def test_all_keys_of_a_file_are_added_or_none(world: World, alice: Someone) -> None:
    one, two, taken = key("one"), key("two"), key("taken")
    await run_operation(world, "keys_add", {"name": "alice", "public_key": taken})
    before = await everything(world)
    for text_, reason in (
        (f"{one}{taken}", "already belongs to alice"),
        (f"{one}nonsense\n", "^Invalid key: line 2: not an OpenSSH public key"),
    ):
        with pytest.raises((Conflict, Invalid), match=reason):
            await run_operation(world, "keys_add", {"name": "carol", "public_key": text_})
    assert await everything(world) == before
    await run_operation(world, "keys_add", {"name": "carol", "public_key": one})
    done = await run_operation(world, "keys_add", {"name": "carol", "public_key": one + two})
    assert [(one["comment"], one["done"]) for one in done["keys"]] == [
        ("one", "unchanged"), ("two", "added"),
    ]  # fmt: skip


async def test_expiry_of_a_key_is_set_and_never_lengthened_unasked(
    world: World, alice: Someone
) -> None:
    public, listed = key(), []
    for days in (None, 2, None, 3):
        done = await run_operation(
            world, "keys_add", {"name": "carol", "public_key": public, "days": days}
        )
        [one] = await run_operation(world, "keys_list", {"name": "carol"})
        assert one["expires_at"] == done["keys"][0]["expires_at"]
        listed.append((done["keys"][0]["done"], one["expires_at"]))
    assert [word for word, _ in listed] == [
        "added", "expiry changed", "unchanged", "expiry changed",
    ]  # fmt: skip
    ends = [end for _, end in listed]
    assert ends[0] is None and ends[1] == ends[2] < ends[3]
    assert one["last_used_at"] is None and one["created_at"] < ends[1]
    with pytest.raises(Invalid, match="days: must be more than 0 and at most 3650"):
        await run_operation(
            world, "keys_add", {"name": "carol", "public_key": public, "days": 4000}
        )


async def test_agent_role_and_disabling_are_changed_and_listed(
    world: World, alice: Someone, bob: Someone
) -> None:
    received: list[Event] = []
    world.bus.on_agent(bob.id, received.append)
    await run_operation(world, "agents_role", {"name": "bob", "role": "admin"})
    await run_operation(world, "agents_disable", {"name": "BOB"})
    assert [type(event) for event in received if isinstance(event, AgentEvicted)] == [AgentEvicted]
    listed = {one["name"]: one for one in await run_operation(world, "agents_list", {})}
    assert listed["bob"].pop("last_seen_at") <= format_iso(now_ms()), "bob is connected"
    assert listed["bob"] == {
        "name": "bob", "kind": "person", "role": "admin", "disabled": True, "keys": 0,
        "connections": 1,
    }  # fmt: skip
    await run_operation(world, "agents_enable", {"name": "bob"})
    assert not bob.agent.disabled
    assert [(verb, what) for *_, verb, what in await audit(world)] == [
        ("agents", "role bob admin"), ("agents", "disable BOB"), ("agents", "enable bob"),
    ]  # fmt: skip


async def test_keys_remove_refuses_an_unknown_or_ambiguous_fingerprint(
    world: World, alice: Someone
) -> None:
    for _ in range(2):
        await run_operation(world, "keys_add", {"name": "carol", "public_key": key()})
    for start, message in (
        ("SHA256:x!", "Unknown key SHA256:x! of carol."),
        ("x!", "Unknown key SHA256:x! of carol."),
        ("SHA256:", "fingerprint: must not be empty."),
        ("", "fingerprint: must not be empty."),
    ):
        with pytest.raises((Invalid, NotFound)) as caught:
            await run_operation(world, "keys_remove", {"name": "carol", "fingerprint": start})
        assert str(caught.value) == f"{message} sshwarma keys list carol lists them."
    assert len(await run_operation(world, "keys_list", {"name": "carol"})) == 2


async def test_the_only_key_is_not_removed_by_an_empty_fingerprint(world: World) -> None:
    await run_operation(world, "keys_add", {"name": "carol", "public_key": key()})
    with pytest.raises(Invalid):
        await run_operation(world, "keys_remove", {"name": "carol", "fingerprint": "SHA256:"})
    assert len(await run_operation(world, "keys_list", {"name": "carol"})) == 1


async def test_the_start_of_several_fingerprints_is_ambiguous(world: World) -> None:
    for _ in range(70):  # base64 has 64 letters: two begin alike
        await run_operation(world, "keys_add", {"name": "carol", "public_key": key()})
    listed = await run_operation(world, "keys_list", {"name": "carol"})
    starts = [one["fingerprint"][:8] for one in listed]
    start = next(one for one in starts if starts.count(one) > 1)
    with pytest.raises(NotFound) as caught:
        await run_operation(world, "keys_remove", {"name": "carol", "fingerprint": start})
    assert caught.value.message == f"{start} is ambiguous: several keys of carol begin with it."


async def test_an_empty_label_or_id_of_a_token_is_refused(world: World, alice: Someone) -> None:
    with pytest.raises(Invalid, match=r"^label: must not be empty\. Use a label such as laptop\.$"):
        await run_operation(world, "token_new", {"name": "alice", "label": " "})
    await run_operation(world, "token_new", {"name": "alice", "label": "ci"})
    with pytest.raises(Invalid, match=r"^token: must not be empty\."):
        await run_operation(world, "token_revoke", {"token_id": ""})
    assert len(await run_operation(world, "token_list", {})) == 1


async def test_services_of_an_operation_are_not_arguments(world: World) -> None:
    for name in ("registration_show", "invite"):
        with pytest.raises(Invalid, match="settings"):
            await run_operation(world, name, {"settings": None})
    with pytest.raises(Invalid, match="world"):
        await run_operation(world, "agents_list", {"world": None})


async def test_registration_show_returns_the_mode_of_the_server(world: World) -> None:
    assert await run_operation(world, "registration_show", {}) is None
    assert await run_operation(world, "registration_show", {}, settings=registering("open")) == {
        "mode": "open",
        "role": "member",
        "listen": "127.0.0.1:2222",
        "http": "127.0.0.1:2280",
    }


async def test_agents_list_omits_removed_models(
    world: World, alice: Someone, qwen: Someone
) -> None:
    async def names() -> set[str]:
        return {one["name"] for one in await run_operation(world, "agents_list", {})}

    assert await names() == {"alice", "qwen"}
    await world.change(lambda tx: agents.update_agent(tx, qwen.id, retired=True))
    assert await names() == {"alice"}


REFUSED: list[tuple[str, dict[str, Any], type[WorldError]]] = [
    ("keys_add", {"name": "Bad Name", "public_key": key()}, Invalid),
    ("keys_add", {"name": "system", "public_key": key()}, Invalid),
    ("keys_add", {"name": "carol", "public_key": "nonsense"}, Invalid),
    ("keys_add", {"name": "carol", "public_key": key(), "role": "king"}, Invalid),
    ("keys_add", {"name": "alice", "public_key": key(), "role": "member"}, Conflict),
    ("keys_add", {"name": "alice", "public_key": key(), "days": -1}, Invalid),
    ("keys_list", {"name": "nobody"}, NotFound),
    ("keys_remove", {"name": "alice", "fingerprint": "SHA256:none"}, NotFound),
    ("agents_role", {"name": "nobody", "role": "admin"}, NotFound),
    ("agents_role", {"name": "alice", "role": "king"}, Invalid),
    ("agents_role", {"name": "alice", "role": "admin"}, Conflict),
    ("agents_disable", {"name": "alice"}, Conflict),
    ("agents_enable", {"name": "nobody"}, NotFound),
    ("agents_rename", {"name": "nobody", "new_name": "zoe"}, NotFound),
    ("agents_rename", {"name": "alice", "new_name": "Bad Name"}, Invalid),
    ("agents_rename", {"name": "alice", "new_name": "system"}, Invalid),
    ("agents_rename", {"name": "alice", "new_name": "lobby"}, Conflict),
    ("agents_rename", {"name": "alice", "new_name": "alice"}, Conflict),
    ("agents_remove", {"name": "alice"}, Conflict),
    ("agents_remove", {"name": "nobody"}, NotFound),
    ("audit_list", {"name": "nobody"}, NotFound),
    ("recover", {"name": "alice", "public_key": "nonsense"}, Invalid),
    ("recover", {"name": "Bad Name", "public_key": key()}, Invalid),
    ("invite", {"role": "king"}, Invalid),
    ("reload", {}, Unavailable),
    ("vacuum", {}, Unavailable),
    ("backup_failure", {}, Unavailable),
    ("copy_database", {}, Unavailable),
    ("settings_source", {}, Unavailable),
    ("database_address", {}, Unavailable),
    ("host_key_next", {}, Unavailable),
    ("host_key_switch", {}, Unavailable),
    ("broadcast", {"text": "tea"}, Unavailable),
    ("drain", {"minutes": 1}, Unavailable),
    ("drain_cancel", {}, Unavailable),
    ("build_rooms", {"archive": "", "apply": 0, "prune": 0, "person": None}, Unavailable),
    ("invite_revoke", {"invite_id": ""}, Invalid),
    ("invite_revoke", {"invite_id": "nothing"}, NotFound),
    ("nothing", {}, NotFound),
]


@pytest.mark.parametrize(("name", "args", "how"), REFUSED)
async def test_refused_operation_changes_nothing(
    world: World, alice: Someone, name: str, args: dict[str, Any], how: type[WorldError]
) -> None:
    before = await everything(world)
    with pytest.raises(how):
        await run_operation(world, name, args)
    assert await everything(world) == before
    assert {agent.name for agent in world.agents} == {"alice"}


@pytest.fixture(params=["short", "long"])
async def data_dir(request: Any, world: World, tmp_path: Path) -> AsyncIterator[Path]:
    """A data directory with a running server's socket; one is too deep for its name."""
    path = tmp_path / "d"
    if request.param == "long":
        path = path.joinpath(*(["a-directory-with-quite-a-long-name"] * 8))
        assert len(str(path / SOCKET_NAME)) > 200
    path.mkdir(parents=True)
    door = ControlServer(path, partial(run_operation, world))
    await door.start()
    yield path
    await door.stop()
    assert not (path / SOCKET_NAME).exists()


async def test_running_server_executes_operations(
    world: World, alice: Someone, data_dir: Path
) -> None:
    made = await send_request(data_dir, "keys_add", {"name": "carol", "public_key": key()})
    assert world.agents.find_by_key(made["fingerprint"]) == world.agents.find_by_name("carol")
    assert [one["name"] for one in await send_request(data_dir, "agents_list", {})] == [
        "alice",
        "carol",
    ]
    with pytest.raises(
        WorldError, match="needs an owner with a key, and this is the only one"
    ) as caught:
        await send_request(data_dir, "agents_disable", {"name": "alice"})
    assert caught.value.hint_for(PERSON) == "Make another person owner first."
    with pytest.raises(WorldError, match="Unknown operation"):
        await send_request(data_dir, "nothing", {})


async def test_control_socket_has_mode_0600(data_dir: Path) -> None:
    mode = (data_dir / SOCKET_NAME).stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


async def test_concurrent_operations_all_succeed(world: World, data_dir: Path) -> None:
    letters = "abefghjkpqtxyz"
    await asyncio.gather(
        *(
            send_request(data_dir, "keys_add", {"name": f"q{a}", "public_key": key()})
            for a in letters
        )
    )
    assert len(await send_request(data_dir, "keys_list", {})) == len(letters)
    assert len(await audit(world)) == len(letters)


@pytest.mark.parametrize(("request_line", "message"), [
    (b"", "not JSON"), (b"\n", "not JSON"), (b"nonsense\n", "not JSON"), (b"[]\n", "must be"),
    (b"null\n", "must be"), (b"{}\n", "must be"), (b'{"op": 1, "args": 2}\n', "must be"),
    (b'{"op": "nosuch", "args": {}}\n', "Unknown operation."),
    (b'{"op": "keys_list", "args": {"nothing": 1}}\n', "unexpected keyword argument 'nothing'"),
    (b"\xff\xfe\n", "not JSON"), (b"[" * 60_000 + b"\n", "not JSON"),
    (b"x" * (MAX_CONTROL_REQUEST_BYTES + 10) + b"\n", f"over {MAX_CONTROL_REQUEST_BYTES} bytes"),
])  # fmt: skip
async def test_broken_request_does_not_stop_the_control_socket(
    world: World, data_dir: Path, request_line: bytes, message: str
) -> None:
    with short_socket_path(data_dir / SOCKET_NAME) as path:
        reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request_line)
    writer.write_eof()
    async with asyncio.timeout(30):
        answer = await reader.read()
    assert message in json.loads(answer)["message"]
    writer.close()
    assert await send_request(data_dir, "agents_list", {}) == []


@pytest.mark.process
async def test_operation_that_raises_is_answered_and_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def operate(name: str, args: dict[str, Any]) -> Any:
        raise KeyError("a bug")

    server = ControlServer(tmp_path, operate)
    await server.start()
    with pytest.raises(WorldError, match="Its log has the reason"):
        await send_request(tmp_path, "agents_list", {})
    await server.stop()
    logged = capsys.readouterr()
    assert "KeyError" in logged.out + logged.err


@pytest.mark.process
async def test_server_that_ends_before_it_answers_is_reported(tmp_path: Path) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    path = tmp_path / SOCKET_NAME
    async with await asyncio.start_unix_server(hang_up, path):
        with pytest.raises(Unavailable, match="closed the connection before it answered"):
            await send_request(tmp_path, "agents_list", {})


@pytest.mark.process
async def test_answer_of_another_version_says_so(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b'{"result": [{"name": "ann", "made": {}}]}\n')
        writer.close()

    async with await asyncio.start_unix_server(answer, tmp_path / SOCKET_NAME):
        [agent] = await send_request(tmp_path, "agents_list", {})
    assert (agent["name"], agent.get("keys")) == ("ann", None)
    with pytest.raises(Unavailable, match=r"of another version .* its answer has no made_at"):
        agent["made"]["made_at"]


@pytest.mark.process
async def test_stale_control_socket_is_replaced(world: World, tmp_path: Path) -> None:
    first = ControlServer(tmp_path, partial(run_operation, world))
    await first.start()
    second = ControlServer(tmp_path, partial(run_operation, world))
    await second.start()
    assert await send_request(tmp_path, "agents_list", {}) == []
    await second.stop()
    await first.stop()
    with pytest.raises(FileNotFoundError):
        await send_request(tmp_path, "agents_list", {})


def test_every_operation_has_a_refusal_test() -> None:
    tried = {name for name, _, _ in REFUSED} | {
        "agents_list",
        "registration_show",
        "invite_list",
        "record_command",
        "info",
    }
    assert {name for name in OPERATIONS if not name.startswith(("token", "import"))} <= tried
