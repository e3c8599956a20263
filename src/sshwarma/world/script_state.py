"""What scripts keep between their runs: values by key, of each script its own.

A script has several such stores: one for itself, and one for each room and each agent.
"""

from __future__ import annotations

import json
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from sshwarma.common.limits import (
    MAX_SCRIPT_STATE_BYTES,
    MAX_SCRIPT_STATE_KEY_CHARACTERS,
    MAX_SCRIPT_STATE_KEYS,
)
from sshwarma.common.messages import with_limit
from sshwarma.world.errors import Invalid
from sshwarma.world.portable_sql import byte_length
from sshwarma.world.schema import script_state
from sshwarma.world.store import Change


def check_state_key(key: object) -> str:
    """Return a key.

    Raises:
        Invalid: if it is no text of 1 to MAX_SCRIPT_STATE_KEY_CHARACTERS printable characters.
    """
    if (
        not isinstance(key, str)
        or not 0 < len(key) <= MAX_SCRIPT_STATE_KEY_CHARACTERS
        or not key.isprintable()
    ):
        most = MAX_SCRIPT_STATE_KEY_CHARACTERS
        raise Invalid(f"host.state: a key must be text of 1 to {most} printable characters.")
    return key


def read_state(conn: Connection, script_id: str, owner_id: str, key: str) -> Any:
    """Return the value of a key; None without one."""
    query = select(script_state.c.value).where(
        script_state.c.script_id == script_id,
        script_state.c.owner_id == owner_id,
        script_state.c.key == key,
    )
    found = conn.execute(query).scalar()
    return None if found is None else json.loads(found)


def list_state(conn: Connection, script_id: str, owner_id: str) -> dict[str, Any]:
    """Return all values of a store, by key."""
    query = (
        select(script_state.c.key, script_state.c.value)
        .where(script_state.c.script_id == script_id, script_state.c.owner_id == owner_id)
        .order_by(script_state.c.key)
    )
    return {key: json.loads(value) for key, value in conn.execute(query)}


def count_state(conn: Connection, script_id: str) -> int:
    """Return the number of keys in all stores of a script."""
    query = select(func.count()).where(script_state.c.script_id == script_id)
    return conn.execute(query).scalar_one()


def clear_state(tx: Change, script_id: str) -> int:
    """Delete all that a script keeps, and return the number of keys."""
    return tx.conn.execute(
        delete(script_state).where(script_state.c.script_id == script_id)
    ).rowcount


# Built once: to build it takes longer than to run it.
_SIZES: Final = select(
    func.count(),
    func.coalesce(func.sum(byte_length(script_state.c.key) + byte_length(script_state.c.value)), 0),
).where(
    script_state.c.script_id == bindparam("of_script"),
    script_state.c.owner_id == bindparam("of_owner"),
)


def write_state(tx: Change, script_id: str, owner_id: str, key: str, value: Any) -> None:
    """Store a value; None deletes the key.

    Raises:
        Invalid: if the value has a number that is not finite, or if the store would have more than
            MAX_SCRIPT_STATE_KEYS or MAX_SCRIPT_STATE_BYTES.
    """
    here = (script_state.c.script_id == script_id) & (script_state.c.owner_id == owner_id)
    tx.conn.execute(delete(script_state).where(here, script_state.c.key == key))
    if value is None:
        return
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise Invalid("host.state: a number must be finite.") from None
    count, total = tx.conn.execute(_SIZES, {"of_script": script_id, "of_owner": owner_id}).one()
    if count >= MAX_SCRIPT_STATE_KEYS:
        raise Invalid(f"host.state: {with_limit('too many keys', MAX_SCRIPT_STATE_KEYS)}.")
    if total + len(key.encode()) + len(text.encode()) > MAX_SCRIPT_STATE_BYTES:
        raise Invalid(f"host.state: {with_limit('too many bytes', MAX_SCRIPT_STATE_BYTES)}.")
    row = {
        "script_id": script_id,
        "owner_id": owner_id,
        "key": key,
        "value": text,
        "updated_at": tx.now,
    }
    tx.conn.execute(insert(script_state).values(row))
