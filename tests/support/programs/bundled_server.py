"""A small MCP server without libraries, as a toolset may bring one.

Its tools say what it sees: `env NAME`, `reach HOST PORT`, `read PATH`.
"""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

TOOLS = {"env": ["name"], "reach": ["port"], "read": ["path"]}


def call(name: str, arguments: dict[str, str]) -> str:
    """Carry out a tool."""
    if name == "env":
        return os.environ.get(arguments["name"], "not set")
    if name == "read":
        try:
            return Path(arguments["path"]).read_text()
        except OSError as error:
            return str(error.strerror)
    try:
        socket.create_connection(("127.0.0.1", int(arguments["port"])), 2).close()
    except OSError as error:
        return f"no: {error.strerror}"
    return "reached"


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request."""
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bundled", "version": "1"},
            }
        case "ping":
            return {}
        case "tools/list":
            return {
                "tools": [
                    {
                        "name": name,
                        "description": f"Tool {name}.",
                        "inputSchema": {
                            "type": "object",
                            "required": fields,
                            "properties": {field: {"type": "string"} for field in fields},
                        },
                    }
                    for name, fields in TOOLS.items()
                ]
            }
        case "tools/call":
            text = call(params["name"], params.get("arguments", {}))
            return {"content": [{"type": "text", "text": text}]}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request)
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        reply |= (
            {"result": result}
            if result is not None
            else {"error": {"code": -32601, "message": "no such method"}}
        )
        sys.stdout.write(f"{json.dumps(reply)}\n")
        sys.stdout.flush()
