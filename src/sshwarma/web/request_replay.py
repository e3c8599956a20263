"""Requests with an `Idempotency-Key`: a second one has the answer of the first."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sshwarma.common.limits import (
    IDEMPOTENCY_KEY_SECONDS,
    MAX_IDEMPOTENCY_KEY_CHARACTERS,
    MAX_IDEMPOTENT_ANSWER_BYTES,
)
from sshwarma.common.units import HOUR_SECONDS
from sshwarma.world.errors import Conflict, Invalid, Unavailable
from sshwarma.world.ids import now_ms
from sshwarma.world.request_keys import (
    KeyedRequest,
    find_key,
    running_request,
    store_answer,
)
from sshwarma.world.world import World

KEY_HEADER: Final = "Idempotency-Key"
REPLAYED_HEADER: Final = "Idempotency-Replayed"


class AnsweredBefore(Exception):
    """A request has the key of one that was answered; `response` is that answer."""

    def __init__(self, response: Response) -> None:
        super().__init__("answered before")
        self.response = response


class KeyedRequests:
    """The requests with keys that run now, and the answers of those that have ended."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._running: dict[tuple[str, str], KeyedRequest] = {}

    async def begin(
        self, request: Request, agent_id: str, arguments: dict[str, Any]
    ) -> KeyedRequest | None:
        """Take note of a request with a key; None without one.

        Raises as `begin_key`.
        """
        asked = [request.method, request.url.path, sorted(request.query_params.multi_items())]
        text = json.dumps([*asked, arguments], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        return await self.begin_key(agent_id, request.headers.get(KEY_HEADER), digest)

    async def begin_key(self, owner_id: str, key: str | None, digest: str) -> KeyedRequest | None:
        """Take note of a request with a key; None if that is None.

        Args:
            owner_id: whose request it is.
            key: the key that it has.
            digest: hash of what it asks for.

        Raises:
            AnsweredBefore: if one with the key was answered.
            Conflict: if one with the key was cut by an end of the server.
            Unavailable: if one with the key still runs.
            Invalid: if the key is malformed, or was used for another request.
        """
        if key is None:
            return None
        if not (0 < len(key) <= MAX_IDEMPOTENCY_KEY_CHARACTERS and key.isprintable()):
            most = MAX_IDEMPOTENCY_KEY_CHARACTERS
            raise Invalid(f"{KEY_HEADER}: must have 1 to {most} printable characters.")
        keyed = KeyedRequest(owner_id, key, digest)
        if (owner_id, key) in self._running:
            # Not a conflict: it may be cut yet, and then the next one has to run.
            raise Unavailable(
                f"The request with this {KEY_HEADER} is still running.", hint="Retry in a moment."
            )
        self._running[owner_id, key] = keyed
        try:
            await self._check_stored(keyed)
        except BaseException:
            del self._running[owner_id, key]
            raise
        running_request.set(keyed)
        return keyed

    async def end(self, keyed: KeyedRequest, response: Response | None) -> None:
        """Store the answer of a request, if it has changed something; None if it was cut."""
        keyed.is_over = True
        try:
            if keyed.is_stored and response is not None:
                body = bytes(response.body)
                is_kept = len(body) <= MAX_IDEMPOTENT_ANSWER_BYTES and not keyed.has_secret
                text = body.decode() if is_kept else None
                await self._world.change(
                    lambda tx: store_answer(tx, keyed, response.status_code, text)
                )
        finally:
            del self._running[keyed.agent_id, keyed.key]

    async def _check_stored(self, keyed: KeyedRequest) -> None:
        stored = await self._world.store.read(
            lambda conn: find_key(conn, keyed.agent_id, keyed.key, now_ms())
        )
        if stored is None:
            return
        if stored.digest != keyed.digest:
            raise Invalid(
                f"This {KEY_HEADER} was used for another request in the last"
                f" {IDEMPOTENCY_KEY_SECONDS // HOUR_SECONDS} hours.",
                hint="Use a new key for each request that is to run.",
            )
        if stored.status is None:
            raise Conflict(
                f"The request with this {KEY_HEADER} was cut, or failed, before its answer."
                " What it did until then is stored."
            )
        if stored.body is None:
            raise Conflict(
                f"The request with this {KEY_HEADER} was done, with an answer of status"
                f" {stored.status} that was not kept: it was too long, or had a secret."
            )
        raise AnsweredBefore(
            Response(
                stored.body,
                stored.status,
                {REPLAYED_HEADER: "true"},
                media_type=JSONResponse.media_type,
            )
        )
