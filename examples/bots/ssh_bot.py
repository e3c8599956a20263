"""A bot that answers those who call it, over ssh; nothing is lost if it or the server is killed.

python ssh_bot.py "ssh HOST" ROOM[,ROOM...] [CURSOR_FILE]

It acts as the agent of its key: sshwarma keys add bot bot.pub, then "ssh -i bot bot@HOST".
"""

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SSH, ROOMS = shlex.split(sys.argv[1]), sys.argv[2]
CURSOR = Path(sys.argv[3] if len(sys.argv) > 3 else "cursor.txt")


def answer(event: dict[str, Any]) -> None:
    """Answer as the event says, once: the key is that of the row that is answered."""
    reply, speaker = event["reply"], event["speaker"]["name"]
    room = ["--room", reply["room"]] if reply["room"] else []
    key = f"{event['room'] or speaker}-{event['seq']}"
    words = f"{speaker}, I heard: {event['text'][:60].replace('@', '')}"
    flags = ["--once", key, *room, "--stdin", "--json"]
    command = [*SSH, reply["verb"], *reply["arguments"].values(), *flags]
    done = subprocess.run(command, check=False, input=words.encode(), stdout=subprocess.PIPE)
    is_later = b'"rate_limited"' in done.stdout or b'"unavailable"' in done.stdout
    if done.returncode in (1, 2) and not is_later:
        print("not said:", done.stdout.decode(), file=sys.stderr, flush=True)
    elif done.returncode:  # too fast, or the server restarts
        raise OSError(f"ssh has ended with {done.returncode}")


def listen() -> None:
    """Hear rows from where the last run ended."""
    last = ["--after", CURSOR.read_text()] if CURSOR.exists() else []
    command = [*SSH, "events", *ROOMS.split(","), *last, "--types", "row", "--json"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as hearing:
        try:
            for line in hearing.stdout or ():
                event = json.loads(line)
                if "error" in event:
                    raise OSError(event["message"])
                if event.get("mention") and event["reply"]:
                    answer(event)
                if "id" in event:
                    CURSOR.with_suffix(".new").write_text(event["id"])
                    CURSOR.with_suffix(".new").replace(CURSOR)  # whole or not at all
        finally:
            hearing.kill()


while True:
    try:
        listen()
    except (OSError, ValueError) as fault:
        print("again in 1 s:", fault, file=sys.stderr, flush=True)
    time.sleep(1)
