#!/bin/sh
# Bring an MCP server of your own into a room, for as long as this runs:
#
#   examples/offer.sh NAME HOST [--room ROOM] -- COMMAND ARGUMENTS...
#   examples/offer.sh files example.org --room workshop -- npx -y @modelcontextprotocol/server-filesystem ~/notes
#
# HOST is whatever ssh takes, with its options in SSH: SSH="ssh -p 2222" examples/offer.sh ...
# A pipe goes one way only, so the way back is a named one.
set -eu

name=$1 host=$2
shift 2
room=
if [ "$1" = --room ]; then
    room="--room $2"
    shift 2
fi
[ "$1" = -- ] && shift

back=$(mktemp -u)
mkfifo -m 600 "$back"
trap 'rm -f "$back"' EXIT INT TERM
"$@" <"$back" | ${SSH:-ssh} -T "$host" offer "$name" $room >"$back"
