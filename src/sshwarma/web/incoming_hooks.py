"""`POST /hooks/SECRET`: posts become lines or entries of the journal.

The path is the secret: it acts with the rights that the maker of the hook has in the room now, and
only says or notes there.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sshwarma.common.limits import (
    MAX_HOOK_BODY_BYTES,
    MAX_HOOK_HOPS,
    MAX_HOOK_POSTS_PER_WINDOW,
    RATE_WINDOW_SECONDS,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.rate_limit import MAX_TRACKED_AGENTS, SlidingWindow
from sshwarma.common.refusals import count_refusal
from sshwarma.hooks import records
from sshwarma.hooks.incoming import make_text, read_document
from sshwarma.hooks.outgoing import HOPS_HEADER
from sshwarma.hooks.records import Delivery, Hook, IncomingSource
from sshwarma.services import Services
from sshwarma.settings import ReloadableSettings
from sshwarma.verbs.dispatch import invoke
from sshwarma.web.errors import refuse
from sshwarma.web.request_body import client_address, content_type, read_body
from sshwarma.web.request_replay import AnsweredBefore, KeyedRequests
from sshwarma.world.access import TokenScope
from sshwarma.world.audit import Origin
from sshwarma.world.caller import Caller
from sshwarma.world.causes import hook_hops, is_of_program
from sshwarma.world.errors import NotFound, RateLimited, WorldError
from sshwarma.world.ids import now_ms
from sshwarma.world.world import World

HOOK_PATH: Final = "/hooks/{secret}"

RATE_LIMITED: Final = 429

_HOPS: Final = tuple(str(number) for number in range(MAX_HOOK_HOPS + 1))

_ID_HEADERS: Final = ("idempotency-key", "webhook-id", "x-github-delivery")
"""Headers with which services name a post, so that one which is sent again is not taken twice."""


class IncomingHooks:
    """The addresses of a world's incoming hooks."""

    def __init__(self, world: World, services: Services, settings: ReloadableSettings) -> None:
        self._world = world
        self._services = services
        self._settings = settings
        self._keyed = KeyedRequests(world)
        self._rate = SlidingWindow(
            MAX_HOOK_POSTS_PER_WINDOW, RATE_WINDOW_SECONDS, max_keys=MAX_TRACKED_AGENTS
        )

    @property
    def route(self) -> Route:
        """The route of all addresses, for Starlette."""
        return Route(HOOK_PATH, self._answer, methods=["POST"])

    async def _answer(self, request: Request) -> Response:
        try:
            hook, source = await self._find(request.path_params["secret"])
        except WorldError as error:
            return refuse(error)
        began, row, response = now_ms(), "", Response(status_code=499)
        error_text = ""
        try:
            row, response = await self._take(request, hook, source)
        except WorldError as error:
            response, error_text = refuse(error), error.message
        except AnsweredBefore as before:
            return before.response
        except ClientDisconnect:
            return response  # it is gone, and will post again
        delivery = Delivery(began, row, response.status_code, now_ms() - began, error_text)
        if response.status_code != RATE_LIMITED:
            await self._world.change(lambda tx: records.store_delivery(tx, hook.id, delivery))
        return response

    async def _find(self, secret: str) -> tuple[Hook, IncomingSource]:
        """Return the hook of an address.

        Raises:
            NotFound: if no hook has that address, or it is off.
        """
        hook = await self._world.store.read(lambda conn: records.find_by_secret(conn, secret))
        if hook is None or hook.source is None or hook.off_reason is not None:
            raise NotFound("There is no such hook, or it is off.")
        return hook, hook.source

    async def _take(
        self, request: Request, hook: Hook, source: IncomingSource
    ) -> tuple[str, Response]:
        """Say or note what was posted; return the number of its row and the response."""
        is_of_program.set(True)
        given = request.headers.get(HOPS_HEADER, "")
        hook_hops.set(1 + (int(given) if given in _HOPS else 0))
        if wait := self._rate.hit(hook.agent_id):
            count_refusal("hook_posts")
            limit = with_limit(
                f"Too many posts to hooks of {self._world.agents.name_of(hook.agent_id)}"
                f" in {RATE_WINDOW_SECONDS:.0f} s",
                MAX_HOOK_POSTS_PER_WINDOW,
            )
            raise RateLimited(f"{limit}.", retry_after_seconds=max(1, round(wait)))
        body = bytearray()
        async for chunk in read_body(request, MAX_HOOK_BODY_BYTES):
            body += chunk
        key = next((request.headers[one] for one in _ID_HEADERS if one in request.headers), None)
        digest = hashlib.sha256(body).hexdigest()
        keyed = await self._keyed.begin_key(f"hook:{hook.id}", key, digest)
        response: Response | None = None
        try:
            text = await asyncio.to_thread(_read, source, bytes(body), content_type(request))
            seq = await self._post(request, hook, source, text)
            response = JSONResponse({"ok": True, "seq": seq})
            return str(seq), response
        finally:
            if keyed is not None:
                await self._keyed.end(keyed, response)

    async def _post(self, request: Request, hook: Hook, source: IncomingSource, text: str) -> int:
        agent = self._world.agents.get_enabled(hook.agent_id)
        caller = Caller(
            world=self._world,
            services=self._services,
            limits=self._settings.limits,
            agent=agent,
            room_id=hook.room_id,
            door="api",
            scope=TokenScope.ACT,
            origin=Origin(client_address(request), f"hook {hook.id}"),
        )
        given = {"speaker": hook.name, "text": text}
        if source.kind:
            given["note"] = source.kind
        result = await invoke(caller, "relay", given)
        return int(result.seq)


def _read(source: IncomingSource, body: bytes, media_type: str) -> str:
    """Return the text of a post."""
    return make_text(source, read_document(body, media_type))
