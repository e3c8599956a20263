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

WORLD, TOKEN, ROOMS = os.environ["WORLD"], os.environ["TOKEN"], sys.argv[1].split(",")
CURSOR = Path(sys.argv[2] if len(sys.argv) > 2 else "cursor.txt")


async def call(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool; a refusal is an error."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise RuntimeError(getattr(result.content[0], "text", "refused"))
    return result.structured_content or {}


async def answer(client: Client, event: dict[str, Any]) -> None:
    """Answer as the event says, once: the key is that of the row that is answered."""
    reply, speaker = event["reply"], event["speaker"]["name"]
    room = {"room": reply["room"]} if "room" in reply else {}
    words = f"{speaker}, I heard: {event['text'][:60].replace('@', '')}"
    key = f"{event.get('room', speaker)} {event['seq']}"
    for _ in range(5):
        try:
            await call(client, reply["verb"], **reply["arguments"], **room, text=words, once=key)
            return
        except RuntimeError as refused:  # too fast, or for good
            print("not said:", refused, file=sys.stderr, flush=True)
            await asyncio.sleep(3)


async def listen() -> None:
    """Hear events from where the last run ended."""
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=90)
    async with http, Client(streamable_http_client(f"{WORLD}/mcp", http_client=http)) as client:
        while True:
            last = {"cursor": CURSOR.read_text()} if CURSOR.exists() else {}
            heard = await call(client, "wait_events", rooms=ROOMS, timeout=50, **last)
            for event in heard["events"]:
                if event.get("mention") and "reply" in event:
                    await answer(client, event)
            CURSOR.with_suffix(".new").write_text(heard["cursor"])
            CURSOR.with_suffix(".new").replace(CURSOR)  # whole or not at all


async def main() -> None:
    """Begin again whenever the connection ends."""
    while True:
        try:
            await listen()
        except Exception as fault:  # noqa: BLE001 - the server restarts, or refuses
            while isinstance(fault, BaseExceptionGroup):
                fault = fault.exceptions[0]
            print("again in 1 s:", fault, file=sys.stderr, flush=True)
        await asyncio.sleep(1)


asyncio.run(main())
