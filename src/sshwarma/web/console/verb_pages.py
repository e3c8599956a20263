"""Verbs as forms: the list of all, and one page each, made of its declaration."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.limits import MAX_ARCHIVE_BYTES, MAX_FILE_BYTES
from sshwarma.verbs.dispatch import check_may_pipe, invoke
from sshwarma.verbs.refusal_view import draw_refusal
from sshwarma.verbs.registry import SECTIONS, Verb, every_verb, find_verb
from sshwarma.web.console.form_body import FormBody, read_form
from sshwarma.web.console.forms import JSON_FIELD, make_fields, read_arguments
from sshwarma.web.console.frames import render_block, room_path, wants_part
from sshwarma.web.console.moved import find_new_room, moved_headers
from sshwarma.web.console.narrowing import find_items
from sshwarma.web.console.requests import ConsoleRequests, working
from sshwarma.web.errors import HTTP_STATUSES
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound, WorldError

ONLY_SSH = "It works only over ssh, with your ssh key."


class VerbPages:
    """The pages of verbs."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [
            Route("/verbs", page(self._list)),
            Route("/verb/{verb}", page(self._show)),
            Route("/verb/{verb}", page(self._run), methods=["POST"]),
        ]

    async def _list(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        wanted = request.query_params.get("filter", "").strip()
        ordered = sorted(every_verb(), key=lambda verb: SECTIONS.index(verb.section))
        matches = find_items(
            [(verb.name, f"{verb.summary} {verb.section}") for verb in ordered], wanted
        )
        listed = zip(ordered, matches, strict=True)
        sections = [
            (section, [(verb, await find_obstacle(caller, verb), found) for verb, found in of])
            for section, of in groupby(listed, key=lambda one: one[0].section)
        ]
        return await self._requests.show_page(
            request, caller, "verbs.html", title="Verbs", sections=sections, wanted=wanted,
            has_any=any(matches),
        )  # fmt: skip

    async def _show(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        verb = _find_verb(request)
        return await self._show_form(request, caller, verb, dict(request.query_params))

    async def _show_form(
        self,
        request: Request,
        caller: Caller,
        verb: Verb,
        given: dict[str, str],
        result: str = "",
        status: int = 200,
    ) -> Response:
        room = await caller.room()
        help_of_verb = await invoke(caller, "help", {"topic": verb.name})
        return await self._requests.show_page(
            request, caller, "verb.html", status, title=verb.name, verb=verb, room=room,
            fields=make_fields(verb, given), result=result, json_field=JSON_FIELD,
            written=given.get(JSON_FIELD, ""), obstacle=await find_obstacle(caller, verb),
            about=await self._requests.draw(caller, help_of_verb), room_path=room_path(room.name),
        )  # fmt: skip

    async def _run(self, request: Request) -> Response:
        """Run a verb with the arguments of its form."""
        caller, opened = await self._requests.find_caller(request, is_read=False)
        verb = _find_verb(request)
        begin = None
        if verb.takes_bytes:
            await check_may_pipe(caller, verb)
            begin = self._requests.services.workspaces.blobs.begin_upload
        form = await read_form(
            request, 3 * caller.limits.stdin_bytes, begin, max_upload_bytes(verb)
        )
        try:
            with working(opened):
                caller = replace(await caller.refreshed(), upload=form.upload)
                result = await invoke(caller, verb.name, read_arguments(verb, form))
        except WorldError as error:
            if wants_part(request):
                raise
            refusal = render_block(draw_refusal(error))
            status = HTTP_STATUSES.get(error.code, 422)
            return await self._show_form(request, caller, verb, typed_values(form), refusal, status)
        finally:
            form.close()
        drawn = await self._requests.draw(caller, result)
        path = await find_new_room(caller, verb)
        if wants_part(request):
            return HTMLResponse(drawn, headers=moved_headers(path))
        if back := path or _find_back(form):
            return RedirectResponse(back, status_code=303)
        return await self._show_form(request, caller, verb, {}, drawn)


def max_upload_bytes(verb: Verb) -> int:
    """Return how many bytes a verb takes: of a file of a room, or of an archive."""
    return MAX_FILE_BYTES if verb.name == "file put" else MAX_ARCHIVE_BYTES


def _find_verb(request: Request) -> Verb:
    name = request.path_params["verb"]
    verb = find_verb(name)
    if verb is None or verb.path != name:
        raise NotFound(f"There is no verb {name}.", hint="/verbs lists all.")
    return verb


async def find_obstacle(caller: Caller, verb: Verb) -> str:
    """Return why the caller may not use a verb here, whatever its arguments, or ""."""
    if verb.ssh_only and not verb.in_console:
        return ONLY_SSH
    try:
        await check_may_pipe(caller, verb)
    except WorldError as error:
        return error.message
    return ""


def typed_values(form: FormBody) -> dict[str, str]:
    """Return what was typed into a form, by field."""
    return {name: "\n".join(values) for name, values in form.fields.items()}


def _find_back(form: FormBody) -> str:
    """Return the page from which a form was sent without a script, or ""."""
    path = form.text("back")
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else ""
