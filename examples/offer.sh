#!/bin/sh
# Offer your own MCP server to a room while this runs:
#
#   examples/offer.sh NAME HOST [--room ROOM] -- COMMAND ARGUMENTS...
#   examples/offer.sh files example.org --room workshop -- npx -y @modelcontextprotocol/server-filesystem ~/notes
#
# HOST is an ssh destination; put options of ssh into SSH: SSH="ssh -p 2222" examples/offer.sh ...
# A pipe has one direction only, so a named pipe is used for the other.
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
