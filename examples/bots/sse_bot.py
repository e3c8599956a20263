"""A bot that answers those who call it; nothing is lost if it or the server is killed.

WORLD=http://127.0.0.1:2280 TOKEN=swt_... python sse_bot.py ROOM[,ROOM...] [CURSOR_FILE]

A token comes from: ssh bot@HOST token new web --scope act
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

WORLD, TOKEN, ROOMS = os.environ["WORLD"], os.environ["TOKEN"], sys.argv[1]
CURSOR = Path(sys.argv[2] if len(sys.argv) > 2 else "cursor.txt")


def ask(path: str, body: bytes | None = None, **headers: str) -> Any:
    """Send a GET, or with a body a POST."""
    head = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **headers}
    return urlopen(Request(f"{WORLD}/api/v1/{path}", body, head), timeout=60)


def answer(event: dict[str, Any]) -> None:
    """Answer as the event says, once: the key is that of the row that is answered."""
    reply, speaker = event["reply"], event["speaker"]["name"]
    words = {"text": f"{speaker}, I heard: {event['text'][:60].replace('@', '')}"}
    room = f"?{urlencode({'room': reply['room']})}" if reply["room"] else ""
    key = f"{event['room'] or speaker} {event['seq']}"
    try:
        body = json.dumps(reply["arguments"] | words).encode()
        ask(f"verbs/{reply['verb']}{room}", body, **{"Idempotency-Key": key}).close()
    except HTTPError as refused:
        if refused.status in (429, 503):  # too fast, or busy: it is accepted later
            raise
        print("not said:", refused.read().decode(), file=sys.stderr, flush=True)


def listen() -> None:
    """Hear rows from where the last run ended."""
    last = CURSOR.read_text() if CURSOR.exists() else ""
    with ask(f"events?{urlencode({'rooms': ROOMS, 'after': last, 'types': 'row'})}") as stream:
        for line in stream:
            event = json.loads(line[6:]) if line.startswith(b"data: ") else {}
            if event.get("mention") and event["reply"]:
                answer(event)
            if "id" in event:
                CURSOR.with_suffix(".new").write_text(event["id"])
                CURSOR.with_suffix(".new").replace(CURSOR)  # whole or not at all


while True:
    try:
        listen()
    except OSError as fault:  # the server restarts, or refuses
        text = fault.read().decode() if isinstance(fault, HTTPError) else str(fault)
        print("again in 1 s:", text, file=sys.stderr, flush=True)
    time.sleep(1)
