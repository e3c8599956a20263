"""Runs the tools of one toolset: an MCP server over standard input and output.

It runs as a file in a sandbox, with a bare interpreter, and imports nothing of the program. The
configuration is in the file that its argument names or, for programs inside cannot see that, in its
first line of input.
Output of tools goes to standard error.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parent), "/d"]

import _pydantic  # noqa: F401 - before pydantic
import sshwarma_toolset as runtime
from pydantic import PydanticUserError
from pydantic_core import to_jsonable_python
from tool_schema import InvalidArguments, ToolFunction, make_context_values

PROTOCOLS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")


class ToolFailed(Exception):
    """A tool that failed; the text is for people and models."""


class Worker:
    """The tools of a toolset, imported when they are needed."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Serve the tools of a configuration."""
        self.config = config
        self.tools = {tool["id"]: tool for tool in config["tools"]}
        self.steps: list[tuple[str, int]] = []

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Return the response to a request; None for a notification."""
        number, method = message.get("id"), message.get("method")
        params = message.get("params") or {}
        if number is None:
            return None
        response = {"jsonrpc": "2.0", "id": number}
        if method == "initialize":
            return response | {"result": self._describe_server(params.get("protocolVersion"))}
        if method == "ping":
            return response | {"result": {}}
        if method == "tools/call":
            return response | {"result": self._answer_call(params)}
        if method == "plugins/describe":
            return response | {"result": self._describe_plugin(params)}
        if method == "tools/list":
            try:
                return response | {"result": self._list_tools()}
            except ToolFailed as error:
                return response | {"error": {"code": -32000, "message": str(error)}}
        return response | {"error": {"code": -32601, "message": f"unknown method {method}"}}

    def _describe_server(self, protocol: object) -> dict[str, Any]:
        return {
            "protocolVersion": protocol if protocol in PROTOCOLS else PROTOCOLS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self.config["toolset_id"], "version": self.config["version"]},
        }

    def _describe_plugin(self, params: dict[str, Any]) -> dict[str, Any]:
        from plugin_loader import describe_plugin

        return describe_plugin(Path(self.config["toolset"]), str(params.get("folder")))

    def _list_tools(self) -> dict[str, Any]:
        from mistakes import find_mistakes, find_unlisted  # calls need it not

        listed: list[dict[str, Any]] = []
        warnings: list[str] = []
        functions = set()
        top = Path(self.config["toolset"])
        for tool in self.tools.values():
            try:
                found = self._load(tool, is_described=True)
            except ToolFailed as error:
                raise ToolFailed(f"{tool['id']}: {error}") from error
            functions.add(found.function)
            warnings += find_mistakes(found.function, tool.get("input_schema"), top)
            metadata = vars(found.function).get(runtime.TOOL_ATTRIBUTE) or runtime.ToolMetadata()
            described = metadata.description or found.description
            confirms = tool.get("requires_confirmation", metadata.requires_confirmation)
            title = tool.get("title") or metadata.name
            listed.append(
                {
                    "name": tool["id"],
                    **({"title": title} if title else {}),
                    "description": tool.get("description", described),
                    "inputSchema": found.schema,
                    **({} if confirms is None else {"_meta": {"requires_confirmation": confirms}}),
                }
            )
        warnings += find_unlisted(functions, top)
        return {"tools": listed, "_meta": {"warnings": warnings}}

    def _answer_call(self, params: dict[str, Any]) -> dict[str, Any]:
        self.steps = []
        meta: dict[str, Any] = {"steps": self.steps}
        try:
            if params.get("session"):
                value = self._call_plugin(params, meta)
            else:
                value = self._call(params.get("name"), params.get("arguments") or {})
        except ToolFailed as error:
            content = [{"type": "text", "text": str(error)}]
            return {"content": content, "isError": True, "_meta": meta}
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return {
            "content": [{"type": "text", "text": text}],
            "structuredContent": value if isinstance(value, dict) else {"result": value},
            "isError": False,
            "_meta": meta | {"value": value},
        }

    def _call(self, name: object, arguments: dict[str, Any]) -> Any:
        tool = self.tools.get(name)
        if tool is None:
            raise ToolFailed(f"there is no tool {name}")
        found = self._load(tool, is_described=False)
        self._record("imported")
        workspace = Path(self.config["workspace"])
        context = runtime.ToolContext(workspace, self.config["chat_id"], self.config["toolset_id"])
        given = make_context_values(workspace, context.chat_id, context.toolset_id, context)
        try:
            bound = found.bind(arguments, given)
        except InvalidArguments as error:
            raise ToolFailed(f"Invalid arguments:\n{error}") from error
        runtime.set_context(context)
        self._record("context set")
        try:
            self._record("called")
            value = found.function(**bound)
            if inspect.isawaitable(value):
                value = _wait_for(value)
        except BaseException as error:
            raise ToolFailed(self._describe_error(error)) from error
        finally:
            sys.stdout.flush()
            self._record("returned")
            runtime.clear_context()
            self._record("context cleared")
        return _make_json(value)

    def _call_plugin(self, params: dict[str, Any], meta: dict[str, Any]) -> Any:
        """Call a tool of a plugin; note in `meta` its changes of the session memory."""
        import plugin_loader

        top, session = Path(self.config["toolset"]), params["session"]
        before = session["memory"]
        data = {
            "memory": plugin_loader.SessionMemory(before),
            "__pinned_project__": session["pinned_project"],
        }
        where = {"workspace": self.config["workspace"], "room": self.config["chat_id"]}
        self._record("context set")
        try:
            self._record("called")
            value = plugin_loader.call_plugin(
                self.tools[params["name"]], top, params.get("arguments") or {}, data, where
            )
            if inspect.isawaitable(value):
                value = _wait_for(value)
        except plugin_loader.PluginBreach as breach:
            raise ToolFailed(f"{breach.path}: {breach.reason}") from breach
        except BaseException as error:
            text = plugin_loader.describe_last_line(error)
            if session["show_tracebacks"]:
                text = plugin_loader.describe_traceback(error, top)
            raise ToolFailed(text) from error
        finally:
            sys.stdout.flush()
            self._record("returned")
            try:
                meta["memory"] = plugin_loader.list_changes(before, data)
            except TypeError as error:
                meta["memory"] = {"problem": str(error)}
        return _make_json(value)

    def _load(self, tool: dict[str, Any], *, is_described: bool) -> ToolFunction:
        top = Path(self.config["toolset"]).resolve()
        try:
            module = importlib.import_module(tool["module"])
        except BaseException as error:
            reason = self._describe_error(error)
            raise ToolFailed(f"{tool['path']} cannot be imported: {reason}") from error
        if not Path(getattr(module, "__file__", None) or "/").resolve().is_relative_to(top):
            raise ToolFailed(f"{tool['module']} is not a module of this toolset")
        function = vars(module).get(tool["function"])
        if not callable(function):
            raise ToolFailed(f"{tool['path']} has no function {tool['function']}")
        if is_described and not inspect.isroutine(function):
            kind = "a class" if inspect.isclass(function) else f"a {type(function).__name__}"
            where = f"{tool['path']}: {tool['function']}"
            raise ToolFailed(f"{where} is {kind}, and an entrypoint is a function")
        try:
            return ToolFunction(function, tool.get("input_schema"), is_described=is_described)
        except Exception as error:
            from mistakes import find_place, find_unusable_parameter

            reason = self._describe_error(error)
            if isinstance(error, PydanticUserError):
                reason = find_unusable_parameter(function) or reason
            place = find_place(function, top) or tool["path"]
            text = f"{place}: the parameters of {tool['function']} cannot be described: {reason}"
            raise ToolFailed(text) from error

    def _describe_error(self, error: BaseException) -> str:
        """Return an error with the last place of it that is in the toolset."""
        top = Path(self.config["toolset"]).resolve()
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            path = Path(frame.filename)
            if path.is_relative_to(top):
                return f"{text} ({path.relative_to(top)}, line {frame.lineno})"
        return text

    def _record(self, step: str) -> None:
        self.steps.append((step, round(time.time() * 1000)))


def _make_json(value: Any) -> Any:
    """Return the result of a tool as JSON has it.

    Raises:
        ToolFailed: if it is no JSON.
    """
    try:
        value = to_jsonable_python(value)
        json.dumps(value, allow_nan=False)
    except Exception as error:
        raise ToolFailed(f"its result is no JSON: {error}") from error
    return value


def _wait_for(awaitable: Any) -> Any:
    import asyncio  # takes a quarter of the start of a worker, and few tools need it

    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())


def _warm_up() -> None:
    """Do once what a first call would wait for: pydantic imports a part of itself late."""

    def example(number: int = 1, where: Path | None = None) -> None: ...

    ToolFunction(example, None, is_described=False).bind({"number": 2}, {})


def main() -> None:
    """Answer requests until the input ends."""
    _warm_up()
    # What tools print goes to standard error; what they read is empty.
    source = os.fdopen(os.dup(0), "rb")
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with Path(os.devnull).open("rb") as empty:
        os.dup2(empty.fileno(), 0)
    config = json.loads(Path(sys.argv[1]).read_text() if sys.argv[1:] else source.readline())
    # Only now: a worker that waits for its call has run nothing foreign, and nobody watches it.
    # Packages that the toolset requires come last, so that they replace nothing of ours.
    sys.path.insert(0, config["toolset"])
    sys.path.append("/p")
    worker = Worker(config)
    for line in source:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        answer = worker.answer(message) if isinstance(message, dict) else None
        if answer is not None:
            target.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            target.flush()


if __name__ == "__main__":
    main()
