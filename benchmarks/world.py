"""Cost of people on a real server, compared with bare asyncssh in the same run.

    python -m benchmarks.world [--people 200 …]

Every figure is printed beside its baseline: bare asyncssh with the same cipher, stock or with our
fast send path, echoing or writing the same number of lines. Compare the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from pathlib import Path

from benchmarks.bare import Clients, Server
from benchmarks.crowd import Crowd, World

WARM_UP = 10
LOGIN_ROUNDS = 20
ROUND_LOGINS = 20
LOOKS = 400
ECHOES = 2_000
TALKERS = 20
LINES = 10
TALK_ROUNDS = 5
ALL_LINES = 10
IDLE_CPU_SECONDS = 0.02
"""CPU in a second below which a server counts as idle."""


async def logins() -> tuple[float, float]:
    """Return the CPU seconds of a login and logout here and on bare asyncssh.

    Both servers run, and log in by turns: a machine whose speed changes slows both.
    """
    here = stock = 0.0
    async with (
        Server("stock") as server,
        Clients(server.port) as clients,
        World(2) as world,
        Crowd(world) as crowd,
    ):
        await clients.do("visit", WARM_UP)
        await crowd.do("visit", WARM_UP)
        await _wait_until_idle(world)
        for _ in range(LOGIN_ROUNDS):
            before = await server.cpu()
            await clients.do("visit", ROUND_LOGINS)
            stock += await server.cpu() - before
            began = world.cpu()
            await crowd.do("visit", ROUND_LOGINS)
            here += world.cpu() - began
    count = LOGIN_ROUNDS * ROUND_LOGINS
    return here / count, stock / count


async def bare(variant: str, people: int) -> dict[str, float]:
    """Measure logins, echo and lines on a bare server."""
    async with Server(variant) as server, Clients(server.port) as clients:
        memory = _pss(server._process.pid)
        await clients.do("visit", WARM_UP)
        first_in = await server.cpu()
        took = await clients.do("connect", people)
        logged_in = await server.cpu()
        grown = _pss(server._process.pid) - memory
        echo = await clients.do("echo_alone", ECHOES)
        echoed = await server.cpu()
        lines = TALKERS * LINES * TALK_ROUNDS
        said = await asyncio.gather(clients.do("read", lines), server.do("say", lines))
        done = await server.cpu()
    return {
        "crowd_login": (logged_in - first_in) / people,
        "logins": people / took["seconds"],
        "echo": (echoed - logged_in) / ECHOES,
        "echo_p50": echo["p50"],
        "line": (done - echoed) / lines / people,
        "lines": lines * people / said[0]["seconds"],
        "memory": grown / people,
    }


async def ours(people: int) -> tuple[dict[str, float], str, str]:
    """Measure the same on a world with everybody in the lobby.

    Returns:
        The figures, the p99 loop lag in normal use, and that while everybody talks at once.
    """
    talkers = min(TALKERS, people // 2)
    async with World(people) as world, Crowd(world) as crowd:
        await crowd.do("visit", WARM_UP)
        await _wait_until_idle(world)
        memory, first_in = world.memory(), world.cpu()
        took = await crowd.do("connect", people)
        logged_in = world.cpu()
        await asyncio.sleep(1.5)  # let the index and idle work finish before reading the memory
        grown = world.memory() - memory
        await crowd.do("look", people)  # the first key of each person reads their input history
        before = world.cpu()
        look = await crowd.do("look", LOOKS)
        looked = world.cpu()
        spent = seconds = 0.0
        for _ in range(TALK_ROUNDS):
            began = world.cpu()
            said = await crowd.do("talk", [talkers, LINES])
            spent += world.cpu() - began
            seconds += said["seconds"]
        typed_from = world.cpu()
        await crowd.do("type", 5_000)
        typed = world.cpu() - typed_from
        before_all = await world.metrics()
        lag = _lag(before_all)
        everybody = await crowd.do("talk_all", ALL_LINES)
        all_lag = _lag(await world.metrics(), before_all)
    lines = talkers * LINES * TALK_ROUNDS
    return (
        {
            "crowd_login": (logged_in - first_in) / people,
            "logins": people / took["seconds"],
            "look": (looked - before) / LOOKS,
            "look_p50": look["p50"],
            "line": spent / lines / people,
            "lines": lines * (people - talkers) / seconds,
            "memory": grown / people,
            "key": typed / 5_000,
            "all": people * ALL_LINES / everybody["seconds"],
        },
        lag,
        all_lag,
    )


async def _wait_until_idle(world: World) -> None:
    """Wait for the rest of a start, such as an index of namespaces; no login has it."""
    before = -1.0
    while world.cpu() - before > IDLE_CPU_SECONDS:
        before = world.cpu()
        await asyncio.sleep(1)


def _pss(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)
    assert found
    return float(found[1])


def _lag(metrics: str, before: str = "") -> str:
    """Return the 99th percentile bucket of loop lag, since `before` if given."""
    known = _buckets(before)
    buckets = {edge: count - known.get(edge, 0.0) for edge, count in _buckets(metrics).items()}
    total = max(buckets.values())
    return next(edge for edge, count in buckets.items() if count >= 0.99 * total)


def _buckets(metrics: str) -> dict[str, float]:
    found = re.findall(r'sshwarma_loop_lag_seconds_bucket\{le="([^"]+)"\} ([\d.]+)', metrics)
    return {edge: float(count) for edge, count in found}


async def main(people: int) -> None:
    login, stock_login = await logins()
    stock, lean = await bare("stock", people), await bare("lean", people)
    mine, lag, all_lag = await ours(people)
    rows = [
        ("login and logout, alone, CPU ms", 1e3, login, stock_login, "stock", "<= 1.3"),
        (
            "login in a crowded room, ms",
            1e3,
            mine["crowd_login"],
            stock["crowd_login"],
            "stock",
            "",
        ),
        ("logins a second", 1, mine["logins"], stock["logins"], "stock", ""),
        ("/look, server CPU us", 1e6, mine["look"], stock["echo"], "stock echo", "<= 3"),
        ("/look, p50 us", 1e6, mine["look_p50"], stock["echo_p50"], "stock echo", "<= 2"),
        ("line to a listener, CPU us", 1e6, mine["line"], lean["line"], "lean", ""),
        ("deliveries a second, bursts", 1, mine["lines"], lean["lines"], "lean", ">= 0.8, > 100k"),
        ("memory a connection, KiB", 1, mine["memory"], stock["memory"], "stock", "+ 80"),
        ("a key, server CPU us", 1e6, mine["key"], stock["echo"], "stock echo", ""),
    ]
    print(f"{people} people in one room; p99 loop lag <= {lag} s (must be under 0.05)")
    print(f"everybody talking: {mine['all']:.0f} lines a second, p99 loop lag <= {all_lag} s")
    print(f"{'':<34}{'ours':>12}{'bare':>12}{'ratio':>8}   floor, target")
    for name, unit, value, floor, what, target in rows:
        ratio = f"{value / floor:8.2f}" if floor else f"{'-':>8}"
        print(f"{name:<34}{value * unit:>12.1f}{floor * unit:>12.1f}{ratio}   {what} {target}")


async def each(crowds: list[int]) -> None:
    for people in crowds:
        await main(people)
        print(flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, nargs="+", default=[2, 50, 200, 1000])
    asyncio.run(each(parser.parse_args().people))
