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

SSH = shlex.split(sys.argv[1])
CURSOR = Path(sys.argv[3] if len(sys.argv) > 3 else "cursor.txt")


def answer(event: dict[str, Any]) -> None:
    reply, speaker = event["reply"], event["speaker"]["name"]
    room = ["--room", reply["room"]] if reply["room"] else []
    key = f"{event['room'] or speaker}-{event['seq']}"  # each row is answered once
    text = f"{speaker}, I heard: {event['text'][:60].replace('@', '')}"
    flags = ["--once", key, *room, "--stdin", "--json"]
    command = [*SSH, reply["verb"], *reply["arguments"].values(), *flags]
    done = subprocess.run(command, check=False, input=text.encode(), stdout=subprocess.PIPE)
    is_later = any(word in done.stdout for word in (b'"rate_limited"', b'"unavailable"'))
    if done.returncode in (1, 2) and not is_later:
        print("not said:", done.stdout.decode(), file=sys.stderr, flush=True)
    elif done.returncode:  # too fast, or the server restarts
        raise OSError(f"ssh has ended with {done.returncode}")


while True:
    last = ["--after", CURSOR.read_text()] if CURSOR.exists() else []
    command = [*SSH, "events", *sys.argv[2].split(","), *last, "--types", "row", "--json"]
    hearing = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
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
    except (OSError, ValueError) as fault:
        print("again in 1 s:", fault, file=sys.stderr, flush=True)
    hearing.kill()
    hearing.wait()
    time.sleep(1)
