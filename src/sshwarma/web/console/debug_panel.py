"""The panel Debug of a room: contexts of models, turns, and calls by time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.limits import DEFAULT_TRACED_TURNS, MAX_LISTED_TURNS, MAX_TRACED_TURNS
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.models import ModelListItem
from sshwarma.verbs.refusal_view import draw_refusal
from sshwarma.verbs.rights import ASKER_RIGHT
from sshwarma.verbs.trace import TracedTurn
from sshwarma.verbs.turn_views import TurnSummary
from sshwarma.verbs.views import format_clock
from sshwarma.verbs.wrap import WrappedContext
from sshwarma.verbs.wrap_diff import RequestDiff
from sshwarma.web.console.frames import render_block, room_path, wants_part
from sshwarma.web.console.requests import ConsoleRequests, read_number
from sshwarma.web.console.room_page import RoomPages
from sshwarma.web.console.svg import Bar, draw_shares
from sshwarma.web.console.waterfall import format_cost, format_tokens, make_waterfall
from sshwarma.world.access import Right, required_scope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, WorldError
from sshwarma.world.ids import now_ms

VIEWS: Final = (("context", "Context"), ("turns", "Turns"), ("calls", "Calls"))
"""The views of the panel, as `?view=` and as links."""

DRAWN_TURNS: Final = 50
"""Turns of the tree, unless a link asks for all that a list may have."""

MAX_BRANCH_DEPTH: Final = 3
"""Classes of branches, `branch-1` and on: deeper ones are not indented more."""


@dataclass(frozen=True, slots=True)
class TreeTurn:
    """A turn in the tree.

    Attributes:
        depth: 0 on the conversation, 1 for a branch of it, and on.
        siblings: other turns that follow the same turn.
        actions: verbs for it, with their labels.
    """

    turn: TurnSummary
    at: str
    depth: int
    siblings: int
    actions: tuple[tuple[str, str], ...]


class DebugPanel:
    """The panel `debug`."""

    def __init__(self, requests: ConsoleRequests, rooms: RoomPages) -> None:
        self._requests = requests
        self._rooms = rooms

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [
            Route("/room/{room}/debug", page(self._show)),
            Route("/room/{room}/debug/{what}", page(self._show_part)),
        ]

    async def _show(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        await caller.require(Right.ENTER)
        query = request.query_params
        view = query.get("view", "context")
        if view == "turns":
            values = await self._read_turns(caller, is_all="all" in query)
        elif view == "calls":
            values = await self._read_calls(caller, read_number(query.get("n")))
        elif view == "context":
            values = await self._read_context(caller, query.get("model", ""))
        else:
            raise Invalid(f"view: choose one of: {', '.join(name for name, _ in VIEWS)}.")
        room = (await caller.room()).name
        html = self._requests.frames.render(
            f"debug_{view}.html", room=room, path=room_path(room, "debug"), views=VIEWS, view=view,
            **values,
        )  # fmt: skip
        return await self._rooms.show_panel(request, caller, "debug", html)

    async def _show_part(self, request: Request) -> Response:
        """Return a long part, fetched when it is opened: a request, or a turn."""
        caller, _ = await self._requests.find_caller(request)
        what, query = request.path_params["what"], request.query_params
        if what == "turn":
            result = await invoke(caller, "message show", {"turn": query.get("turn", "")})
        else:
            arguments = {"which": what, "model": query.get("model", "")}
            result = await invoke(caller, "wrap", arguments)
        drawn = await self._requests.draw(caller, result)
        if wants_part(request):
            return HTMLResponse(drawn)
        html = self._requests.frames.render("debug_part.html", drawn=drawn)
        return await self._rooms.show_panel(request, caller, "debug", html)

    async def _read_context(self, caller: Caller, model: str) -> dict[str, Any]:
        models: tuple[ModelListItem, ...] = (await invoke(caller, "models", {})).models
        given = {"model": f"@{model.removeprefix('@')}"} if model else {}
        values: dict[str, Any] = {
            "models": models, "model": model.removeprefix("@"), "context": None, "diff": None,
            "diff_refusal": "", "layers": [], "shares": "", "refusal": "", "last": None,
        }  # fmt: skip
        try:
            context: WrappedContext = await invoke(caller, "wrap", given)
        except WorldError as error:
            return values | {"refusal": self._draw(error)}
        mention = {"model": f"@{context.model}"}
        try:
            values["diff"] = await invoke(caller, "wrap", {**mention, "which": "diff"})
        except WorldError as error:
            values["diff_refusal"] = self._draw(error)
        trace = await invoke(caller, "trace", {"n": DEFAULT_TRACED_TURNS})
        turns = [turn for turn in trace.turns if turn.agent == context.model and turn.requests]
        layers = _list_layers(context)
        shares = [Bar(layer.name, layer.tokens, format_tokens(layer.tokens)) for layer in layers]
        return values | {
            "model": context.model,
            "context": context,
            "layers": layers,
            "shares": draw_shares("shares", f"Shares of the context of {context.model}", shares),
            "sum": _sum_up(context),
            "equal": _describe_equal(values["diff"]),
            "last": _describe_last(turns[-1]) if turns else None,
        }

    def _draw(self, error: WorldError) -> Markup:
        return render_block(draw_refusal(error))

    async def _read_turns(self, caller: Caller, *, is_all: bool) -> dict[str, Any]:
        count = MAX_LISTED_TURNS if is_all else DRAWN_TURNS
        listed = await invoke(caller, "message list", {"n": count})
        room = await caller.room()
        may_talk = Right.TALK in caller.rights_in(room, now_ms()) and caller.scope.allows(
            required_scope(Right.TALK)
        )
        may_all = await ASKER_RIGHT.is_met(caller)
        tree = make_tree(listed.turns, caller.agent.name, may_all=may_all, may_talk=may_talk)
        return {
            "tree": tree, "may_talk": may_talk, "has_more": len(listed.turns) == DRAWN_TURNS,
            "is_own": any(turn.by == caller.agent.name for turn in listed.turns),
            "may_all": may_all,
        }  # fmt: skip

    async def _read_calls(self, caller: Caller, count: int) -> dict[str, Any]:
        count = min(count or 2 * DEFAULT_TRACED_TURNS, MAX_TRACED_TURNS)
        trace = await invoke(caller, "trace", {"n": count})
        groups = await asyncio.to_thread(make_waterfall, trace, now_ms())
        return {
            "trace": trace, "groups": groups, "most": MAX_TRACED_TURNS, "count": count,
            "calls": sum(group.calls for group in groups), "format_cost": format_cost,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class DebugLayer:
    """A layer, or the tools, as a row of the table.

    Attributes:
        cut: "no", or how it was cut or why it failed.
    """

    name: str
    side: str
    stability: str
    tokens: int
    share: str
    budget: str
    cut: str
    text: str


def _list_layers(context: WrappedContext) -> list[DebugLayer]:
    total = context.total_tokens or 1
    tools = DebugLayer(
        "tools", "tools", "release",
        context.tool_tokens, f"{context.tool_tokens / total:.1%}", "", "no",
        ", ".join(context.tools) or "No tools are offered.",
    )  # fmt: skip
    layers = [
        DebugLayer(
            layer.name, layer.side, layer.stability, layer.tokens, f"{layer.tokens / total:.1%}",
            f"{layer.budget:,}" if layer.budget else "", layer.note or "no", layer.text,
        )
        for layer in context.layers
    ]  # fmt: skip
    return [tools, *layers]


def _sum_up(context: WrappedContext) -> str:
    part = f"{context.total_tokens / context.budget:.0%} of " if context.budget else ""
    layers = f"{len(context.layers)} layers and the descriptions of {len(context.tools)} tools"
    return (
        f"{layers} have about {format_tokens(context.total_tokens)}: "
        f"{part}the {context.budget:,} that {context.model} accepts."
    )


def _describe_equal(diff: RequestDiff | None) -> str:
    if diff is None:
        return ""
    share = diff.equal_characters / diff.characters if diff.characters else 0
    return (
        f"Since the request of {format_clock(diff.sent_at)}, the first {diff.equal_characters:,} "
        f"characters stayed equal: {share:.0%} of {diff.characters:,}. A provider may have them in"
        " its cache."
    )


def _describe_last(turn: TracedTurn) -> dict[str, str]:
    first = turn.requests[0]
    counted = "we estimate" if first.estimated else "the provider counted"
    text = (
        f"In the first request of its last answer, {counted} {format_tokens(first.prompt_tokens)}; "
        f"the whole answer took {format_tokens(turn.prompt_tokens + turn.completion_tokens)}, "
        f"{format_cost(turn.cost)}."
    )
    return {"text": text, "turn": turn.short}


def make_tree(
    turns: tuple[TurnSummary, ...], own_name: str, *, may_all: bool, may_talk: bool
) -> list[TreeTurn]:
    """Return turns as a tree, oldest first.

    The branches of a turn come before what follows it, which is in the conversation, or the
    newest. A turn whose parent is not listed is a root.
    """
    known = {turn.id for turn in turns}
    children: dict[str, list[TurnSummary]] = {}
    for turn in turns:
        children.setdefault(turn.parent if turn.parent in known else "", []).append(turn)
    main = _find_main(turns)
    found: list[TreeTurn] = []
    waiting: list[tuple[TurnSummary | None, int]] = [(None, 0)]
    while waiting:
        item, depth = waiting.pop()
        if item is not None:
            siblings = children[item.parent if item.parent in known else ""]
            is_own = may_all or item.by == own_name
            actions = _list_actions(item, item.id in main, may_talk=may_talk) if is_own else ()
            found.append(
                TreeTurn(
                    item, format_clock(item.at), min(depth, MAX_BRANCH_DEPTH), len(siblings) - 1,
                    actions,
                )
            )  # fmt: skip
        below = children.get("" if item is None else item.id, [])
        going_on = next((one for one in below if one.id in main), below[-1] if below else None)
        if going_on is not None:
            waiting.append((going_on, depth))
        waiting += [(one, depth + 1) for one in reversed(below) if one is not going_on]
    return found


def _find_main(turns: tuple[TurnSummary, ...]) -> set[str]:
    """Return the ids of the turns from the head to the root, dropped ones included."""
    by_id = {turn.id: turn for turn in turns}
    at = next((turn for turn in turns if turn.head), None)
    main: set[str] = set()
    while at is not None and at.id not in main:
        main.add(at.id)
        at = by_id.get(at.parent)
    return main


def _list_actions(
    turn: TurnSummary, is_main: bool, *, may_talk: bool
) -> tuple[tuple[str, str], ...]:
    actions = [] if is_main or turn.status == "dropped" or not may_talk else ["branch switch"]
    actions.append("message restore" if turn.status == "dropped" else "message drop")
    labels = {"branch switch": "Switch to it", "message drop": "Drop", "message restore": "Restore"}
    return tuple((verb.replace(" ", "_"), labels[verb]) for verb in actions)
