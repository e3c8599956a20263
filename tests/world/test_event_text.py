"""Events as text: what one server writes, another reads."""

from __future__ import annotations

import json
from typing import get_args

from sshwarma.world import event_text
from sshwarma.world.events import (
    AgentEvicted,
    Event,
    KeyExpirySet,
    MemoryChanged,
    PersonalNotice,
    PresenceChanged,
    RowAppended,
    StreamUpdated,
    TurnsChanged,
    WorldChanged,
)
from sshwarma.world.row import Row

OF_ONE_SERVER = {PersonalNotice, PresenceChanged, StreamUpdated}
"""Events that no unit of work publishes."""

ROW = Row("id", "lobby", 3, "chat", "hello", None, 5, n=7)


def test_every_event_of_a_unit_has_a_name() -> None:
    assert set(event_text.KINDS.values()) == set(get_args(Event)) - OF_ONE_SERVER - {RowAppended}


def test_events_are_read_as_they_were_written() -> None:
    events: list[Event] = [
        WorldChanged(),
        WorldChanged("lobby"),
        AgentEvicted("ann", "You were removed: «é».", None),
        TurnsChanged("lobby", (1, 2), ()),
        KeyExpirySet("ann", "SHA256:x", None),
        MemoryChanged("scope", None, "key", "set", "ann"),
    ]
    text = event_text.write_events(events)
    assert event_text.read_events(text, {}) == events
    assert event_text.list_row_numbers(text) == []


def test_row_is_named_by_its_number_and_keeps_its_audience() -> None:
    events = [RowAppended(ROW), RowAppended(ROW, frozenset({"bob", "ann"}))]
    text = event_text.write_events(events)
    assert "hello" not in text
    assert event_text.list_row_numbers(text) == [7, 7]
    found = event_text.read_events(text, {7: ROW})
    assert [(event.row, event.audience) for event in found if isinstance(event, RowAppended)] == [
        (ROW, None), (ROW, frozenset({"ann", "bob"})),
    ]  # fmt: skip
    assert event_text.read_events(text, {}) == [], "a row that was deleted since"


def test_event_of_another_version_empties_caches() -> None:
    unknown = json.dumps([{"kind": "Teleported", "to": 1}, {"kind": "TurnsChanged", "x": 1}])
    assert event_text.read_events(unknown, {}) == [WorldChanged(), WorldChanged()]
    more = json.dumps([{"kind": "WorldChanged", "room_id": "den", "why": "new"}])
    assert event_text.read_events(more, {}) == [WorldChanged("den")]
