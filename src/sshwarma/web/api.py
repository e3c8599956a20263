"""The HTTP API: every verb by name, authorized by an agent's bearer token.

    GET  /api/v1/verbs          list of verbs with the JSON Schemas of their arguments
    POST /api/v1/verbs/NAME     {"argument": value, …} -> {"result": …, "text": "…"}
    POST /api/v1/line           {"line": "/look"} -> the same, for a line as typed

A verb runs in the agent's last room, or in `?room=NAME`, within the scope of the token. A refusal
is {"error": CODE, "message": …, "hint": …} with the HTTP status of its code.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sshwarma.common.near_names import find_near_names, suggest_names
from sshwarma.common.validation_text import describe_json_error
from sshwarma.services import Services
from sshwarma.settings import LimitSettings
from sshwarma.verbs.dispatch import invoke, run_line
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.verbs.reader import API_CLIENT
from sshwarma.verbs.registry import every_verb, find_verb
from sshwarma.verbs.views import dump_json, render_for
from sshwarma.web.errors import refuse
from sshwarma.world.bearer import BEARER_HINT, INVALID_BEARER, authenticate_bearer
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound, WorldError
from sshwarma.world.world import World


class Unauthorized(WorldError):
    """A missing or invalid bearer token: status 401."""

    code = "unauthorized"


class HttpApi:
    """The API routes of one world."""

    def __init__(
        self, world: World, services: Services, limits: LimitSettings, line_rate: LineRateLimiter
    ) -> None:
        self._world = world
        self._services = services
        self._limits = limits
        self._line_rate = line_rate

    @property
    def routes(self) -> list[Route]:
        """The routes of the API, for Starlette."""
        return [
            Route("/api/v1/verbs", self._handle_errors(self._list)),
            Route("/api/v1/verbs/{name}", self._handle_errors(self._invoke), methods=["POST"]),
            Route("/api/v1/line", self._handle_errors(self._run_line), methods=["POST"]),
        ]

    def _handle_errors(
        self, answer: Callable[[Request], Awaitable[dict[str, Any]]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                return JSONResponse(await answer(request))
            except WorldError as refused:
                return refuse(refused)
            except ClientDisconnect:
                return Response(status_code=499)  # the client is gone

        return endpoint

    async def _list(self, request: Request) -> dict[str, Any]:
        await self._caller(request)
        return {
            "verbs": [
                {
                    "name": verb.path,
                    "section": verb.section,
                    "summary": verb.summary,
                    "description": verb.program_description,
                    "needs": verb.needs,
                    "rights": verb.rights,
                    "scope": verb.scope,
                    "change_scope": verb.change_scope,
                    "input_schema": verb.input_schema,
                }
                for verb in every_verb()
                if not verb.ssh_only
            ]
        }

    async def _invoke(self, request: Request) -> dict[str, Any]:
        caller = await self._caller(request)
        arguments = await self._arguments(request)
        name = request.path_params["name"]
        verb = find_verb(name)
        if verb is None or verb.path != name:
            raise _unknown_verb_error(name)
        result = await invoke(caller, name, arguments)
        return {"result": dump_json(result), "text": render_for(API_CLIENT, result)}

    async def _run_line(self, request: Request) -> dict[str, Any]:
        caller = await self._caller(request)
        match await self._arguments(request):
            case {"line": str(line), **others} if line.strip() and not others:
                if len(line.encode(errors="surrogatepass")) > self._limits.line_bytes:
                    limit = self._limits.line_bytes
                    raise Invalid(
                        f"The line is too long (limit {limit} bytes).",
                        hint="POST the arguments to /api/v1/verbs/NAME instead.",
                    )
                result = await run_line(caller, line)
                return {"result": dump_json(result), "text": render_for(API_CLIENT, result)}
        raise Invalid('The request body must be {"line": TEXT}.', hint='Example: {"line": "/look"}')

    async def _caller(self, request: Request) -> Caller:
        authorization = request.headers.get("authorization", "")
        bearer = await authenticate_bearer(self._world, authorization)
        if bearer is None:
            raise Unauthorized(INVALID_BEARER, hint=BEARER_HINT)
        agent, token = bearer
        self._line_rate.check(agent.id)
        caller = Caller(
            world=self._world,
            services=self._services,
            limits=self._limits,
            agent=agent,
            room_id=agent.room_id,
            door="web",
            scope=token.scope,
        )
        wanted = request.query_params.get("room")
        return await (caller.in_accessible_room() if wanted is None else caller.in_room(wanted))

    async def _arguments(self, request: Request) -> dict[str, Any]:
        limit = self._limits.stdin_bytes * 2  # JSON escapes may double a text
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise Invalid(f"The request body is too long (limit {limit} bytes).")
        try:
            arguments = json.loads(body or b"{}")
        except (ValueError, RecursionError) as error:
            raise Invalid(f"The request body is not JSON: {describe_json_error(error)}.") from error
        if not isinstance(arguments, dict):
            raise Invalid("The request body must be a JSON object of arguments by name.")
        return arguments


def _unknown_verb_error(name: str) -> NotFound:
    """Return the refusal of a name that no verb has, with the names that are meant."""
    offered = [verb for verb in every_verb() if not verb.ssh_only]
    family = [verb.path for verb in offered if verb.group == name]
    near = family or find_near_names(name, [verb.path for verb in offered])
    hint = f"It is a family of verbs: {', '.join(family)}." if family else suggest_names(near)
    return NotFound(
        f"Unknown verb {name[:40]}.", hint=hint or "GET the path api/v1/verbs: it lists them."
    )
