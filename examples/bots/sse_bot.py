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
    headers |= {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    return urlopen(Request(f"{WORLD}/api/v1/{path}", body, headers), timeout=60)


def answer(event: dict[str, Any]) -> None:
    reply, speaker = event["reply"], event["speaker"]["name"]
    text = f"{speaker}, I heard: {event['text'][:60].replace('@', '')}"
    room = f"?{urlencode({'room': reply['room']})}" if reply["room"] else ""
    key = f"{event['room'] or speaker} {event['seq']}"  # each row is answered once
    try:
        body = json.dumps(reply["arguments"] | {"text": text}).encode()
        ask(f"verbs/{reply['verb']}{room}", body, **{"Idempotency-Key": key}).close()
    except HTTPError as refused:
        if refused.status in (429, 503):  # too fast, or busy: it is accepted later
            raise
        if refused.status != 409:  # else an earlier run has said it
            print("not said:", refused.read().decode(), file=sys.stderr, flush=True)


while True:
    after = CURSOR.read_text() if CURSOR.exists() else ""
    try:
        query = {"rooms": ROOMS, "after": after, "types": "row"}
        with ask(f"events?{urlencode(query)}") as stream:
            for line in stream:
                event = json.loads(line[6:]) if line.startswith(b"data: ") else {}
                if event.get("mention") and event["reply"]:
                    answer(event)
                if "id" in event:
                    CURSOR.with_suffix(".new").write_text(event["id"])
                    CURSOR.with_suffix(".new").replace(CURSOR)  # whole or not at all
    except OSError as fault:  # the server restarts, or refuses
        reason = fault.read().decode() if isinstance(fault, HTTPError) else str(fault)
        print("again in 1 s:", reason, file=sys.stderr, flush=True)
    time.sleep(1)
