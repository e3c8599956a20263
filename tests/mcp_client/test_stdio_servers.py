"""Servers that are programs: their tools are things, called as any other.

Whatever they do, no more than one call suffers.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sshwarma.mcp.client.sdk.session import format_progress
from sshwarma.mcp.client.throttle import BYTES_PER_MESSAGE, Throttle
from sshwarma.world.errors import Unavailable
from support.driver.installed import POISONED
from support.hub import QUICK, Hubbed
from support.people import do
from support.waiting import longest_block


async def test_tools_are_things_that_can_be_equipped_and_called(hubbed: Hubbed) -> None:
    await hubbed.poisoned()
    tool = await hubbed.tool("evil:echo")
    assert (tool.id, tool.parent_id) == ("tool_evil:echo", "mcp_evil")
    assert tool.description == "Gives back what it was sent."
    assert tool.metadata["input_schema"] == {"type": "object"}
    assert tool.available
    outcome = await hubbed.call("evil:echo", words=["a", 1])
    assert outcome.ending == "result"
    assert outcome.text == '{"words": ["a", 1]}'
    assert outcome.structured == {"got": {"words": ["a", 1]}}
    assert (await hubbed.call("evil__echo")).text == "{}"
    server = await hubbed.server("evil")
    assert server.metadata["version"] == "2025-06-18"
    assert server.metadata["server"] == "poisoned[31m 1"


async def test_tool_error_result_is_an_error(hubbed: Hubbed) -> None:
    await hubbed.poisoned()
    failed = await hubbed.call("evil:fails")
    assert (failed.ending, failed.text) == ("error", "It did not work.")
    refused = await hubbed.call("evil:refuses")
    assert (refused.ending, refused.text) == ("error", "The server refused: No such [1mthing.")
    nonsense = await hubbed.call("evil:nonsense")
    assert nonsense.ending == "error"
    assert nonsense.text.startswith("The server's response violates the MCP protocol: content.0")
    liar = await hubbed.call("evil:liar")
    assert liar.ending == "error"
    assert "Invalid structured content returned by tool liar" in liar.text
    assert (await hubbed.call("evil:echo")).ending == "result"


async def test_output_that_is_not_a_message_is_logged_only(hubbed: Hubbed) -> None:
    server = await hubbed.poisoned()
    assert (await hubbed.call("evil:garbage")).text == "After the garbage."
    noted = hubbed.hub.log_of(server)
    assert "poisoned server starts" in noted
    assert "not a message: this is no JSON" in noted
    assert hubbed.state("evil") == "up"


async def test_response_over_the_limit_fails_only_its_call(hubbed: Hubbed) -> None:
    await hubbed.poisoned()
    huge, echo = await asyncio.gather(hubbed.call("evil:huge"), hubbed.call("evil:echo"))
    assert huge.ending == "error"
    assert huge.text == "A message of the server is too large (limit 4 MiB)."
    assert echo.ending == "result"
    crumbs = await hubbed.call("evil:crumbs")
    assert crumbs.text == "A message of the server has too many values (limit 100000)."
    large = await hubbed.call("evil:big", bytes=4_000_000)
    assert (large.ending, len(large.text)) == ("result", 4_000_000)
    (row,) = await hubbed.world.last_rows("lobby", 1)
    assert (row.seq, len(row.content)) == (large.seq, 4_000_000)
    assert hubbed.state("evil") == "up"


async def test_flood_of_messages_does_not_block_the_event_loop(hubbed: Hubbed) -> None:
    server = await hubbed.poisoned()
    flood = asyncio.create_task(hubbed.call("evil:flood"))
    assert await longest_block(flood) < 0.3
    assert flood.result().text == "Flooded."
    assert len(hubbed.hub.log_of(server)) <= 501


async def test_call_timeout_cancels_the_call_at_the_server(hubbed: Hubbed) -> None:
    await hubbed.poisoned()
    hubbed.patience("evil", 0.3)
    outcome = await hubbed.call("evil:stall")
    assert (outcome.ending, outcome.text) == ("timeout", "Timed out after 0.3 s.")
    hubbed.patience("evil", 30)
    assert len(json.loads((await hubbed.call("evil:cancelled")).text)) == 1
    assert hubbed.state("evil") == "up"


async def test_three_timeouts_degrade_a_server_until_one_answer(hubbed: Hubbed) -> None:
    await hubbed.poisoned()
    hubbed.patience("evil", 0.2)
    await asyncio.gather(*(hubbed.call("evil:stall") for _ in range(3)))
    assert hubbed.state("evil") == "degraded"
    hubbed.patience("evil", 30)
    await hubbed.call("evil:echo")
    assert hubbed.state("evil") == "up"


async def test_cancelled_call_is_cancelled_at_the_server(hubbed: Hubbed) -> None:
    await hubbed.poisoned()
    running = asyncio.create_task(hubbed.call("evil:stall"))
    supervisor = hubbed.hub.pool.running["mcp_evil"]
    await hubbed.until(lambda: supervisor.in_flight)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert supervisor.in_flight == 0

    async def received() -> bool:
        return len(json.loads((await hubbed.call("evil:cancelled")).text)) == 1

    await hubbed.until(received)


async def test_running_and_queued_calls_are_bounded(hubbed: Hubbed) -> None:
    await hubbed.poisoned(calls_at_once=2)
    supervisor = hubbed.hub.pool.running["mcp_evil"]
    running = [asyncio.create_task(hubbed.call("evil:stall")) for _ in range(52)]
    await hubbed.until(lambda: supervisor.in_flight == 2 and supervisor.calls.queued_count == 50)
    one_more = await hubbed.call("evil:echo")
    assert one_more.text.startswith("evil is busy. Too many queued calls (limit 50). ")
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert (await hubbed.call("evil:echo")).ending == "result"


async def test_progress_is_reported_as_plain_text(hubbed: Hubbed) -> None:
    await hubbed.poisoned()
    received: list[str] = []
    caller = replace(hubbed.owner.caller, door="mcp", on_progress=received.append)
    assert (await hubbed.tools.call(caller, "evil:steps", {})).text == "Three steps."
    assert received == ["1/3 step[1m 1", "2/3 step[1m 2", "3/3 step[1m 3"]


async def test_program_gets_a_minimal_environment(
    hubbed: Hubbed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HUB_TEST_TOKEN", "s3cret words $HOME")
    monkeypatch.setenv("OTHER", "not for it")
    odd = ("$(touch /tmp/x)", "a b;c|d", "'\"`", "*", "--flag=~")
    await hubbed.add("evil", *POISONED, *odd, env={"API_TOKEN": "Bearer ${HUB_TEST_TOKEN}"})
    seen = json.loads((await hubbed.call("evil:environment")).text)
    assert seen["argv"] == list(odd)
    assert set(seen["env"]) - {"LC_CTYPE"} <= {"PATH", "HOME", "LANG", "API_TOKEN"}
    assert seen["env"]["API_TOKEN"] == "Bearer s3cret words $HOME"
    assert seen["cwd"] == str(tmp_path / "mcp" / "evil")
    server = await hubbed.server("evil")
    assert "s3cret" not in repr(server)
    assert server.metadata["entry"]["env"] == {"API_TOKEN": "Bearer ${HUB_TEST_TOKEN}"}


async def test_program_runs_under_resource_limits(hubbed: Hubbed) -> None:
    await hubbed.poisoned(memory_mib=300)
    limits = json.loads((await hubbed.call("evil:environment")).text)["limits"]
    assert limits == {"DATA": [300 * 2**20] * 2, "NOFILE": [1024] * 2, "CORE": [0, 0]}
    await hubbed.add("hungry", sys.executable, "-c", "x = bytearray(400 * 2**20)", wait=False,
                     memory_mib=300)  # fmt: skip
    condition = await hubbed.hub.wait_until_settled("hungry", 30)
    assert condition.reason == "it exited with status 1: MemoryError"


async def test_unset_environment_variable_is_named(hubbed: Hubbed) -> None:
    await hubbed.poisoned(env={"A": "${NOT_THERE_AT_ALL}"}, wait=False)
    condition = await hubbed.hub.wait_until_settled("evil", 30)
    assert condition.reason == "The environment variable NOT_THERE_AT_ALL is not set"


async def test_variables_of_a_command_are_read_when_it_starts(
    hubbed: Hubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TEST_SHELL", "sh")
    monkeypatch.setenv("HUB_TEST_WORD", "loud and clear")
    script = 'exec yes "$1"'
    await hubbed.add("says", "${HUB_TEST_SHELL}", "-c", script, "x", "${HUB_TEST_WORD}", wait=False)
    condition = await hubbed.hub.wait_until_settled("says", 20)
    assert condition.reason == "its output is not MCP: loud and clear"
    await hubbed.hub.remove(hubbed.owner.caller, "says")
    await hubbed.add("says", "sh", "-c", script, "x", "${NOT_THERE_AT_ALL}", wait=False)
    condition = await hubbed.hub.wait_until_settled("says", 20)
    assert condition.reason == "The environment variable NOT_THERE_AT_ALL is not set"
    await hubbed.hub.remove(hubbed.owner.caller, "says")


async def test_program_that_floods_other_output_is_given_up(
    hubbed: Hubbed,
) -> None:
    await hubbed.add("babble", "sh", "-c", "echo hello >&2; exec yes", wait=False)
    trying = asyncio.create_task(hubbed.hub.wait_until_settled("babble", 20))
    assert await longest_block(trying) < 0.3
    assert trying.result().reason == "its output is not MCP: y"
    await hubbed.hub.remove(hubbed.owner.caller, "babble")


async def test_throttle_limits_the_read_rate() -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    flow = Throttle(rate=1_000, burst=100, clock=lambda: now, sleep=sleep)
    for _ in range(100):
        await flow.acquire(1)
    assert now == 0
    for _ in range(300):
        await flow.acquire(1)
    assert now == pytest.approx(0.3)
    now = 0.0
    flow = Throttle(rate=1_000, burst=100, clock=lambda: now, sleep=sleep)
    await flow.acquire(0, 400 * BYTES_PER_MESSAGE)
    assert now == pytest.approx(0.3)


async def test_interpreter_that_a_program_needs_is_named(hubbed: Hubbed, tmp_path: Path) -> None:
    program = tmp_path / "runner"
    for line, needed in (
        ("/usr/bin/env -S nodejs99 -x", "nodejs99"),
        ("/opt/no/perl", "/opt/no/perl"),
    ):
        program.write_text(f"#!{line}\n")
        program.chmod(0o700)
        name = f"s{len(needed)}"
        await hubbed.add(name, str(program), wait=False)
        condition = await hubbed.hub.wait_until_settled(name, 30)
        assert condition.reason == (
            f"{program} needs {needed}, which is not found. Install {needed}"
        )


async def test_missing_or_exiting_program_is_reported(hubbed: Hubbed) -> None:
    await hubbed.add("nothing", "no-such-program-here", wait=False)
    condition = await hubbed.hub.wait_until_settled("nothing", 30)
    assert condition.reason == "Program no-such-program-here not found"
    await hubbed.add("short", "sh", "-c", "echo oh no >&2; exit 3", wait=False)
    condition = await hubbed.hub.wait_until_settled("short", 30)
    assert condition.reason == "it exited with status 3: oh no"
    await hubbed.add("mute", "true", wait=False)
    condition = await hubbed.hub.wait_until_settled("mute", 10)
    assert condition.reason == "it exited with status 0"


async def test_program_that_exits_at_the_version_probe_is_legacy(
    hubbed: Hubbed,
) -> None:
    await hubbed.poisoned("dies-at-probe")
    assert (await hubbed.call("evil:echo")).ending == "result"
    assert (await hubbed.server("evil")).metadata["era"] == "legacy"


async def test_server_that_never_lists_tools_times_out(hubbed: Hubbed) -> None:
    await hubbed.poisoned("mute", start_seconds=1, wait=False)
    condition = await hubbed.hub.wait_until_settled("evil", 30)
    assert condition.reason == "connecting timed out after 1 s"


@pytest.mark.parametrize(
    "timing", [replace(QUICK, probe=600, first_retry_seconds=2, max_retry_seconds=2)]
)
async def test_crashed_server_is_down_at_once_and_restarts(hubbed: Hubbed) -> None:
    await hubbed.poisoned(calls_at_once=20)
    others = [asyncio.create_task(hubbed.call("evil:stall")) for _ in range(10)]
    await hubbed.until(lambda: hubbed.hub.pool.running["mcp_evil"].in_flight == 10)
    died = await hubbed.call("evil:die")
    ended = await asyncio.gather(*others)
    assert died.ending == "error"
    assert died.text.startswith(
        "evil disconnected during the call: it exited with status 9: dying as told."
    )
    assert {outcome.ending for outcome in ended} == {"error"}

    async def unavailable() -> bool:
        return not (await hubbed.tool("evil:echo")).available

    await hubbed.until(unavailable)
    await hubbed.until(lambda: hubbed.state("evil") == "up")
    assert (await hubbed.call("evil:echo")).ending == "result"


async def test_tools_of_a_disabled_server_are_unavailable(hubbed: Hubbed) -> None:
    await hubbed.poisoned()
    await do(hubbed.owner, "/mcp disable evil")
    assert await hubbed.obstacle("evil:echo") == "MCP server evil is disabled"
    with pytest.raises(Unavailable, match="evil is disabled"):
        await hubbed.call("evil:echo")
    await do(hubbed.owner, "/mcp enable evil")
    assert await hubbed.obstacle("evil:echo") == ""


async def test_child_processes_end_with_the_program(hubbed: Hubbed) -> None:
    await hubbed.poisoned()
    twin = int((await hubbed.call("evil:twins")).text)
    os.kill(twin, 0)
    await do(hubbed.owner, "/mcp disable evil")

    def gone() -> bool:
        try:
            return Path(f"/proc/{twin}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    await hubbed.until(gone)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("half", "3/10 half"),
        ("3 of 10 files", "3 of 10 files"),
        ("file 3/10", "file 3/10"),
        ("13/10 odd", "3/10 13/10 odd"),
        (None, "3/10"),
    ],
)
def test_progress_is_not_shown_twice(message: str | None, shown: str) -> None:
    assert format_progress(3, 10, message) == shown
