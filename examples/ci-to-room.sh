#!/usr/bin/env bash
# Report the result of a build to a room; a failure goes into the room's journal, which models see.
#   ci-to-room.sh HOST ROOM COMMAND...
set -u
host=$1 room=$2
shift 2
if output=$("$@" 2>&1); then
    ssh "$host" say --room "$room" "$* passed" < /dev/null
else
    printf '%s failed:\n%s\n' "$*" "$(tail -n 30 <<< "$output")" | ssh "$host" note --room "$room"
    exit 1
fi
