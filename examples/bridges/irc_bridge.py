"""A bridge between a room and a channel of IRC: each sees who speaks in the other.

WORLD=http://127.0.0.1:2280 TOKEN=swt_... python irc_bridge.py ROOM HOST:PORT '#channel' [CURSOR]

It speaks as an agent of its own: sshwarma keys add irc irc.pub, then
sshwarma token new irc --label bridge --scope act
In the room, alice of IRC is alice@irc. On IRC, the bridge says <ann> before what ann says.
"""

import json
import os
import socket
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen
from uuid import uuid4

WORLD, TOKEN = os.environ["WORLD"], os.environ["TOKEN"]
ROOM, IRC, CHANNEL = sys.argv[1:4]
CURSOR = Path(sys.argv[4] if len(sys.argv) > 4 else "irc-cursor.txt")
NICK = "world"
MAX_LINE_CHARACTERS = 100  # each has up to 4 bytes, and IRC takes 512 with what goes before


def ask(path: str, body: bytes | None = None, key: str = "") -> Any:
    """Send a GET, or with a body a POST, which with a key is done once."""
    head = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    head |= {"Idempotency-Key": key} if key else {}
    return urlopen(Request(f"{WORLD}/api/v1/{path}", body, head), timeout=60)


def to_room(nick: str, text: str) -> None:
    """Say in the room what somebody says on IRC, once: the key is that of this line."""
    body = json.dumps({"speaker": nick, "text": text}).encode()
    key = uuid4().hex
    while True:
        try:
            ask(f"verbs/relay?{urlencode({'room': ROOM})}", body, key).close()
            return
        except HTTPError as refused:
            print(refused.read().decode(), file=sys.stderr, flush=True)
            if refused.status not in (429, 503):  # too fast, or busy
                return
            time.sleep(float(refused.headers.get("Retry-After", 1)))
        except OSError:  # the server restarts
            time.sleep(1)


def from_irc(irc: socket.socket) -> None:
    """Read IRC until the connection ends."""
    for raw in irc.makefile("rb"):
        line = raw.decode(errors="replace").rstrip("\r\n")
        source, _, rest = line.removeprefix(":").partition(" ")
        if source == "PING":
            irc.sendall(f"PONG {rest}\r\n".encode())
        command, _, parameters = rest.partition(" ")
        target, _, text = parameters.partition(" :")
        if command == "PRIVMSG" and target.lower() == CHANNEL.lower() and text:
            to_room(source.partition("!")[0], text)


def to_irc(irc: socket.socket, event: dict[str, Any]) -> None:
    """Say on IRC what somebody says in the room."""
    for line in event["text"].splitlines():
        said = f"<{event['speaker']['name']}> {line}"
        for part in textwrap.wrap(said, MAX_LINE_CHARACTERS, replace_whitespace=False):
            irc.sendall(f"PRIVMSG {CHANNEL} :{part}\r\n".encode())


def listen(irc: socket.socket, reader: threading.Thread) -> None:
    """Hear the room from where the last run ended; the bridge does not hear itself."""
    last = CURSOR.read_text() if CURSOR.exists() else ""
    with ask(f"events?{urlencode({'rooms': ROOM, 'after': last, 'types': 'row'})}") as stream:
        for line in stream:  # at least each 15 s
            if not reader.is_alive():
                raise OSError("IRC has gone")
            event = json.loads(line[6:]) if line.startswith(b"data: ") else {}
            if event.get("kind") in ("chat", "emote"):
                to_irc(irc, event)
            if "id" in event:
                CURSOR.with_suffix(".new").write_text(event["id"])
                CURSOR.with_suffix(".new").replace(CURSOR)  # whole or not at all


host, _, port = IRC.rpartition(":")
while True:
    try:
        with socket.create_connection((host, int(port)), timeout=600) as irc:
            irc.sendall(f"NICK {NICK}\r\nUSER {NICK} 0 * :bridge\r\nJOIN {CHANNEL}\r\n".encode())
            reader = threading.Thread(target=from_irc, args=(irc,), daemon=True)
            reader.start()
            while reader.is_alive():
                try:
                    listen(irc, reader)
                except HTTPError as refused:
                    print(refused.read().decode(), file=sys.stderr, flush=True)
                except OSError as fault:  # the server restarts, or IRC has gone
                    print("again in 1 s:", fault, file=sys.stderr, flush=True)
                time.sleep(1)
    except OSError as fault:
        print("no IRC, again in 1 s:", fault, file=sys.stderr, flush=True)
    time.sleep(1)
