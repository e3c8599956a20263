"""Composing the context of one request: a snapshot of the room goes to Lua, layers come back, and
are ordered, cut and rendered here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from sshwarma.world import rows as log_rows
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.events import Row
from sshwarma.world.loadout import Loadout
from sshwarma.world.shipped import shipped
from sshwarma.world.things import Thing
from sshwarma.wrap.host import LuaError, LuaHost, Script
from sshwarma.wrap.layers import (
    STABILITIES,
    Layer,
    Line,
    conversation,
    ordered,
    system_text,
    within_budget,
)
from sshwarma.wrap.window import DEFAULT_TURNS, visible, window

log = structlog.get_logger(__name__)

ROWS_READ: Final = 2_000
"""Rows of a log that a window is chosen from."""

RESULT_CHARACTERS: Final = 600
"""Of a tool's result in a turn that is over; the whole of it is a /expand away."""

OVERRIDE: Final = "wrap.lua"
HOOK: Final = "hook:wrap"


@dataclass(frozen=True, slots=True)
class Composed:
    """What would be sent, and the layers it is made of. `notices` say what went wrong."""

    layers: tuple[Layer, ...]
    notices: tuple[str, ...] = ()

    @property
    def system(self) -> str:
        return system_text(self.layers)

    @property
    def conversation(self) -> tuple[Line, ...]:
        return conversation(self.layers)

    @property
    def tokens(self) -> int:
        return sum(layer.tokens for layer in self.layers)


class Composer:
    """Composes for every model of a world."""

    def __init__(self, host: LuaHost) -> None:
        self._host = host
        self._script = Script(
            OVERRIDE, (shipped("embedded") / "wrap.lua").read_text(encoding="utf-8")
        )
        self._charter = (
            (shipped("embedded") / "prompts" / "charter.md").read_text(encoding="utf-8").strip()
        )

    async def compose(self, caller: Caller, question: str, asker: str, before: int) -> Composed:
        """The context of `caller`, a model, asked `question` in its room; of rows with a `seq`
        below `before`.

        Raises:
            LuaError: if even the script shipped with the program cannot run.
        """
        world, agent = caller.world, caller.agent
        room = await caller.room()
        load = await world.loadout(room.id, agent.id)
        read = await world.store.read(
            lambda conn: log_rows.tail(conn, room.id, ROWS_READ, before=before)
        )
        shown = window(visible(read), _turns_of(room.context_size))
        snapshot = self._snapshot(caller, load, shown, question, asker)
        snapshot["room"] = {
            "name": room.name,
            "description": room.description,
            "vibe": room.vibe,
            "exits": [{"direction": way.direction, "to": way.to_name} for way in room.exits],
            "floor": [{"name": thing.name, "kind": thing.kind} for thing in room.bag],
        }
        notices: list[str] = []
        made = await self._run(load, snapshot, notices)
        made += await self._hooks(load, snapshot, notices)
        by_seq = {row.seq: row for row in shown}
        layers = [self._layer(found, by_seq, caller) for found in made]
        kept = (within_budget(layer) for layer in ordered(layer for layer in layers if layer))
        return Composed(tuple(kept), tuple(notices))

    async def _run(
        self, load: Loadout, snapshot: Mapping[str, Any], notices: list[str]
    ) -> list[Any]:
        override = next((i.thing for i in load.data if i.thing.name == OVERRIDE), None)
        if override is not None and override.content:
            try:
                script = Script(OVERRIDE, override.content)
                return _array(await self._host.run([script], "wrap", snapshot))
            except (LuaError, TypeError) as error:
                notices.append(
                    f"the wrap.lua equipped here failed, the usual one was used: {error}"
                )
        return _array(await self._host.run([self._script], "wrap", snapshot))

    async def _hooks(
        self, load: Loadout, snapshot: Mapping[str, Any], notices: list[str]
    ) -> list[Any]:
        """The layers of `hook:wrap` things. One that fails costs its own layer and a notice."""
        made: list[Any] = []
        for item in load.data:
            thing = item.thing
            if not (thing.name == HOOK or thing.name.startswith(f"{HOOK}:")) or not thing.content:
                continue
            try:
                found = await self._host.run([Script(thing.name, thing.content)], "layer", snapshot)
            except LuaError as error:
                notices.append(f"{thing.name} failed and was left out: {error}")
                continue
            if isinstance(found, str):
                found = {"name": thing.name, "text": found}
            if isinstance(found, dict):
                made.append({"stability": "turn", "side": "conversation", "budget": 1000, **found})
        return made

    def _snapshot(
        self, caller: Caller, load: Loadout, shown: Sequence[Row], question: str, asker: str
    ) -> dict[str, Any]:
        world, agent = caller.world, caller.agent
        data = [item.thing for item in load.data if _is_told(item.thing)]
        here = [world.agents.name_of(p.agent_id) for p in world.presence.in_room(caller.room_id)]
        return {
            "charter": self._charter,
            "agent": _agent(agent),
            "equipped": [{"name": t.name, "content": t.content or t.uri or ""} for t in data],
            "log": {
                "count": len(shown),
                "first": shown[0].seq if shown else 0,
                "last": shown[-1].seq if shown else 0,
            },
            "here": sorted(here),
            "clock": time.strftime("%Y-%m-%d %H:%M %Z"),
            "asker": asker,
            "question": question,
        }

    def _layer(self, found: Any, by_seq: Mapping[int, Row], caller: Caller) -> Layer | None:
        """A layer as Lua described it; None if it described none."""
        if not isinstance(found, dict) or not isinstance(found.get("name"), str):
            return None
        stability, side = found.get("stability"), found.get("side")
        if stability not in STABILITIES or side not in ("system", "conversation"):
            return None
        bounds = found.get("rows")
        if isinstance(bounds, list) and len(bounds) == 2:
            first, last = bounds
            rows = [row for seq, row in sorted(by_seq.items()) if first <= seq <= last]
            return Layer(found["name"], stability, side, lines=told(rows, caller))
        text, budget = str(found.get("text", "")), int(found.get("budget") or 0)
        if side == "conversation":
            cut = within_budget(Layer(found["name"], stability, side, text=text, budget=budget))
            line = Line("user", cut.text)
            return Layer(found["name"], stability, side, lines=(line,), note=cut.note)
        return Layer(found["name"], stability, side, text=text, budget=budget)


def told(rows: Sequence[Row], caller: Caller) -> tuple[Line, ...]:
    """A log as messages: what the model said is its own, all else is the room's, each line with
    its speaker. Nothing in it changes when rows are added, so a provider's cache of it holds."""
    made: list[Line] = []
    for row in rows:
        mine = row.author_id == caller.agent.id
        name = caller.world.agents.name_of(row.author_id)
        if mine and row.kind == "chat":
            made.append(Line("assistant", row.content))
            continue
        made.append(Line("user", _spoken(row, name)))
    return tuple(made)


def _spoken(row: Row, name: str) -> str:
    tool = row.meta.get("tool", "")
    match row.kind:
        case "chat":
            return f"<{name}> {row.content}"
        case "emote":
            return f"<{name}> * {row.content}"
        case "tool.call":
            return f"[{name} called {tool} {_clipped(row.content, row.seq)}]"
        case "tool.result":
            return f"[{tool} gave {name}: {_clipped(row.content, row.seq)}]"
        case "tool.error" | "tool.timeout":
            return f"[{tool} failed for {name}: {_clipped(row.content, row.seq)}]"
        case kind:
            return f"[{name} noted a {kind.removeprefix('journal.')}: {row.content}]"


def _clipped(text: str, seq: int) -> str:
    if len(text) <= RESULT_CHARACTERS:
        return text
    left = len(text) - RESULT_CHARACTERS
    return f"{text[:RESULT_CHARACTERS]}… ({left} more characters, row {seq})"


def _is_told(thing: Thing) -> bool:
    return not thing.name.startswith((HOOK, OVERRIDE, "command:"))


def _agent(agent: Agent) -> dict[str, str]:
    return {"name": agent.name, "description": agent.description, "prompt": agent.prompt}


def _turns_of(context_size: int | None) -> int:
    return DEFAULT_TURNS if context_size is None else context_size


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("wrap() must return an array of layers")
    return value
