"""The page of figures: tokens and cost by day, model and room, and calls by tool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.limits import MAX_STATS_DAYS
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.stats import DayUsage, UsageStats
from sshwarma.verbs.views import format_count
from sshwarma.web.console.requests import ConsoleRequests
from sshwarma.web.console.svg import Bar, draw_bars, draw_columns
from sshwarma.web.console.waterfall import format_cost, format_tokens
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.ids import now_ms
from sshwarma.world.statistics import ToolCount, UsageTotals

PERIODS: Final = ((7, "7 days"), (30, "30 days"), (90, "90 days"), (MAX_STATS_DAYS, "A year"))
"""Days that the page offers, with their names."""

DEFAULT_DAYS: Final = 30

USAGE_HEADS: Final = ("Answers", "Requests", "Tokens in", "Tokens out", "Tokens", "Cost")


@dataclass(frozen=True, slots=True)
class Figure:
    """Pictures and the table that says the same.

    Attributes:
        heads: of the columns after the first, which is called `name`.
        rows: the name, then a cell for each head.
    """

    id: str
    title: str
    pictures: tuple[tuple[str, Markup], ...]
    name: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


class FiguresPage:
    """The page `/figures`."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        return [Route("/figures", self._requests.page(self._show))]

    async def _show(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        query = request.query_params
        days = _read_days(query.get("days"))
        is_all = query.get("in") == ""
        stats: UsageStats = await invoke(caller, "stats", {"days": days, "all": is_all})
        now = now_ms()
        rooms = [
            room.name for room in await caller.known_rooms()
            if Right.ENTER in caller.rights_in(room, now)
        ]  # fmt: skip
        return await self._requests.show_page(
            request, caller, "figures.html", title="Figures", stats=stats, days=days,
            periods=PERIODS, rooms=rooms, chosen="" if is_all else stats.scope,
            may_all=await caller.may_administer(), figures=_make_figures(stats, caller, days),
            total=_describe_total(stats.total),
        )  # fmt: skip


def _read_days(text: str | None) -> int:
    """Return the number of days of a query; any that the verb allows.

    Raises:
        Invalid: if it is not a number of days.
    """
    if text is None:
        return DEFAULT_DAYS
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= MAX_STATS_DAYS:
        raise Invalid(f"days: must be a number from 1 to {MAX_STATS_DAYS}.")
    return int(text)


def _make_figures(stats: UsageStats, caller: Caller, days: int) -> list[Figure]:
    by_day = [(use.day, use) for use in _fill_days(stats, days)]
    used_days = [(use.day, use) for use in stats.days]
    by_model = [(use.model, use) for use in stats.spent]
    by_room = [(use.room, use) for use in stats.rooms]
    figures = [_make_usage_figure("day", "By day, in UTC", "Day", used_days, by_day)]
    figures += [_make_usage_figure("model", "By model", "Model", by_model)]
    if by_room:
        figures += [_make_usage_figure("room", "By room", "Room", by_room)]
    return [*figures, _make_tool_figure(stats.tools, caller)]


def _fill_days(stats: UsageStats, days: int) -> list[DayUsage]:
    """Return the usage of each day of the period, also of those without any."""
    used = {use.day: use for use in stats.days}
    today = datetime.fromtimestamp(now_ms() / 1000, UTC).date()
    names = [f"{today - timedelta(days=ago):%Y-%m-%d}" for ago in reversed(range(days))]
    return [used.get(name) or DayUsage(day=name) for name in names]


def _make_usage_figure(
    figure_id: str,
    title: str,
    name: str,
    uses: Sequence[tuple[str, UsageTotals]],
    drawn: Sequence[tuple[str, UsageTotals]] | None = None,
) -> Figure:
    """Return tokens and cost of days as columns, of the others as bars."""
    draw = draw_bars if drawn is None else draw_columns
    shown = uses if drawn is None else drawn
    tokens = [Bar(one, use.total_tokens, format_tokens(use.total_tokens)) for one, use in shown]
    pictures = [("Tokens", draw(f"{figure_id}-tokens", f"Tokens {title.lower()}", tokens))]
    if any(use.cost for _, use in shown):
        costs = [Bar(one, use.cost or 0.0, format_cost(use.cost)) for one, use in shown]
        cost_title = f"Cost {title.lower()}"
        pictures.append(("Cost", draw(f"{figure_id}-cost", cost_title, costs, "part-1")))
    rows = tuple((one, _list_cells(use)) for one, use in uses)
    return Figure(figure_id, title, tuple(pictures) if uses else (), name, USAGE_HEADS, rows)


def _list_cells(use: UsageTotals) -> tuple[str, ...]:
    counts = (use.answers, use.requests, use.prompt_tokens, use.completion_tokens, use.total_tokens)
    unpriced = use.requests - use.priced
    note = f", {unpriced} unpriced" if unpriced and use.cost is not None else ""
    return (*(f"{count:,}" for count in counts), f"{format_cost(use.cost)}{note}")


def _make_tool_figure(tools: Iterable[ToolCount], caller: Caller) -> Figure:
    tools = list(tools)
    named = [(caller.reader.name_tool(tool.tool), tool) for tool in tools]
    calls = [Bar(name, tool.calls, format_count(tool.calls, "call")) for name, tool in named]
    failed = [
        Bar(name, tool.errors, format_count(tool.errors, "error")) for name, tool in named
        if tool.errors
    ]  # fmt: skip
    pictures = [("Calls", draw_bars("tool-calls", "Calls by tool", calls, "part-4"))]
    if failed:
        pictures.append(("Errors", draw_bars("tool-errors", "Errors by tool", failed, "part-5")))
    rows = tuple(
        (name, (f"{tool.calls:,}", f"{tool.share:.0%}", f"{tool.errors:,}")) for name, tool in named
    )
    heads = ("Calls", "Share", "Errors")
    return Figure("tool", "By tool", tuple(pictures) if tools else (), "Tool", heads, rows)


def _describe_total(use: UsageTotals) -> str:
    parts = [format_count(use.answers, "answer"), format_tokens(use.total_tokens)]
    parts += [format_cost(use.cost)] if use.requests else []
    parts += [f"{use.estimated} estimated"] if use.estimated else []
    parts += [f"{use.dropped} dropped"] if use.dropped else []
    return ", ".join(parts)
