"""Server cost of a login, an echoed key and a line to 200 people, stock and ours.

    python -m benchmarks.transport

It measures the CPU time of the server process only; clients run in another. Variants alternate for
several rounds and the median is printed. Absolute figures depend on the machine; compare the
ratios.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import defaultdict
from itertools import pairwise

from benchmarks.bare import VARIANTS, Clients, Server

ROUNDS = 3
LISTENERS = 200
ECHOES = 3_000
LINES = 100

MEASURES = {
    "login, server ms": LISTENERS / 1e3,
    "echo, us": ECHOES / 1e6,
    "line to a listener, us": LINES * LISTENERS / 1e6,
}


async def measure(variant: str) -> dict[str, float]:
    """Run one round of a variant; return seconds of server CPU for each measure."""
    async with Server(variant) as server, Clients(server.port) as clients:
        marks = [await server.cpu()]
        await clients.do("connect", LISTENERS)
        marks.append(await server.cpu())
        await clients.do("echo", ECHOES)
        marks.append(await server.cpu())
        # Write within the clients' ssh windows, so that no variant buffers.
        await asyncio.gather(clients.do("read", LINES), server.do("say", LINES))
        marks.append(await server.cpu())
    spent = [after - before for before, after in pairwise(marks)]
    return dict(zip(MEASURES, spent, strict=True))


async def main() -> None:
    results: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for variant in VARIANTS:
            for name, seconds in (await measure(variant)).items():
                results[variant, name].append(seconds / MEASURES[name])
    print(f"{'':<26}" + "".join(f"{variant:>10}" for variant in VARIANTS) + f"{'door/stock':>12}")
    for name in MEASURES:
        medians = [statistics.median(results[variant, name]) for variant in VARIANTS]
        row = "".join(f"{median:>10.1f}" for median in medians)
        print(f"{name:<26}{row}{medians[-1] / medians[0]:>12.2f}")


if __name__ == "__main__":
    asyncio.run(main())
