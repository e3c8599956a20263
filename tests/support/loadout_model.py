"""The rules of the loadout in plain dicts, compared with `world/loadout.py`.

They are those of its docstring, written a second time, as plainly as possible.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sshwarma.world.things import ThingKind

NAMESPACES = ("container", "mcp", "toolset", "room")


@dataclass
class Node:
    """A thing of the model."""

    id: str
    parent: str | None
    kind: ThingKind
    name: str
    qualified: str | None = None
    live: bool = True
    enabled: bool = True
    available: bool = True
    auto_load: bool = False
    with_parent: bool = False
    states: tuple[str, ...] = ()  # required, or for a room those that hold


@dataclass
class Model:
    """What a world should hold."""

    nodes: dict[str, Node] = field(default_factory=dict)
    rows: dict[tuple[str, str], tuple[float, bool | None]] = field(default_factory=dict)
    """Priority, and on, off, or None for what was taken back."""
    exits: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict)

    def above(self, node: Node) -> list[Node]:
        """From its parent up to the root."""
        found = []
        while node.parent is not None:
            node = self.nodes[node.parent]
            found.append(node)
        return found

    def tools(self, room: str | None, agent: str | None) -> dict[str, tuple[str, float, bool]]:
        """Equipped tools: whose row decided, its priority, and whether it can be used."""
        found: dict[str, tuple[str, float, bool]] = {}
        for node in self.nodes.values():
            if node.kind == "tool" and node.live:
                decision = self._decision(node, room, agent)
                if decision is not None:
                    found[node.id] = (*decision, self._usable(node, room))
        return found

    def data(self, room: str | None, agent: str | None) -> dict[str, tuple[str, str, float]]:
        """Equipped data by name: id, whose row decided, priority.

        Only the room's if both decide about a name, and entries that are on before those that are
        off.
        """
        found: dict[str, tuple[str, str, float]] = {}
        decided: set[str] = set()
        for source, context in self._contexts(room, agent):
            own = [
                (self.nodes[thing], priority, on)
                for (of, thing), (priority, on) in self.rows.items()
                if on is not None and of == context
                if self.nodes[thing].kind in ("data", "reference")
                if self.nodes[thing].live
            ]
            own.sort(
                key=lambda row: (not row[2], row[1], row[0].qualified or "", row[0].name, row[0].id)
            )
            before = set(decided)
            for node, priority, on in own:
                if node.name in before or node.name in found:
                    continue
                decided.add(node.name)
                if on:
                    found[node.name] = (node.id, source, priority)
        return found

    def _contexts(self, room: str | None, agent: str | None) -> list[tuple[str, str]]:
        both = (("room", room), ("agent", agent))
        return [(source, context) for source, context in both if context is not None]

    def _decision(
        self, tool: Node, room: str | None, agent: str | None
    ) -> tuple[str, float] | None:
        chain = []  # the namespaces through which the tool can be loaded, nearest first
        for space in self.above(tool):
            if space.kind not in NAMESPACES or not space.live:
                break
            chain.append(space)
            if not space.with_parent:
                break
        always = any(space.id == "global" for space in chain)
        for level in (tool, *chain):
            for source, context in self._contexts(room, agent):
                row = self.rows.get((context, level.id))
                if row is not None and row[1] is not None:
                    priority, on = row
                    if on:
                        return source, priority
                    return ("always", 0.0) if always else None
                if source == "room" and level.id == room:
                    return "room", 0.0  # what lies in a room is on in it
        if any(space.auto_load for space in chain):
            return "always", 0.0
        return None

    def _usable(self, tool: Node, room: str | None) -> bool:
        chain = self.above(tool)
        held = set(self.nodes[room].states) if room is not None else set()
        needed = {state for link in (tool, *chain) for state in link.states if link.kind != "room"}
        return (
            tool.available
            and all(link.enabled for link in (tool, *chain))
            and all(link.live for link in chain)
            and needed <= held
        )
