"""Composition of a model's context for one request.

A snapshot of the room goes to Lua, layers come back, and are ordered, fitted and rendered here.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from cachetools import LRUCache
from sqlalchemy import Connection

from sshwarma.common.limits import DEFAULT_CONTEXT_TOKENS, DEFAULT_LAYER_TOKENS
from sshwarma.world import notes
from sshwarma.world.caller import Caller
from sshwarma.world.leave_out import ToolRetention
from sshwarma.world.loadout import Loadout
from sshwarma.world.projects import ProjectPaths
from sshwarma.world.resources import resource_dir
from sshwarma.world.rooms import Room
from sshwarma.world.row import Row
from sshwarma.world.turns import Turn
from sshwarma.wrap import window
from sshwarma.wrap.host import HostCallback, LuaError, LuaHost, LuaScript
from sshwarma.wrap.layer_calls import make_layer_calls
from sshwarma.wrap.layers import (
    STABILITIES,
    ContextMessage,
    InvalidLayer,
    Layer,
    fit_layers,
    join_conversation,
    join_system_text,
    parse_layer,
    sort_layers,
)
from sshwarma.wrap.log_layers import fit_log_layers, make_transcript, read_policies
from sshwarma.wrap.log_preview import LogPreview, preview_log
from sshwarma.wrap.memory_layer import read_memory_facts
from sshwarma.wrap.profiles import NO_TOOLS, UNKNOWN_READER, ContextReader, ToolSummary
from sshwarma.wrap.render_cache import RenderCache
from sshwarma.wrap.snapshot import (
    WRAP_SCRIPT_NAME,
    build_snapshot,
    is_layer_script,
    unloaded_namespaces,
)
from sshwarma.wrap.tokens import count_answer_tokens, estimate_tokens
from sshwarma.wrap.transcript import Transcript, frame_text
from sshwarma.wrap.window import Window

log = structlog.get_logger(__name__)

MIN_LOG_TOKENS: Final = 400
"""Tokens that the log gets rather than results of tools."""

KEPT_FRACTION: Final = 0.6
"""Fraction of the tokens that are reserved for results of a turn that earlier ones may take if
their tools say KEEP."""

MAX_REMEMBERED_WINDOWS: Final = 1_000
"""Rooms whose window keeps its beginning from one request to the next."""

REQUEST_LAYER: Final = "request"
"""Name of the layer that stands last: what the model is to answer."""

_HOOK_LAYER_DEFAULTS: Final = {
    "stability": "turn",
    "side": "conversation",
    "budget": DEFAULT_LAYER_TOKENS,
}
"""Defaults of a hook's layer."""


@dataclass(frozen=True, slots=True)
class ModelContext:
    """The context to send, and its layers.

    Attributes:
        turns: the turns of the window, oldest first.
        summarized_turn_ids: ids of the turns that are summarized in a line.
        notices: descriptions of problems.
        private_room_ids: ids of the private rooms that it names.
        log_preview: how the log was compacted, if that was asked for.
    """

    layers: tuple[Layer, ...]
    notices: tuple[str, ...] = ()
    turns: tuple[Turn, ...] = ()
    summarized_turn_ids: frozenset[str] = frozenset()
    window_size: int = 0
    tools: str = ""  # a digest of the tool descriptions
    tool_tokens: int = 0
    private_room_ids: frozenset[str] = frozenset()
    log_preview: LogPreview | None = None

    @property
    def system(self) -> str:
        """The system side as one text."""
        return join_system_text(self.layers)

    @property
    def messages(self) -> tuple[ContextMessage, ...]:
        """The conversation, oldest message first."""
        return join_conversation(self.layers)

    @property
    def stable_messages(self) -> int:
        """Number of leading messages that change only when the log is cut."""
        last = STABILITIES.index("log")
        return sum(
            len(layer.lines)
            for layer in self.layers
            if layer.side == "conversation" and STABILITIES.index(layer.stability) <= last
        )

    @property
    def tokens(self) -> int:
        """Estimated tokens of all layers, without the tool descriptions."""
        return sum(layer.tokens for layer in self.layers)

    def count_shared_tokens(self, other: ModelContext) -> int:
        """Number of leading tokens shared with another context, tools first.

        A provider that saw the other context has them in its cache.
        """
        if self.tools != other.tools:
            return 0
        if self.system != other.system:
            return self.tool_tokens
        tokens = 0
        for message, other_message in zip(self.messages, other.messages, strict=False):
            if message != other_message:
                break
            tokens += message.tokens
        return self.tool_tokens + estimate_tokens(self.system) + tokens


class ContextComposer:
    """Composes contexts for every model of a world."""

    def __init__(self, host: LuaHost, projects: ProjectPaths) -> None:
        self._host = host
        self._projects = projects
        self._render_cache = RenderCache()
        # By room, the question that its window began with last; see `read_window`.
        self._oldest_questions: LRUCache[str, str] = LRUCache(MAX_REMEMBERED_WINDOWS)
        embedded = resource_dir("embedded")
        self._libraries = [
            LuaScript(file.stem, file.read_text(encoding="utf-8"))
            for file in sorted((embedded / "lib").glob("*.lua"))
        ]
        self._default_script = LuaScript(
            WRAP_SCRIPT_NAME, (embedded / WRAP_SCRIPT_NAME).read_text(encoding="utf-8")
        )
        self._prompts = {
            file.stem: file.read_text(encoding="utf-8").strip()
            for file in (embedded / "prompts").glob("*.md")
        }

    async def compose(
        self,
        caller: Caller,
        question: str,
        asker: str,
        before: int,
        *,
        tools: ToolSummary = NO_TOOLS,
        budget: int = DEFAULT_CONTEXT_TOKENS,
        reader: ContextReader = UNKNOWN_READER,
        preview_tokens: int | None = None,
    ) -> ModelContext:
        """Compose the context of a model that is asked a question in its room.

        Args:
            caller: The model, in its room.
            question: Text of the question.
            asker: Name of the agent who asks.
            before: Only rows with a lower `seq` are used.
            tools: The tools that the request offers.
            budget: Number of tokens that the model accepts in all.
            reader: The model's kind of provider, and its profile.
            preview_tokens: Maximum tokens of the log, whose compaction is previewed too; 0 for all
                that it has room for, None for no preview.

        Raises:
            LuaError: if the script that is shipped with the program fails too.
        """
        room = await _read_known_room(caller)
        load = await caller.world.loadout(room.id, caller.agent.id)
        log_window, state, policies = await self._read_log(caller, room, before)
        snapshot = build_snapshot(caller, room, load, log_window, question, asker, tools.names)
        facts = await self._read_facts(caller, load, tools, reader) | {"state": state}
        notices: list[str] = []
        all_layers = await self._make_layers(
            load, snapshot | facts, notices, make_layer_calls(caller, log_window)
        )
        tool_tokens = estimate_tokens(tools.text)
        transcript = make_transcript(
            caller, log_window, policies, reader.provider_kind, tools, self._render_cache
        )
        free_tokens = budget - count_answer_tokens(budget, reader.output_tokens) - tool_tokens
        all_layers = fit_layers(all_layers, free_tokens - MIN_LOG_TOKENS)
        free_tokens -= sum(layer.tokens for layer in all_layers)
        budgets = _share_log_tokens(free_tokens, reader.result_tokens)
        rows = log_window.rows
        layers, summarized_ids = await fit_log_layers(all_layers, rows, transcript, *budgets)
        return ModelContext(
            sort_layers(layers),
            tuple(notices),
            log_window.turns,
            summarized_ids,
            window_size=log_window.size,
            tools=hashlib.sha256(tools.text.encode("utf-8", "surrogatepass")).hexdigest(),
            tool_tokens=tool_tokens,
            private_room_ids=await _list_private_rooms(caller, room),
            log_preview=await _preview_log(rows, transcript, *budgets, preview_tokens),
        )

    async def _read_facts(
        self, caller: Caller, load: Loadout, tools: ToolSummary, reader: ContextReader
    ) -> dict[str, Any]:
        """Return what a snapshot has besides the room and its log."""
        return {
            "profile": reader.profile,
            "prompts": self._prompts,
            "namespaces": await _read_unloaded(caller, load),
            **await read_memory_facts(caller, self._projects, tools.names),
        }

    async def _read_log(
        self, caller: Caller, room: Room, before: int
    ) -> tuple[Window, str, dict[str, ToolRetention]]:
        """Return a room's window, the model's notes there, and its tools' policies."""
        since = self._oldest_questions.get(room.id, "")

        def read(conn: Connection) -> tuple[Window, str, dict[str, ToolRetention]]:
            log_window = window.read_window(conn, room.id, room.context_size, before, since=since)
            state = notes.read_notes(conn, room.id, caller.agent.name)
            return log_window, state, read_policies(conn, log_window.rows)

        log_window, state, policies = await caller.world.store.read(read)
        if log_window.question_id:
            self._oldest_questions[room.id] = log_window.question_id
        return log_window, state, policies

    async def _make_layers(
        self, load: Loadout, snapshot: Mapping[str, Any], notices: list[str], call: HostCallback
    ) -> list[Layer]:
        """Return the layers of all scripts; an invalid one is omitted and adds a notice."""
        results = await self._run_wrap_script(load, snapshot, notices, call)
        hooks = await self._run_hooks(load, snapshot, notices, call)
        names = [table.get("name") if isinstance(table, dict) else "" for _, table in results]
        request = names.index(REQUEST_LAYER) if REQUEST_LAYER in names else len(names)
        results[request:request] = hooks  # nothing of a hook stands after the request
        layers: list[Layer] = []
        for source, table in results:
            try:
                layers.append(parse_layer(table))
            except InvalidLayer as error:
                notices.append(f"a layer of {source} was omitted: {error}")
        return layers

    async def _run_wrap_script(
        self, load: Loadout, snapshot: Mapping[str, Any], notices: list[str], call: HostCallback
    ) -> list[tuple[str, Any]]:
        """Return the layers that `wrap.lua` returned, each with its name."""
        override = next((i.thing for i in load.data if i.thing.name == WRAP_SCRIPT_NAME), None)
        if override is not None and override.content:
            try:
                scripts = [LuaScript(WRAP_SCRIPT_NAME, override.content), *self._libraries]
                made = await self._host.run(scripts, "wrap", snapshot, call=call)
                return _name_layers(made)
            except (LuaError, TypeError) as error:
                notices.append(
                    f"the wrap.lua equipped here failed, the default one was used: {error}"
                )
        return _name_layers(
            await self._host.run([self._default_script, *self._libraries], "wrap", snapshot)
        )

    async def _run_hooks(
        self, load: Loadout, snapshot: Mapping[str, Any], notices: list[str], call: HostCallback
    ) -> list[tuple[str, Any]]:
        """Return the layers of `hook:wrap` things.

        A failing hook costs its own layer and adds a notice; one that returns nil or no text adds
        none.
        """
        results: list[tuple[str, Any]] = []
        for item in load.data:
            thing = item.thing
            if thing.name == WRAP_SCRIPT_NAME or not is_layer_script(thing.name):
                continue
            if not thing.content:
                continue
            script = LuaScript(thing.name, thing.content)
            try:
                value = await self._host.run(
                    [script, *self._libraries], "layer", snapshot, call=call
                )
            except LuaError as error:
                notices.append(f"{thing.name} failed and was omitted: {error}")
                continue
            if value is None or value == "":
                continue
            if isinstance(value, str):
                value = {"text": value}
            if isinstance(value, dict):
                value = {**_HOOK_LAYER_DEFAULTS, "name": thing.name, **value}
                # Messages would have no head, and could be the model's own: they are one text.
                text = _join_messages(value.pop("messages", None)) or value.get("text")
                if isinstance(text, str):
                    value["text"] = frame_text(f"[{thing.name}] ", text)
            results.append((thing.name, value))
        return results


def _share_log_tokens(free_tokens: int, result_tokens: int) -> tuple[int, int]:
    """Return the tokens of the log, and those more that results to keep may take.

    `result_tokens` are reserved for the results of the turn.
    """
    log_tokens = max(free_tokens - result_tokens, min(MIN_LOG_TOKENS, free_tokens), 0)
    return log_tokens, int(max(0, free_tokens - log_tokens) * KEPT_FRACTION)


async def _preview_log(
    rows: Sequence[Row], transcript: Transcript, budget: int, kept_tokens: int, tokens: int | None
) -> LogPreview | None:
    """Preview a log of at most `tokens`, 0 for its budget; None for no preview."""
    if tokens is None:
        return None
    if tokens:
        return await asyncio.to_thread(preview_log, rows, transcript, min(budget, tokens))
    return await asyncio.to_thread(preview_log, rows, transcript, budget, kept_tokens)


def _join_messages(said: Any) -> str:
    """Return the texts of the messages that a hook returned; "" if it returned none."""
    if not isinstance(said, list):
        return ""
    texts = (one.get("text") for one in said if isinstance(one, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


async def _read_known_room(caller: Caller) -> Room:
    """Return the caller's room, without exits that model or asker may not know of."""
    room = await caller.room()
    return replace(room, exits=await caller.visible_exits(room))


async def _list_private_rooms(caller: Caller, room: Room) -> frozenset[str]:
    """Return the ids of private rooms among those that a room's exits lead to."""
    rooms = await caller.world.rooms_by_id()
    ids = {way.to_id for way in room.exits}
    return frozenset(id for id in ids if id not in rooms or rooms[id].mode == "private")


async def _read_unloaded(caller: Caller, load: Loadout) -> list[dict[str, str]]:
    """Return the namespaces without any tool in a loadout of the caller."""
    world, room_id = caller.world, caller.room_id
    states = await world.states(room_id)
    return await world.memoized(
        ("unloaded", room_id, caller.agent.id),
        lambda conn: unloaded_namespaces(conn, load, states),
    )


def _name_layers(value: Any) -> list[tuple[str, Any]]:
    """Return the layers that a `wrap.lua` returned, each with the name of its script."""
    if not isinstance(value, list):
        raise TypeError("wrap() must return an array of layers")
    return [(WRAP_SCRIPT_NAME, layer) for layer in value]
