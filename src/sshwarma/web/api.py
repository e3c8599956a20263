"""The HTTP API: every verb by name, authorized by an agent's bearer token.

    GET  /api/v1/verbs          list of verbs; docs/verbs.md describes its fields
    POST /api/v1/verbs/NAME     {"argument": value, …} -> {"result": …, "text": "…"}
    POST /api/v1/line           {"line": "/look"} -> the same, for a line as typed
    GET  /api/v1/events         what happens in rooms, as it happens
    POST /api/v1/stream         {"text": "@qwen hello"} -> events while it is answered
    *    /api/v1/NAME           operations with names of their own, see `endpoints.py`
    GET  /api                   list of all paths
    GET  /api/openapi.json      all of these, in the form of OpenAPI
    GET  /api/docs              the same, for people

A verb runs in the agent's last room, or in `?room=NAME`, within the scope of the token. A refusal
is {"error": CODE, "message": …, "hint": …} with the HTTP status of its code.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from sshwarma.common.limits import (
    MAX_API_REQUESTS_PER_AGENT,
    MAX_ARCHIVE_BYTES,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.refusals import count_refusal
from sshwarma.events.event_feed import EventFeed
from sshwarma.services import Services
from sshwarma.settings import ReloadableSettings
from sshwarma.verbs.dispatch import check_may_pipe, invoke, run_line
from sshwarma.verbs.file_views import FileDownload
from sshwarma.verbs.line_rate import LineRateLimiter, is_read_line, is_read_verb
from sshwarma.verbs.registry import every_verb, find_verb
from sshwarma.verbs.unknown_verb import unknown_verb_error
from sshwarma.verbs.verb import Verb
from sshwarma.verbs.views import render_in_thread
from sshwarma.web.api_pages import PAGE_ROUTES
from sshwarma.web.endpoints import (
    API_PREFIX,
    ENDPOINTS,
    EVENT_STREAM_TYPE,
    Endpoint,
    choose_verb,
    get_verb,
    read_query,
)
from sshwarma.web.errors import Unauthorized, refuse
from sshwarma.web.event_stream import open_event_feed
from sshwarma.web.event_stream import respond as respond_with_events
from sshwarma.web.incoming_hooks import IncomingHooks
from sshwarma.web.request_body import client_address, content_type, read_arguments, read_body
from sshwarma.web.request_end import end_with_client
from sshwarma.web.request_replay import KEY_HEADER, AnsweredBefore, KeyedRequests
from sshwarma.web.stream import AnswerStream
from sshwarma.world.agents import Agent
from sshwarma.world.audit import origin_of_token
from sshwarma.world.bearer import (
    BEARER_HINT,
    INVALID_BEARER,
    SCOPE_AGENT_KEY,
    authenticate_bearer,
)
from sshwarma.world.caller import Caller
from sshwarma.world.causes import is_of_program
from sshwarma.world.errors import Forbidden, Invalid, RateLimited, TooLarge, WorldError
from sshwarma.world.reader import API_CLIENT
from sshwarma.world.request_keys import KeyedRequest
from sshwarma.world.tokens import Token
from sshwarma.world.world import World

STREAM_PATH: Final = f"{API_PREFIX}/stream"
EVENTS_PATH: Final = f"{API_PREFIX}/events"


class HttpApi:
    """The API routes of one world."""

    def __init__(
        self,
        world: World,
        services: Services,
        settings: ReloadableSettings,
        line_rate: LineRateLimiter,
    ) -> None:
        self._world = world
        self._services = services
        self._settings = settings
        self._line_rate = line_rate
        self._open_counts: Counter[str] = Counter()  # open requests by agent
        self._feeds: WeakSet[EventFeed] = WeakSet()  # of streams of events
        self._keyed = KeyedRequests(world)
        self._hooks = IncomingHooks(world, services, settings)

    @property
    def routes(self) -> list[Route]:
        """The routes of the API, for Starlette."""
        return [
            Route(f"{API_PREFIX}/verbs", self._handle_errors(self._list)),
            Route(
                f"{API_PREFIX}/verbs/{{name}}", self._handle_errors(self._invoke), methods=["POST"]
            ),
            Route(f"{API_PREFIX}/line", self._handle_errors(self._run_line), methods=["POST"]),
            Route(EVENTS_PATH, self._handle_errors(self._hear)),
            Route(STREAM_PATH, self._handle_errors(self._stream), methods=["POST"]),
            self._hooks.route,
            *PAGE_ROUTES,
            *(
                Route(
                    endpoint.path,
                    self._handle_errors(partial(self._run_endpoint, endpoint)),
                    methods=[endpoint.method],
                )
                for endpoint in ENDPOINTS
            ),
        ]

    def _handle_errors(
        self, answer: Callable[[Request], Awaitable[dict[str, Any] | Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            response: Response | None = None
            try:
                answered = await answer(request)
                response = answered if isinstance(answered, Response) else JSONResponse(answered)
            except WorldError as error:
                response = refuse(error)
            except AnsweredBefore as before:
                response = before.response
            except ClientDisconnect:
                response = Response(status_code=499)  # the client is gone
            finally:
                if keyed := getattr(request.state, "keyed", None):
                    is_cut = getattr(request.state, "is_cut", False)
                    await self._keyed.end(keyed, None if is_cut else response)
            return response

        return endpoint

    async def _list(self, request: Request) -> dict[str, Any]:
        agent, _ = await self._authenticate(request)
        await self._line_rate.admit(agent.id, is_read=True)
        return {
            "verbs": [
                {
                    "name": verb.path,
                    "section": verb.section,
                    "summary": verb.summary,
                    "description": verb.program_detail,
                    "rights": verb.rights,
                    "scope": verb.scope,
                    "change_scope": verb.change_scope,
                    "input_schema": verb.input_schema,
                }
                for verb in every_verb()
                if not verb.ssh_only
            ]
        }

    async def _run_endpoint(
        self, endpoint: Endpoint, request: Request
    ) -> dict[str, Any] | Response:
        """Run the verb of an endpoint; the result may be the bytes of a file."""
        verb = get_verb(endpoint.verb)
        is_file = bool(endpoint.takes) and content_type(request) == endpoint.takes

        async def run(caller: Caller, arguments: dict[str, Any]) -> Any:
            if endpoint.method == "GET" or is_file:
                arguments = read_query(verb, request.query_params.multi_items())
            chosen, given = choose_verb(endpoint, arguments)
            caller = replace(caller, wants_bytes=bool(endpoint.answers_with))
            return await invoke(caller, chosen.name, given, called=endpoint.name)

        result = await self._call(request, run, is_read_verb(verb), verb if is_file else None)
        if not isinstance(result, FileDownload):
            return await self._show(result)
        headers = {"ETag": f'"{result.sha256}"'}
        if result.variables:
            headers["X-Sshwarma-Variables"] = ", ".join(result.variables)
        return FileResponse(
            result.blob,
            media_type=endpoint.answers_with,
            filename=result.path.rpartition("/")[2],
            headers=headers,
        )

    async def _invoke(self, request: Request) -> dict[str, Any]:
        name = request.path_params["name"]
        verb = find_verb(name)

        async def run(caller: Caller, arguments: dict[str, Any]) -> Any:
            if verb is None or verb.path != name:
                raise unknown_verb_error(name, API_CLIENT)
            return await invoke(caller, name, arguments)

        return await self._answer(request, run, verb is not None and is_read_verb(verb))

    async def _run_line(self, request: Request) -> dict[str, Any]:
        async def run(caller: Caller, arguments: dict[str, Any]) -> Any:
            match arguments:
                case {"line": str(line), **others} if line.strip() and not others:
                    if len(line.encode(errors="surrogatepass")) > self._settings.limits.line_bytes:
                        limit = self._settings.limits.line_bytes
                        raise TooLarge(
                            f"line: must have at most {limit} bytes.",
                            hint="POST the arguments to /api/v1/verbs/NAME instead.",
                        )
                    if not is_read_line(line, caller.agent.aliases):
                        self._line_rate.check(caller.agent.id)
                    return await run_line(caller, line)
            raise Invalid(
                'The request body must be {"line": TEXT}.', hint='Example: {"line": "/look"}'
            )

        return await self._answer(request, run, is_read=True)

    async def _stream(self, request: Request) -> Response:
        """Say a message; its answers are the response, as they are written."""
        begun: asyncio.Future[AnswerStream] = asyncio.get_running_loop().create_future()

        async def run(caller: Caller, arguments: dict[str, Any]) -> None:
            stream = AnswerStream(caller)
            begun.set_result(stream)
            await stream.run(lambda: invoke(caller, "say", arguments))

        working = asyncio.create_task(self._call(request, run, is_read=False))
        try:
            await asyncio.wait({begun, working}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            working.cancel()
            raise
        if not begun.done():
            await working  # it was refused
        return await begun.result().respond(working)

    async def _hear(self, request: Request) -> Response:
        """Return a stream of what happens in rooms."""
        agent, token = await self._authenticate(request)
        request.scope[SCOPE_AGENT_KEY] = agent.id
        await self._line_rate.admit(agent.id, is_read=True)
        caller = await self._make_caller(request, agent, token)
        query, last_id = request.query_params, request.headers.get("last-event-id")
        feed = await open_event_feed(caller, query, last_id)
        if request.method == "HEAD":  # it has no body, and would never end
            return Response(media_type=EVENT_STREAM_TYPE)
        open_request = self._world.open_requests.begin(agent.id, token=token)
        self._feeds.add(feed)
        return respond_with_events(feed, open_request)

    def close(self) -> None:
        """End the streams of events, because the server stops."""
        for feed in list(self._feeds):
            feed.end("The server stops.", again=True)

    async def _answer(
        self,
        request: Request,
        run: Callable[[Caller, dict[str, Any]], Awaitable[Any]],
        is_read: bool,
    ) -> dict[str, Any]:
        return await self._show(await self._call(request, run, is_read))

    async def _show(self, result: Any) -> dict[str, Any]:
        text, data = await render_in_thread(API_CLIENT, result)
        return {"result": data, "text": text}

    async def _call(
        self,
        request: Request,
        run: Callable[[Caller, dict[str, Any]], Awaitable[Any]],
        is_read: bool,
        upload_verb: Verb | None = None,
    ) -> Any:
        """Read and run a request; stop it when access ends or the client disconnects.

        Args:
            request: the request.
            run: returns the result for the caller and the arguments of the body.
            is_read: whether it counts as a read, not as a line.
            upload_verb: the verb that takes the body as a file; else the body is JSON.
        """
        agent, token = await self._authenticate(request)
        request.scope[SCOPE_AGENT_KEY] = agent.id
        is_of_program.set(True)
        open_request = self._world.open_requests.begin(agent.id, token=token)
        try:
            counted = self._count_open(self._open_counts, agent.id, MAX_API_REQUESTS_PER_AGENT)
            with counted, open_request, contextlib.ExitStack() as stack:
                await self._line_rate.admit(agent.id, is_read=is_read)
                caller = await self._make_caller(request, agent, token)
                upload, arguments = None, {}
                if upload_verb is None:
                    limit = self._settings.limits.stdin_bytes * 2  # JSON may double a text
                    arguments = await read_arguments(request, limit)
                else:
                    await check_may_pipe(caller, upload_verb)
                    blobs = self._services.workspaces.blobs
                    upload = stack.enter_context(contextlib.closing(blobs.begin_upload()))
                    async for chunk in read_body(request, MAX_ARCHIVE_BYTES):
                        await asyncio.to_thread(upload.write, chunk)
                # Again: the token, roles and rooms may have changed while the body was read.
                await self._authenticate(request)
                caller = replace(await caller.refreshed(), upload=upload)
                if request.method == "POST":
                    request.state.keyed = await self._begin_keyed(request, caller, arguments)
                open_request.room_id = caller.room_id
                async with end_with_client(request, open_request):
                    return await run(caller, arguments)
        except Forbidden as error:
            # Cut, and not refused: what it has changed until then is stored.
            request.state.is_cut = bool(open_request.reason)
            if open_request.lost_access:
                raise Unauthorized(open_request.reason) from error
            raise

    async def _begin_keyed(
        self, request: Request, caller: Caller, arguments: dict[str, Any]
    ) -> KeyedRequest | None:
        """Take note of the request's key.

        A token of another scope makes another request: the first answer may not be for it.

        Raises:
            Invalid: if the request cannot have one.
        """
        is_file = content_type(request) in {one.takes for one in ENDPOINTS if one.takes}
        if KEY_HEADER in request.headers and (is_file or request.url.path == STREAM_PATH):
            raise Invalid(
                f"{KEY_HEADER} is not for {'files' if is_file else 'streams'}.",
                hint="POST it to another path, with a JSON body.",
            )
        return await self._keyed.begin(
            request, caller.agent.id, {"scope": caller.scope, "arguments": arguments}
        )

    @contextlib.contextmanager
    def _count_open(self, counts: Counter[str], agent_id: str, limit: int) -> Iterator[None]:
        """Count an open request of an agent.

        Raises:
            RateLimited: if the agent has `limit` already.
        """
        if counts[agent_id] >= limit:
            count_refusal("api_requests")
            raise RateLimited(
                f"{with_limit('Too many open requests', limit)}.", retry_after_seconds=1
            )
        counts[agent_id] += 1
        try:
            yield
        finally:
            counts[agent_id] -= 1
            if not counts[agent_id]:
                del counts[agent_id]

    async def _authenticate(self, request: Request) -> tuple[Agent, Token]:
        authorization = request.headers.get("authorization", "")
        bearer = await authenticate_bearer(
            self._world, authorization, "api", client_address(request)
        )
        if bearer is None:
            raise Unauthorized(INVALID_BEARER, hint=BEARER_HINT)
        return bearer

    async def _make_caller(self, request: Request, agent: Agent, token: Token) -> Caller:
        caller = Caller(
            world=self._world,
            services=self._services,
            limits=self._settings.limits,
            agent=agent,
            room_id=agent.room_id,
            door="api",
            scope=token.scope,
            origin=origin_of_token(client_address(request), token.id),
        )
        room_name = request.query_params.get("room")
        return await (
            caller.in_accessible_room() if room_name is None else caller.in_room(room_name)
        )
