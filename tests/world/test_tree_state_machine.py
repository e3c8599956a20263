"""Random lives of a small world against a plain model of it.

The tree stays a tree, names stay unique, and the loadout is what the rules say (`rules.py`).
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Connection, select

from sshwarma.world import equipment, exits, loadout, things
from sshwarma.world.errors import Conflict, Invalid, NotFound, WorldError
from sshwarma.world.migrate import migrate_database
from sshwarma.world.schema import things as table
from sshwarma.world.sqlite_dialect import SqliteWriter
from sshwarma.world.sqlite_engine import create_sqlite_engine
from sshwarma.world.store import Change
from sshwarma.world.things import ThingKind
from support.loadout_model import Model, Node

ROOMS, AGENTS = ("r1", "r2"), ("a1",)
SPACES = ("global", "m1", "t1")
DIRECTIONS = ("north", "in")
STATES = ((), ("up",), ("up", "clean"))

directions = st.sampled_from(DIRECTIONS)
rooms = st.sampled_from(ROOMS)
contexts = st.sampled_from((*ROOMS, *AGENTS))


class Worlds(RuleBasedStateMachine):
    """Every rule does the same to the world and to the model.

    Both must agree whether it may be done.
    """

    template: Path
    made = Bundle("made")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.directory = tempfile.TemporaryDirectory()
        path = Path(self.directory.name) / "world.db"
        shutil.copyfile(self.template, path)
        self.engine = create_sqlite_engine(path)
        self.conn: Connection = self.engine.connect()
        self.conn.exec_driver_sql("BEGIN")
        self.count = 0

    def teardown(self) -> None:
        self.conn.exec_driver_sql("ROLLBACK")
        self.conn.close()
        self.engine.dispose()
        self.directory.cleanup()

    def unit(self, work: Any, expected: type[WorldError] | None) -> None:
        """Carry out a unit as the store would; it must end as expected."""
        self.conn.exec_driver_sql("SAVEPOINT unit")
        try:
            work(Change(SqliteWriter(self.conn)))
        except WorldError as refused:
            self.conn.exec_driver_sql("ROLLBACK TO unit")
            assert expected is not None, f"refused: {refused}"
            assert isinstance(refused, expected)
        else:
            assert expected is None, f"{expected.__name__} was expected"
        self.conn.exec_driver_sql("RELEASE unit")

    def taken(self, node: Node, parent: str | None) -> bool:
        """Whether that node could not be live in that place."""
        return any(
            other.live
            and other is not node
            and (
                (other.parent, other.kind, other.name) == (parent, node.kind, node.name)
                or (node.qualified is not None and other.qualified == node.qualified)
            )
            for other in self.model.nodes.values()
        )

    def add(self, node: Node) -> bool:
        expected = Conflict if self.taken(node, node.parent) else None
        self.unit(
            lambda tx: things.create_thing(
                tx,
                node.parent,  # type: ignore[arg-type]  # the root has none
                node.kind,
                node.name,
                id=node.id,
                qualified_name=node.qualified,
                auto_load=node.auto_load,
                metadata={
                    "load_with_parent": node.with_parent,
                    "states" if node.kind == "room" else "required_states": list(node.states),
                },
            ),
            expected,
        )
        if expected is None:
            self.model.nodes[node.id] = node
        return expected is None

    @initialize(target=made)
    def begin(self) -> Any:
        known = [
            Node("world", None, "container", "world"),
            *(Node(room, "world", "room", room, states=("up",)) for room in ROOMS),
            *(Node(agent, "world", "agent", agent) for agent in AGENTS),
            Node("global", "world", "container", "global", "global", auto_load=True),
            Node("m1", "world", "mcp", "m1", "m1"),
            Node("t1", "m1", "toolset", "t1", "t1", with_parent=True),
            Node("help", "global", "tool", "help", "global:help"),
            Node("x1", "m1", "tool", "x", "m1:x"),
            Node("x2", "t1", "tool", "x", "t1:x"),
        ]
        for node in known:
            assert self.add(node)
        return multiple(*(node.id for node in known))

    @rule(
        target=made,
        parent=made,
        kind=st.sampled_from(["tool", "tool", "toolset", "data", "data", "container"]),
        name=st.sampled_from("xyz"),
        qualify=st.booleans(),
        auto_load=st.sampled_from([False, False, False, True]),
        with_parent=st.booleans(),
        states=st.sampled_from(STATES),
    )
    def create(
        self, parent: str, kind: ThingKind, name: str, qualify: bool, **switches: Any
    ) -> Any:
        if not self.model.nodes[parent].live:
            return multiple()
        self.count += 1
        qualified = f"{parent}:{name}" if qualify else None
        if kind not in ("toolset", "container"):
            switches |= {"auto_load": False, "with_parent": False}
        node = Node(f"n{self.count:03}", parent, kind, name, qualified, **switches)
        return node.id if self.add(node) else multiple()

    @rule(thing=made)
    def delete(self, thing: str) -> None:
        node = self.model.nodes[thing]
        if not node.live or thing in ("world", *ROOMS, *AGENTS):
            return
        self.unit(lambda tx: things.delete_thing(tx, things.get_live_thing(tx.conn, thing)), None)
        node.live = False

    @rule(thing=made)
    def restore(self, thing: str) -> None:
        node = self.model.nodes[thing]
        if node.live or node.parent is None:
            return
        expected: type[WorldError] | None = None
        if not self.model.nodes[node.parent].live:
            expected = NotFound
        elif self.taken(node, node.parent):
            expected = Conflict
        found = things.get_thing(self.conn, thing)
        assert found is not None
        self.unit(lambda tx: things.restore_thing(tx, found), expected)
        node.live = expected is None

    @rule(thing=made, to=made)
    def move(self, thing: str, to: str) -> None:
        node, target = self.model.nodes[thing], self.model.nodes[to]
        if thing == "world":
            return
        expected: type[WorldError] | None = None
        if not target.live or not node.live:
            expected = NotFound
        if target.live and (target is node or node in self.model.above(target)):
            expected = Invalid
        elif expected is None and self.taken(node, to):
            expected = Conflict
        self.unit(lambda tx: things.move_thing(tx, thing, to), expected)
        if expected is None:
            node.parent = to

    @rule(
        thing=made,
        what=st.sampled_from(["enabled", "available", "auto_load", "with_parent"]),
        states=st.sampled_from(STATES),
    )
    def switch(self, thing: str, what: str, states: tuple[str, ...]) -> None:
        node = self.model.nodes[thing]
        if not node.live or thing == "global":
            return
        setattr(node, what, not getattr(node, what))
        node.states = states
        key = "states" if node.kind == "room" else "required_states"

        def work(tx: Change) -> None:
            changes: dict[str, Any] = {
                "load_with_parent": node.with_parent or None,
                key: list(states),
            }
            things.set_metadata(tx, thing, **changes)
            if what != "with_parent":
                column: dict[str, Any] = {what: int(getattr(node, what))}
                things.update_thing(tx, thing, **column)

        self.unit(work, None)

    @rule(
        context=contexts,
        thing=made,
        priority=st.sampled_from([None, None, -1.0, 0.0, 2.5]),
    )
    def equip(self, context: str, thing: str, priority: float | None) -> None:
        if not self.model.nodes[thing].live:
            return
        before = self.model.rows.get((context, thing))
        outcome: list[Any] = []

        def work(tx: Change) -> None:
            wanted = [things.get_live_thing(tx.conn, thing)]
            outcome.append(equipment.equip_things(tx, context, wanted, priority))

        self.unit(work, None)
        new = before[0] if before and priority is None else priority or 0.0
        changed, already = outcome[0]
        same = before is not None and before[1] and (priority is None or priority == before[0])
        assert (len(changed), len(already)) == ((0, 1) if same else (1, 0))
        self.model.rows[context, thing] = (new, True)

    @rule(context=contexts, thing=made, off=st.booleans())
    def unequip(self, context: str, thing: str, off: bool) -> None:
        if not self.model.nodes[thing].live:
            return
        before = self.model.rows.get((context, thing))
        outcome: list[Any] = []

        set_rows = equipment.switch_off_things if off else equipment.unequip_things

        def work(tx: Change) -> None:
            outcome.append(set_rows(tx, context, [things.get_live_thing(tx.conn, thing)]))

        self.unit(work, None)
        on = before is not None and before[1]
        changes = (before is None or before[1] is not False) if off else bool(on)
        assert (len(outcome[0][0]), len(outcome[0][1])) == ((1, 0) if changes else (0, 1))
        if changes:
            self.model.rows[context, thing] = (before[0] if before else 0.0, False if off else None)

    @rule(start=rooms, direction=directions, to=rooms)
    def open_exit(self, start: str, direction: str, to: str) -> None:
        self.unit(lambda tx: exits.open_exit(tx, start, direction, to, None) and None, None)
        self.model.exits[start, direction] = (to, True)

    @rule(start=rooms, direction=directions)
    def close_exit(self, start: str, direction: str) -> None:
        to, live = self.model.exits.get((start, direction), ("", False))
        self.unit(lambda tx: exits.close_exit(tx, start, direction), None if live else NotFound)
        if live:
            self.model.exits[start, direction] = (to, False)

    @invariant()
    def the_world_holds_what_the_model_holds(self) -> None:
        stored = {row.id: row for row in self.conn.execute(select(table))}
        for node in self.model.nodes.values():
            row = stored.pop(node.id)
            assert (row.parent_id, row.kind, row.name) == (node.parent, node.kind, node.name)
            assert (row.deleted_at is None) == node.live
        assert not stored

    @invariant()
    def the_tree_has_no_cycles(self) -> None:
        for node in self.model.nodes.values():
            seen = {node.id}
            for above in things.read_ancestors(self.conn, node.id):
                assert above.id not in seen
                seen.add(above.id)
            assert "world" in seen

    @invariant()
    def live_names_are_unique(self) -> None:
        live = [
            (row.parent_id, row.kind, row.name, row.qualified_name)
            for row in self.conn.execute(select(table).where(table.c.deleted_at.is_(None)))
        ]
        assert len({place[:3] for place in live}) == len(live)
        qualified = [place[3] for place in live if place[3] is not None]
        assert len(set(qualified)) == len(qualified)

    @invariant()
    def the_loadout_is_what_the_rules_say(self) -> None:
        if not self.model.nodes:
            return
        for room, agent in (("r1", "a1"), ("r2", None), (None, "a1")):
            load = loadout.compute_loadout(self.conn, room, agent)
            assert {
                item.thing.id: (item.source, item.priority, not item.obstacle)
                for item in load.tools
            } == self.model.tools(room, agent)
            assert {
                item.thing.name: (item.thing.id, item.source, item.priority) for item in load.data
            } == self.model.data(room, agent)
            for items in (load.tools, load.data):
                order = [(i.source == "agent", i.priority, i.thing.label) for i in items]
                assert order == sorted(order)

    @invariant()
    def the_exits_are_those_of_the_model(self) -> None:
        for room in ROOMS:
            assert {(way.direction, way.to_id) for way in exits.read_exits(self.conn, room)} == {
                (direction, to)
                for (start, direction), (to, live) in self.model.exits.items()
                if start == room and live
            }


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "world.db"
    migrate_database(path)
    return path


@pytest.mark.long
@pytest.mark.timeout(400)  # only a failure takes long: it is made small before it is shown
@pytest.mark.parametrize("examples", [10, pytest.param(100, marks=pytest.mark.soak)])
def test_random_operations_keep_the_world_consistent(template: Path, examples: int) -> None:
    Worlds.template = template
    run_state_machine_as_test(
        Worlds,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
