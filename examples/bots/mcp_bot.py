"""A bot that answers those who call it, over MCP; nothing is lost if it or the server is killed.

WORLD=http://127.0.0.1:2280 TOKEN=swt_... python mcp_bot.py ROOM[,ROOM...] [CURSOR_FILE]

It needs the package mcp. A token comes from: ssh bot@HOST token new mcp --scope act
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

CURSOR = Path(sys.argv[2] if len(sys.argv) > 2 else "cursor.txt")


async def call(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise RuntimeError(getattr(result.content[0], "text", "refused"))
    return result.structured_content or {}


async def answer(client: Client, event: dict[str, Any]) -> None:
    reply, speaker = event["reply"], event["speaker"]["name"]
    given = {"text": f"{speaker}, I heard: {event['text'][:60].replace('@', '')}"}
    given |= reply["arguments"] | ({"room": reply["room"]} if "room" in reply else {})
    once = f"{event.get('room', speaker)} {event['seq']}"  # each row is answered once
    for _ in range(5):
        try:
            await call(client, reply["verb"], **given, once=once)
            return
        except RuntimeError as refused:  # too fast, or for good
            print("not said:", refused, file=sys.stderr, flush=True)
            await asyncio.sleep(3)


async def listen() -> None:
    head = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    http = httpx2.AsyncClient(headers=head, timeout=90)
    world = streamable_http_client(f"{os.environ['WORLD']}/mcp", http_client=http)
    given: dict[str, Any] = {"rooms": sys.argv[1].split(","), "timeout": 50}
    async with http, Client(world) as client:
        while True:
            given |= {"cursor": CURSOR.read_text()} if CURSOR.exists() else {}
            heard = await call(client, "wait_events", **given)
            for event in heard["events"]:
                if event.get("mention") and "reply" in event:
                    await answer(client, event)
            CURSOR.with_suffix(".new").write_text(heard["cursor"])
            CURSOR.with_suffix(".new").replace(CURSOR)  # whole or not at all


async def main() -> None:
    while True:
        try:
            await listen()
        except Exception as fault:  # noqa: BLE001 - the server restarts, or refuses
            print("again in 1 s:", fault, file=sys.stderr, flush=True)
        await asyncio.sleep(1)


asyncio.run(main())
