"""What Tab offers, as JSON: for a line in the prompt, and for a field of a form."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.limits import MAX_COMPLETIONS
from sshwarma.verbs.arguments import CompletionRequest
from sshwarma.verbs.completion import complete
from sshwarma.verbs.registry import Verb, find_verb
from sshwarma.web.console.requests import ConsoleRequests
from sshwarma.world.errors import Invalid, NotFound


class Completions:
    """The lists that scripts ask for while somebody types."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [
            Route("/room/{room}/complete", page(self._complete_line)),
            Route("/verb/{verb}/values", page(self._complete_field)),
        ]

    async def _complete_line(self, request: Request) -> Response:
        """List candidates for the word at the cursor: `text` ends there, `rest` follows."""
        caller, _ = await self._requests.find_caller(request)
        text = request.query_params.get("text", "")
        if len(text.encode(errors="replace")) > caller.limits.line_bytes:
            raise Invalid("text: too long.")
        rest = request.query_params.get("rest", "")
        found = await complete(caller, text + rest, len(text))
        return JSONResponse(
            [
                {
                    "text": one.text, "shown": one.label, "note": one.note,
                    "start": one.start, "space": one.space,
                }
                for one in found
            ]
        )  # fmt: skip

    async def _complete_field(self, request: Request) -> Response:
        """List values for a field of a form, from those of the fields before it."""
        caller, _ = await self._requests.find_caller(request)
        verb = find_verb(request.path_params["verb"])
        query = request.query_params
        name = query.get("field", "")
        fields = {one.name: one for one in verb.parameters} if verb is not None else {}
        parameter = fields.get(name)
        if verb is None or parameter is None or parameter.arg.complete is None:
            raise NotFound("No such field.")
        typed = query.get(name, "")
        wanted = CompletionRequest(caller, _list_given(verb, name, query), typed)
        found = await parameter.arg.complete(wanted)
        matching = [one for one in found if one[0].lower().startswith(typed.lower())]
        return JSONResponse(matching[:MAX_COMPLETIONS])


def _list_given(verb: Verb, name: str, query: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of the positional arguments before one, as words of a line."""
    names = [one.name for one in verb.positional]
    before = names[: names.index(name)] if name in names else names
    return tuple(value for one in before if (value := query.get(one, "")))
