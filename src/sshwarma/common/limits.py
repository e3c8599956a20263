"""Limits that a person or a program can meet, each with its unit and reason.

Longer than 400 lines, because it is one table: every limit is found in one file.

The unit is in the name; `docs/limits.md` is made from here by `make docs`. The defaults and bounds
of settings are here too. Limits of ssh connections that are no settings are in
`ssh.transport.admission`, which the page lists as well. Help texts name a limit in braces, see
`common.limit_text`. A module's own constants (cache sizes, intervals of drawing) stay in their
modules.
"""

from __future__ import annotations

from typing import Final

from sshwarma.common.units import DAY_SECONDS, HOUR_SECONDS, KIB, MIB

# Typing

MAX_DRAFT_BYTES: Final = 64 * KIB
"""Bytes of a line being edited: more than may be submitted, to shorten a long paste."""

DEFAULT_LINE_BYTES: Final = 16 * KIB
"""Bytes of a submitted line, unless `limits.line_bytes` says otherwise: a long letter. Each line is
stored, and shown to everyone in the room."""

MAX_PASTE_CHARACTERS: Final = 65_536
"""Characters of one paste; its beginning is kept. As long as a draft may be, because a paste is
held in memory until it ends."""

MAX_UNDO_STEPS: Final = 64
"""Steps of one draft that can be undone: each holds the whole text."""

MAX_UNDO_CHARACTERS: Final = 4 * MAX_DRAFT_BYTES
"""Characters of all steps that can be undone: four long drafts. Beyond, the oldest steps are
dropped."""

MIN_LINE_BYTES: Final = 256
"""Bytes that `limits.line_bytes` must allow: a shorter line has no room for a sentence."""

MAX_LINE_BYTES: Final = MIB
"""Bytes that `limits.line_bytes` may allow: each line is stored, and shown to everyone in the
room."""

MAX_MENTION_SCAN_CHARACTERS: Final = 16_384
"""Characters of a message, from its beginning, in which `@name` calls somebody: a typed line. It
bounds the work on a long text of a program."""

MIN_MENTION_PREFIX_CHARACTERS: Final = 3
"""Characters of `@name` that call a model by the start of its name: shorter ones, such as `@al`,
would call a model by accident."""

PIPE_WAIT_SECONDS: Final = 0.3
"""Seconds that a command over ssh with optional text waits for piped input to begin. Where stdin is
open and empty, as in many scripts, that delays the command."""

MAX_SEARCH_WORDS: Final = 64
"""Words of one search: each more costs time in every row that has the others."""

SEARCH_TIMEOUT_SECONDS: Final = 2.0
"""Seconds that one search may take: searches share their threads with all other reads."""

MAX_RUNNING_SEARCHES: Final = 1
"""Searches that run at the same time: the others wait, and leave threads to all other reads."""

MAX_WAITING_SEARCHES: Final = 20
"""Searches that wait; the next is refused. They run one after the other, so that the last of a
longer queue would seem to hang."""

MAX_KEYS_PER_SECOND: Final = 10_000
"""Keys a second, beyond the burst: far above any keyboard. A paste is one key."""

MAX_KEYS_BURST: Final = 4_000
"""Keys taken at once; the rest of the packet is dropped. Each key is worked on while everyone
waits."""

MIN_TERMINAL_COLUMNS: Final = 20
"""Columns: a narrower terminal is drawn as if it had these. Less has no room for a name and a
word."""

MAX_TERMINAL_COLUMNS: Final = 500
"""Columns: a wider terminal is drawn as if it had these. It bounds the work of a frame."""

MIN_TERMINAL_ROWS: Final = 5
"""Rows: a shorter terminal is drawn as if it had these. Less has no room for a log above the
input."""

MAX_TERMINAL_ROWS: Final = 200
"""Rows: a taller terminal is drawn as if it had these. It bounds the work of a frame."""

MAX_QUEUED_BLOCKS: Final = 500
"""Blocks that wait for a slow reader; the oldest are dropped and their lines counted. It bounds the
memory of a terminal that does not read."""

MAX_MARKDOWN_LEVELS: Final = 24
"""Levels of lists and quotes; deeper text is shown as it was written. Each level indents, so that
no columns would be left."""

MAX_TABLE_CELLS: Final = 1_000
"""Cells of one table; a larger one is shown as it was written. The width of every cell is measured
for each terminal."""

MAX_HIGHLIGHTED_CHARACTERS: Final = 4_000
"""Characters of one piece of code; longer code has one style. Highlighting is the slowest part."""

RATE_WINDOW_SECONDS: Final = 10.0
"""Seconds over which lines and requests are counted, see `limits.lines_per_10_seconds`: long enough
for a few quick lines, short enough to wait for."""

DEFAULT_LINES_PER_WINDOW: Final = 40
"""Lines of one agent in RATE_WINDOW_SECONDS, unless `limits.lines_per_10_seconds` says otherwise.
People type fewer; a script that floods a room is stopped."""

DEFAULT_REQUESTS_PER_WINDOW: Final = 400
"""MCP requests of one agent in RATE_WINDOW_SECONDS, unless `limits.requests_per_10_seconds` says
otherwise. As many as reads: programs list and read before they act."""

MAX_REQUEST_WAIT_SECONDS: Final = 12.0
"""Seconds that an MCP request over HTTP is held back because of its agent's rate, before it is
refused: a little more than RATE_WINDOW_SECONDS, after which there is room again. Clients treat a
refusal as an error."""

MAX_READS_PER_WINDOW: Final = 400
"""Commands at once that only show something. Each ten seconds permit as many again, and more wait:
scripts may read much faster than they write."""

MAX_SCRIPT_CHANGES_PER_WINDOW: Final = 64
"""Changes by verbs that scripts of one person call in RATE_WINDOW_SECONDS, in all runs together: as
many as one run may lead to. Each run is one line, and could make as many rooms or texts again."""

MAX_TYPED_AHEAD_LINES: Final = 50
"""Lines typed ahead of a running command; the next is refused. They are held in memory until it
ends."""

MAX_PIPED_AHEAD_LINES: Final = 200
"""Lines read ahead of a running command where there is no terminal; then the client waits. It
bounds the memory of a long pipe."""

MAX_ALIASES: Final = 100
"""Aliases of one agent: all are in one row of the database, which each change writes again."""

MAX_ALIAS_CHARACTERS: Final = 32
"""Characters of the name of an alias: it is typed and listed as a verb is."""

MAX_ALIAS_MEANING_CHARACTERS: Final = 1_000
"""Characters of the line that an alias stands for: all aliases of an agent are in one row."""

MAX_REPEATED_FLAGS: Final = 32
"""Values of a flag that may be repeated, such as `--env`: it bounds what one line stores."""

MAX_INPUT_HISTORY_LINES: Final = 300
"""Lines of input history kept for each agent. All are read at login."""

# Logging in

MAX_KEEPALIVE_MISSES: Final = 3
"""Keepalives in a row that a link over ssh may miss; then it is dropped. One or two are lost on a
bad link that still works."""

DEFAULT_LOGIN_SECONDS: Final = 20
"""Seconds from connection to login, unless `ssh.login_seconds` says otherwise: enough for a
passphrase, and it frees the slots of silent connections."""

MAX_LOGIN_SECONDS: Final = 600
"""Seconds that `ssh.login_seconds` may be: with more, silent connections would keep their slots."""

DEFAULT_KEEPALIVE_SECONDS: Final = 15
"""Seconds between keepalives, unless `ssh.keepalive_seconds` says otherwise. A dead link leaves the
room after MAX_KEEPALIVE_MISSES of them."""

MAX_KEEPALIVE_SECONDS: Final = 600
"""Seconds that `ssh.keepalive_seconds` may be: with more, people whose link is dead would seem
present."""

DEFAULT_SSH_CONNECTIONS: Final = 2_000
"""Connections over ssh, unless `ssh.max_connections` says otherwise: each takes a file descriptor
and memory."""

DEFAULT_SSH_CONNECTIONS_PER_ADDRESS: Final = 200
"""Connections over ssh from one address, unless `ssh.max_connections_per_address` says otherwise.
Many people can share an address; none may take all connections."""

DEFAULT_SSH_CONNECTIONS_PER_KEY: Final = 20
"""Connections of one key, unless `ssh.max_connections_per_key` says otherwise: several terminals
and scripts, but not all connections."""

DEFAULT_PENDING_LOGINS: Final = 100
"""Connections that are logging in, unless `ssh.max_pending` says otherwise. Each costs CPU before
anyone is known, as with MaxStartups of OpenSSH."""

DEFAULT_PENDING_LOGINS_PER_ADDRESS: Final = 50
"""Connections from one address that are logging in, unless `ssh.max_pending_per_address` says
otherwise: half of all, so that one address cannot take every slot."""

DEFAULT_FREE_FAILED_LOGINS: Final = 10
"""Failed logins of one address without a wait, unless `ssh.free_failed_logins` says otherwise: more
than a person with the wrong keys makes, and far too few to guess anything."""

REGISTRATION_TIMEOUT_SECONDS: Final = 120.0
"""Seconds a newcomer has to answer: they hold a connection without an account."""

REGISTRATION_WINDOW_SECONDS: Final = HOUR_SECONDS
"""Seconds over which new agents of one address are counted, see
`registration.per_hour_per_address`. An hour is long for a program that makes accounts, and short
for a class that shares an address."""

DEFAULT_NEW_AGENTS_PER_HOUR: Final = 10
"""Agents who may register from one address in an hour, unless `registration.per_hour_per_address`
says otherwise. It bounds the accounts that one stranger makes."""

MAX_REGISTRATION_TRIES: Final = 5
"""Wrong answers of a newcomer: invite codes cannot be guessed."""

MAX_REGISTRATION_ANSWER_CHARACTERS: Final = 64
"""Characters of a newcomer's answer: a name or a code. More keys of somebody without an account are
ignored."""

MAX_PUBLIC_KEY_CHARACTERS: Final = 16_384
"""Characters of a public key line: RSA of 8192 bits takes 1,400. It bounds what is decoded."""

MAX_PUBLIC_KEY_FILE_CHARACTERS: Final = 48 * KIB
"""Characters of a file of public keys: hundreds of ed25519, dozens of RSA. It fits into a request
of the command line to the server."""

DEFAULT_AUDIT_ROWS: Final = 50
"""Rows of the audit that are shown by default: two screens. More would push out the newest."""

MAX_AUDIT_ROWS: Final = 1_000
"""Rows of the audit that one request returns: so that they fit in MAX_CONTROL_ANSWER_BYTES."""

MAX_FAILURES_PER_ADDRESS: Final = 10
"""Failed logins of one address that are recorded in an hour: more would tell nothing new."""

MAX_FAILURES_OF_STRANGERS: Final = 1_000
"""Failed logins with unknown keys and tokens that are recorded in an hour, so that nobody can fill
the disk with them."""

MAX_FAILURES_WITH_OFFERED_KEYS: Final = 1_000
"""Failed logins with keys of agents that are recorded in an hour: as many as of strangers, so that
neither hides the other."""

MAX_FAILURES_PER_TOKEN_OWNER: Final = 20
"""Failed logins with tokens of one agent that are recorded in an hour: a script that was forgotten
is seen, and fills nothing."""

MAX_CONTROL_ANSWER_BYTES: Final = 16 * MIB
"""Bytes of an answer of the control socket: MAX_AUDIT_ROWS rows, each with 1,000 characters."""

DEFAULT_INVITE_HOURS: Final = 72
"""Hours an invite is valid by default: three days, so that a weekend lies between."""

MAX_INVITE_HOURS: Final = 24 * 365
"""Hours an invite is valid: a year. A forgotten code cannot open the door for ever."""

MAX_EXPORT_ROWS: Final = 10_000
"""Rows of a log in one document of /export; older ones are in the next. A document is made in
memory."""

MAX_EXPORT_TEXTS: Final = 1_000
"""Texts of a room in one document of /export. A document is made in memory."""

MAX_EXPORT_CHARACTERS: Final = 1_000_000
"""Characters of the rows, and of the texts, in one document of /export. A document is made in
memory."""

DEFAULT_MAP_DEPTH: Final = 3
"""Exits that /map follows, unless its argument says otherwise: the near rooms, which fit on a
screen."""

MAX_MAP_DEPTH: Final = 8
"""Exits that /map follows: each may lead to many more rooms, which are read one by one."""

MAX_DRAWN_ROOMS: Final = 200
"""Rooms that the page of the map draws, the nearest: more names cannot be read in one picture."""

MAX_MAP_ROOMS: Final = 60
"""Rooms that one map shows: more do not fit on a screen."""

MAX_OPEN_INVITES: Final = 50
"""Unused invite codes of one agent, so that /invite cannot fill the database."""

MAX_LISTED_INVITES: Final = 200
"""Invites that a list shows, the newest: those that nobody can use any more stay for the record."""

MAX_TOKEN_DAYS: Final = 3650
"""Days a token or key is valid, if it expires: ten years. One that lasts longer is made without an
end."""

LAST_USE_MINUTES: Final = 60
"""Minutes between two records of the last use of a key or token: a program may make hundreds of
requests a second, and whether a token is still in use is a question of days."""

LAST_USE_RETRY_MINUTES: Final = 1
"""Minutes after a failed record of a last use in which none is tried: on a full disk each request
would try, and log an error."""

MAX_CONSOLE_ROWS: Final = 200
"""Rows of a log that a page of the console begins with: as many as are in memory."""

MAX_CONSOLE_TABS_PER_AGENT: Final = 20
"""Tabs of one agent's browsers that hear a room: each has a connection."""

MAX_CONSOLE_MESSAGE_BYTES: Final = 64 * KIB
"""Bytes of a message that a tab sends: it has little to say, as lines come by forms."""

MAX_DESCRIBED_ROOMS: Final = 200
"""Rooms of which the console's first page shows what is new: each may be read from the disk."""

MAX_SEEN_ROOMS: Final = 200
"""Rooms of which is known what somebody has seen in a browser: they are part of the account."""

MAX_CONSOLE_KEYS: Final = 500
"""Keys of a memory that the console shows at once: others are behind a link."""

CONSOLE_UPLOAD_SECONDS: Final = 1800.0
"""Seconds in which a form with a file must arrive: a large one over a slow line takes minutes."""

MAX_CONSOLE_FILES: Final = 3_000
"""Files in one tree of the console: each is an element of its page."""

MAX_OPEN_CALLS: Final = 50
"""Calls that the panel Debug shows unfolded: more hide what one looks for."""

MAX_FORM_FIELDS: Final = 100
"""Fields of a form of the console: more than any verb has."""

MAX_CONSOLE_UPDATES_PER_SECOND: Final = 15
"""Messages to one tab in a second: more of an answer at once reads no faster."""

CONSOLE_RELOAD_SECONDS: Final = 10.0
"""Seconds for which somebody stays in a room after their last tab there has gone: it may load its
page again."""

CONSOLE_AWAY_SECONDS: Final = 40.0
"""Seconds without a request after which somebody whose last tab of a room has gone leaves it: more
than two of the 15 seconds after which each visible page asks what waits."""

CONSOLE_SEND_SECONDS: Final = 20.0
"""Seconds that a tab has to take a message: one that reads nothing is ended."""

MAX_BROWSER_TERMINAL_INPUT_BYTES: Final = 32 * KIB
"""Bytes of one message of a terminal in a browser: as many as a packet of ssh has. Its script cuts
a longer paste."""

BROWSER_TERMINAL_SIZE_SECONDS: Final = 20.0
"""Seconds in which a terminal in a browser says its size: nothing is drawn before."""

MAX_BROWSER_TERMINAL_UNREAD_BYTES: Final = MIB
"""Bytes that wait for a terminal in a browser: one that does not read is shown less, and has ended
before so much waits."""

SIGN_IN_LINK_SECONDS: Final = 120
"""Seconds in which a link signs in a browser: it is opened at once, or asked for again."""

MAX_SIGN_IN_LINKS_PER_AGENT: Final = 5
"""Links of one agent that have not been used: one for each device at hand. Of more the oldest
ends."""

BROWSER_IDLE_SECONDS: Final = 12 * HOUR_SECONDS
"""Seconds without a request after which a browser has to sign in again: one that was left open over
night is not used by others."""

BROWSER_SESSION_SECONDS: Final = 7 * DAY_SECONDS
"""Seconds after which a browser has to sign in again, however much it is used: it may have been
left somewhere."""

MAX_BROWSER_SESSIONS_PER_AGENT: Final = 20
"""Browsers of one agent that are signed in. Of more, the one that was used least recently ends."""

MAX_TOKENS_PER_AGENT: Final = 100
"""Active tokens of one agent: enough for one per program, and few enough to look through for a
leaked one."""

MAX_KEYS_PER_AGENT: Final = 100
"""Keys of one agent: one for each of its machines, and few enough to look through for one that is
not its own."""

DEFAULT_MUTE_MINUTES: Final = 60
"""Minutes of a mute by default: an hour, so that a mute that nobody lifts ends."""

PERMANENT_BAN_MINUTES: Final = 10 * 365 * 24 * 60
"""Minutes of a mute or ban that counts as permanent: ten years. The end of each is stored as a
time, so that `forever` needs one too."""

IDLE_SECONDS: Final = 300
"""Seconds without a key press after which an agent is shown as idle: longer than a pause to
read."""

# Names and texts

MAX_LABEL_CHARACTERS: Final = 200
"""Characters of the label of a token or the comment of a key; the rest is cut. Lists show them."""

MAX_NAME_CHARACTERS: Final = 32
"""Characters of the name of an agent or a room: it stands in every line of a log."""

MAX_THING_NAME_CHARACTERS: Final = 128
"""Characters of the name of a thing: it is typed, and stands in lists. As long as a tool's name
towards MCP clients."""

MAX_NAMESPACE_NAME_CHARACTERS: Final = 200
"""Characters of a dotted namespace name: it is typed, and a part of the name of every tool in
it."""

MAX_TITLE_CHARACTERS: Final = 60
"""Characters of the title of a namespace or tool, and of one of its keywords: lists show them."""

MAX_NAMESPACE_DEPTH: Final = 32
"""Namespaces inside namespaces: a deeper name could be neither read nor typed."""

MAX_LISTED_NAMESPACES: Final = 2_000
"""Namespaces that are read at once: every list and search of them reads them all."""

MAX_NAMESPACE_WORDS: Final = 50
"""Keywords, or required states, of one namespace or tool. Each search compares all of them."""

MAX_TREE_DEPTH: Final = 64
"""Things inside things: a deeper tree is a mistake, and a circle would never end."""

MAX_DESCRIPTION_CHARACTERS: Final = 4_000
"""Characters of a description or a vibe: it is in every look and every model's context."""

MAX_URL_CHARACTERS: Final = 2_000
"""Characters of the URL of a link: about as many as every browser accepts."""

DEFAULT_THING_BYTES: Final = MIB
"""Bytes of the text of a data thing, unless `limits.thing_bytes` says otherwise. A text is read and
shown whole."""

DEFAULT_STDIN_BYTES: Final = MIB
"""Bytes that one command reads from stdin, unless `limits.stdin_bytes` says otherwise: they are
held in memory, and as many as a data thing holds."""

DEFAULT_TEXT_MIB: Final = 32
"""MiB of text that one agent stores in an hour, unless `limits.text_mib_per_hour` says otherwise.
It bounds how fast one agent fills the disk."""

MIN_COPIED_THING_BYTES: Final = 512
"""Bytes that a thing counts beside its texts in a copy of a room: a copy makes thousands of small
things at once, and each takes as much in the database."""

DEFAULT_BAG_THINGS: Final = 10_000
"""Things in one bag, unless `limits.bag_things` says otherwise. It bounds what a search of the bag
reads."""

MAX_SKILL_BYTES: Final = 32 * KIB
"""Bytes of a skill: a model reads it whole."""

MAX_SKILL_DESCRIPTION_CHARACTERS: Final = 200
"""Characters of a skill's description: it is in every context where the skill is."""

MAX_COMMAND_LINE_CHARACTERS: Final = 800
"""Characters of the line of a custom command that does more than talk: the audit shows it whole."""

MAX_EXPANDED_CHARACTERS: Final = 65_536
"""Characters of a line that a command expands to. It may say a word many times, so that a short
command could make a huge line."""

MAX_EQUIP_PATTERNS: Final = 64
"""Patterns in one request to equip: each is compared with every tool."""

MAX_GLOB_CHARACTERS: Final = 256
"""Characters of a pattern of names, such as *.py: each name takes time by the length of both, up to
0.3 ms for a path."""

MAX_CLONED_ROWS: Final = 10_000
"""Rows of a log, the newest, that a clone of a room copies. They are written in one go, while other
changes wait."""

MAX_ROOM_COPY_NUMBER: Final = 999
"""Number in the default name of a copied room: it bounds the search for a free name."""

MAX_ROOM_ATTACHMENT_BYTES: Final = 64 * MIB
"""Bytes of attachments kept for a room; the newest stay. It bounds the disk that the results of
tools take."""

MAX_CALL_ATTACHMENTS: Final = 20
"""Attachments kept of one tool call: one call cannot push out all the others of a room."""

DEFAULT_GARBAGE_DAYS: Final = 30
"""Days since the deletion of a thing that `/gc stale` lists, by default: a month, in which a
mistake is noticed."""

MAX_GARBAGE_DAYS: Final = 36_500
"""Days that `/gc` accepts: a century, so that a slip of the finger is refused."""

# Keeping a world

MIN_BACKUP_HOURS: Final = 1
"""Hours that the server waits at least between two of its backups: each reads and compresses the
whole world."""

MAX_BACKUP_DAYS: Final = 366
"""Days that the server waits at most between two of its backups: a longer time is a mistake."""

DEFAULT_BACKUPS: Final = 7
"""Backups of the server that are kept by default: a week of daily ones."""

MAX_BACKUPS: Final = 1_000
"""Backups of the server that `backup.keep` accepts: more than a year of daily ones."""

MAX_RETENTION_DAYS: Final = MAX_GARBAGE_DAYS
"""Days that settings of `[retention]` accept: a century, so that a slip of the finger is
refused."""

# What is shown

MAX_SHOWN_NAME_CHARACTERS: Final = 60
"""Characters of a name or a word of the input that a message repeats. A message stays one line,
whatever was typed."""

MAX_SHOWN_TEXT_CHARACTERS: Final = 200
"""Characters of a text, such as an error of another program, that a message repeats. A message
stays short, whatever the program said."""

MAX_SHOWN_ROW_LINES: Final = 40
"""Lines of one row in the log; /history --row shows the rest. One row cannot push the others off
the screen."""

MAX_SHOWN_ROW_CHARACTERS: Final = 6_000
"""Characters of one row in the log; /history --row shows the rest. It bounds rows whose lines are
long."""

MAX_SHOWN_ANSWER_LINES: Final = 300
"""Lines of a model's answer in the log. More than of other rows, because people asked for it."""

MAX_SHOWN_ANSWER_CHARACTERS: Final = 12_000
"""Characters of a model's answer in the log. More than of other rows, because people asked for
it."""

MAX_SHOWN_RESULT_LINES: Final = 20
"""Lines of a tool's result where results are shown in full. Results are mostly for models, and the
talk of a room must stay readable."""

MAX_SHOWN_RESULT_CHARACTERS: Final = 4_000
"""Characters of a tool's result where results are shown in full. It bounds results whose lines are
long."""

MAX_LIVE_LINES: Final = 100
"""Lines of an answer in progress: no live area shows more."""

MAX_LIVE_CHARACTERS: Final = 6_000
"""Characters of an answer in progress; the newest are shown. They are drawn again whenever some
come."""

MAX_MARKDOWN_ROWS: Final = 50
"""Rows of a page of history, the newest answers, whose Markdown is drawn; the others are plain.
Drawing takes longer than reading the rows."""

MAX_ROW_PART_CHARACTERS: Final = 20_000
"""Characters of one row that a person is shown at once: several screens. `/expand` shows the next
part."""

MAX_MODEL_ROW_PART_CHARACTERS: Final = 4_000
"""Characters of one row that a model is shown at once: they are paid for."""

MAX_SHOWN_PEOPLE: Final = 50
"""People that a look names; the rest are counted. A crowd costs no more than one screen."""

MAX_CONVERSATIONS: Final = 200
"""Private conversations that a page lists, those with the newest message first: nobody reads a
longer list, and a search finds the others."""

MAX_SHOWN_UNREAD: Final = 20
"""Unread messages that a login shows; the older ones are counted. They fit on one screen, above the
room."""

MAX_SHOWN_BAG_THINGS: Final = 50
"""Things of a bag that a look names; the rest are counted. A full bag costs no more than one
screen."""

MAX_SHOWN_GARBAGE_THINGS: Final = 40
"""Things that a report of `/gc` names; the rest are counted. They fit on one screen, above what to
type next."""

MAX_SHOWN_EQUIPPED: Final = 300
"""Things that `/inv` lists as equipped, and in a bag; the rest are counted, and `--pattern` shows
some of them. Thousands took the time of everybody."""

MAX_SHOWN_AVAILABLE_TOOLS: Final = 300
"""Tools that `/inv all` lists as available: one large MCP server has hundreds. `/find` finds the
others."""

MAX_COMPLETIONS: Final = 200
"""Completion candidates: more than anyone reads through, and they are found while somebody
types."""

MAX_PROTOCOL_COMPLETIONS: Final = 100
"""Values of one completion for an MCP client: what the protocol allows."""

MAX_MODEL_ROOMS: Final = 100
"""Rooms that the settings of a model may name: one for more rooms may as well be open to all, which
is the default."""

MAX_ROOM_MODELS: Final = 100
"""Models that a room may name as those that may be called in it: as many as a world can add by
verb."""

MAX_BAG_OPTIONS: Final = 200
"""Things of a bag that completion reads: it runs while somebody types."""

MAX_DIFFED_REQUEST_LINES: Final = 20_000
"""Lines of two requests that are compared: it takes 0.3 s for as many."""

MAX_REQUEST_DIFF_LINES: Final = 400
"""Lines of the difference of two requests: with more of them, nothing much is equal."""

MAX_STATS_DAYS: Final = 366
"""Days that `/stats` tells apart: a year, of which a picture still shows each."""

MAX_LISTED_TURNS: Final = 200
"""Turns that one list shows. Each is drawn with the start of its question."""

DEFAULT_TRACED_TURNS: Final = 5
"""Turns of which `/trace` shows the calls by default: their lines fit on some screens."""

MAX_TRACED_TURNS: Final = 50
"""Turns of which one trace shows the calls: each has up to hundreds."""

MAX_TRACED_CALLS: Final = 500
"""Calls that one trace shows, the newest: a browser draws as many without a pause."""

DEFAULT_LISTED_TURNS: Final = 10
"""Turns that one list shows by default: they fit on one screen."""

MAX_FOUND_NAMESPACES: Final = 10
"""Namespaces that a search shows: models pay for every line, and a better query finds the
others."""

DEFAULT_FIND_THRESHOLD: Final = 0.15
"""Score below which a namespace counts as unrelated: one common word gives a low score to many, and
any two sentences are a little alike."""

MAX_ROOM_STATES: Final = 50
"""States set by hand in one room: all are in the row of the room, which each change writes
again."""

MAX_PRINTED_LINES: Final = 200
"""Lines printed by a trial of a tool that are shown; the rest are counted. The result below must be
found."""

MAX_SHOWN_SERVER_LOG_LINES: Final = 100
"""Lines of an MCP server's log that are shown, of those that are kept. The cause of a fault is
mostly in the last ones."""

MAX_DIFF_LINES: Final = 60
"""Lines of the changes of a tool that waits for approval; the rest are counted. One screen or two
can be judged at a glance."""

MAX_SERVER_LOG_LINES: Final = 500
"""Lines of an MCP server's log that are kept. They are in memory, for each server."""

MAX_SERVER_LOG_LINE_CHARACTERS: Final = 1_000
"""Characters of one line of an MCP server's log; the rest is cut. With MAX_SERVER_LOG_LINES it
bounds the memory of a log."""

# Images

MAX_IMAGE_BYTES: Final = 8 * MIB
"""Bytes of an image that a terminal shows: twice a message of an MCP server."""

MAX_IMAGE_PIXELS: Final = 16_000_000
"""Pixels of an image that a terminal shows, as its header says: more than most cameras take."""

MAX_IMAGE_MEMORY_BYTES: Final = 256 * MIB
"""Bytes of memory of the process that decodes an image. A small file can claim a huge picture, and
decoders have faults."""

IMAGE_TIMEOUT_SECONDS: Final = 5.0
"""Seconds that the decoding of one image takes, the start of its process included. One image cannot
hold a place for ever."""

MAX_RUNNING_IMAGES: Final = 2
"""Images that are decoded at the same time: each in a process."""

MAX_WAITING_IMAGES: Final = 16
"""Images that wait to be decoded; the next is not shown. Each waiting image is held in memory."""

MAX_RESULT_IMAGES: Final = 4
"""Images of one tool result that a room shows; `/attachment` shows the others. The talk of a room
must stay on the screen."""

MAX_ROOM_PICTURE_ROWS: Final = 12
"""Rows of a picture below a tool result: half of a small terminal."""

MAX_PICTURE_ROWS: Final = 32
"""Rows of a picture that `/attachment` shows; fewer, if the terminal is shorter. A screen of usual
size holds them."""

MAX_PICTURE_COLUMNS: Final = 100
"""Columns of a picture, also on a wider terminal: what is sent and drawn grows with its size."""

MAX_PICTURE_PIXELS: Final = 120_000
"""Pixels that are sent of a picture, a byte each; a larger image is scaled down. It bounds what a
slow link must carry."""

# Reports

REPORT_TIMEOUT_SECONDS: Final = 2.0
"""Seconds that one query of `/sql` runs. A query can join every row with every other, and would
never end."""

MAX_REPORT_ROWS: Final = 200
"""Rows shown of a report; the rest are counted. They are for reading: LIMIT and OFFSET read on."""

MAX_REPORT_VALUE_BYTES: Final = 8 * MIB
"""Bytes of one value of a report, also of those that lead to it: the database holds them in
memory."""

MAX_REPORT_CELL_CHARACTERS: Final = 1_000
"""Characters shown of one value: one long text cannot fill a report."""

MAX_REPORT_CHARACTERS: Final = 64_000
"""Characters shown of a whole report. It bounds what is sent between the processes and to the
reader."""

MAX_REPORT_MEMORY_BYTES: Final = 128 * MIB
"""Bytes of memory of the process that runs a query. A query can build a value of any size."""

MAX_RUNNING_REPORTS: Final = 2
"""Queries that run at the same time: each is a process, of this machine or of PostgreSQL."""

MAX_WAITING_REPORTS: Final = 20
"""Queries that wait; the next is refused. Each takes up to REPORT_TIMEOUT_SECONDS, so that later
ones would seem to hang."""

MAX_QUEUED_WRITES: Final = 20_000
"""Changes that wait for the writer; the next is refused. They are held in memory while the disk is
slow."""

# Models

MAX_ADDED_MODELS: Final = 100
"""Models added by verb: each is an agent, which lists and completion show."""

MAX_MODEL_ID_CHARACTERS: Final = 200
"""Characters of a model's id at its provider: longer than any provider's, and it stands in
lists."""

MIN_MODEL_CONTEXT_TOKENS: Final = 1_000
"""Tokens that `context_tokens` must allow: fewer have no room for rules, a question and an
answer."""

MAX_SYSTEM_PROMPT_CHARACTERS: Final = 20_000
"""Characters of a model's `prompt`: it is sent with every request, and paid for."""

MAX_TEMPERATURE: Final = 2.0
"""Value of `temperature`: the maximum of OpenAI's API. Some providers refuse it already above 1."""

MAX_SEED: Final = 2**31 - 1
"""Value of `seed`: the maximum of a signed integer of 32 bits, so that every provider can read
it."""

DEFAULT_RESULT_SHARE: Final = 0.25
"""Share of the context window that results of tools may take in a turn, unless `result_share` says
otherwise. Three quarters stay for rules, log and answer."""

MIN_RESULT_SHARE: Final = 0.05
"""Share that `result_share` must allow: with less, a model would see nothing of a result."""

MAX_RESULT_SHARE: Final = 0.7
"""Share that `result_share` may allow: with more, the question itself might be crowded out."""

MAX_LOCAL_THREADS: Final = 1_024
"""Threads of a local model's process: more than the processors of a usual server, so that only a
mistake is refused."""

MIN_LOCAL_MEMORY_MIB: Final = 64
"""MiB that `memory_mib` of a local model must allow: llama.cpp needs more, so that a number in GiB
is refused."""

MAX_ANSWERS_PER_ROOM: Final = 32
"""Answers in progress in one room: it bounds models that call each other."""

DEFAULT_TURNS_PER_QUESTION: Final = 8
"""Answers that one message starts, unless `limits.turns_per_question` says otherwise. It ends
models that call each other without end."""

MAX_TURNS_PER_QUESTION: Final = 50
"""Answers that `limits.turns_per_question` may allow: each of them is paid for."""

DEFAULT_TURN_STEPS: Final = 12
"""Requests of one turn of a model, unless its `turn_steps` says otherwise. It ends a model that
calls tools without end."""

MAX_TURN_STEPS: Final = 100
"""Requests that `turn_steps` may allow: every one sends the context again."""

DEFAULT_TURN_SECONDS: Final = 600.0
"""Seconds of one turn of a model, unless its `turn_seconds` says otherwise. It ends a turn whose
tools hang one after the other."""

MAX_TURN_SECONDS: Final = DAY_SECONDS
"""Seconds that `turn_seconds` may be: a day. The turn takes one of the room's MAX_ANSWERS_PER_ROOM
until it ends."""

DEFAULT_TURN_TOKENS: Final = 1_000_000
"""Tokens of one turn, unless `turn_tokens` says otherwise. It bounds what one question can cost."""

DEFAULT_DAY_TOKENS: Final = 20_000_000
"""Tokens of one day, unless `day_tokens` says otherwise: twenty turns of the largest size. It
bounds what a day can cost."""

LOCAL_MODEL_START_SECONDS: Final = 120.0
"""Seconds in which llama.cpp must have loaded a local model: a large file takes long to read from a
slow disk."""

MODEL_DOWNLOAD_TIMEOUT_SECONDS: Final = 600.0
"""Seconds in which `/model add smol local` must have downloaded its model, about 98 MB: with 170 kB
a second it is ready in time."""

DEFAULT_FULL_OUTPUT_TOKENS: Final = 8_000
"""Tokens of an answer of one step, unless the model's `max_output_tokens` says otherwise. Models
that reason need thousands before they answer."""

DEFAULT_SMALL_OUTPUT_TOKENS: Final = 1_500
"""Tokens of an answer of one step of a model with the profile small, unless `max_output_tokens`
says otherwise. Such a model often runs on a slow machine, where people wait for each token."""

MAX_SMALL_BILLIONS: Final = 8.0
"""Billions of parameters of the largest model that is small by default. Small models are sent
examples and few tools, see docs/decisions/029."""

MAX_SMALL_CONTEXT_TOKENS: Final = 8_000
"""Tokens of the context of a model of unknown size that is small by default: the full rules and
schemas would take much of it."""

DEFAULT_LOCAL_BASE_MEMORY_MIB: Final = 4_096
"""MiB that a local model's process may have besides twice its file, unless `memory_mib` is set:
room for the context, which is not in the file."""

MAX_CHARACTERS_PER_OUTPUT_TOKEN: Final = 10
"""Characters of an answer for each token that it may have: a server that ignores the limit of
tokens is stopped there."""

MAX_STREAMED_CALLS: Final = 64
"""Tool calls of one step that a provider may send; more end the turn. A damaged stream can name new
calls without end, each takes a millisecond in which everyone waits, and few are carried out."""

MAX_EVENT_BYTES: Final = 8 * MIB
"""Bytes of one event of a provider's response; a larger one ends the turn. It is held in memory
until it is complete."""

MAX_CALLS_PER_STEP: Final = 8
"""Tool calls of one step that are carried out; the others are refused. They run at the same time,
and share servers with everyone."""

MAX_FEW_TOOLS: Final = 12
"""Tools that a small model is offered, those of the program included: its context is short, and
must hold their schemas too."""

BACKEND_SILENCE_SECONDS: Final = 300.0
"""Seconds that a turn waits for the next part from its backend, of whatever kind. It ends a turn
that hangs; `stall_seconds` of a model is for its provider's stream alone, and is shorter by
default."""

DEFAULT_FIRST_TOKEN_SECONDS: Final = 60
"""Seconds until the first token, unless `first_token_seconds` says otherwise: large models and long
contexts begin late."""

DEFAULT_STALL_SECONDS: Final = 60
"""Seconds between two parts of a provider's answer, unless `stall_seconds` says otherwise. It ends
a request whose provider hangs within an answer."""

MAX_MODEL_TIMEOUT_SECONDS: Final = HOUR_SECONDS
"""Seconds that `first_token_seconds` and `stall_seconds` may be: an hour. In a turn
BACKEND_SILENCE_SECONDS ends the wait earlier."""

MAX_MODEL_ATTEMPTS: Final = 3
"""Attempts of one request to a model's provider. A short fault does not fail the turn, and a long
one does not keep people waiting."""

MAX_RETRY_AFTER_SECONDS: Final = 60.0
"""Seconds that a provider may ask to wait; beyond, the turn fails. Meanwhile the turn has its place
in the room, and people wait for it."""

MAX_ANSWER_CHARACTERS: Final = 200_000
"""Characters of one answer; the rest is cut. It is one row of the log, and held in memory until it
ends."""

MAX_NOTES_CHARACTERS: Final = 4_000
"""Characters of a model's notes; the rest is cut, with a notice. The model is sent them with every
request."""

MAX_KEY_FILE_BYTES: Final = 4096
"""Bytes that are read of a file with a provider's key: a key is one word, and another file may be
large."""

MAX_RESULT_BYTES: Final = 8 * MIB
"""Bytes of the result of a tool, as text or as a value with its indentation: it is stored, and
everyone who reads the log is sent it."""

MAX_RESULT_LEVELS: Final = 100
"""Levels of the value of a result: each is indented where people read it, and programs that read it
have limits of their own."""

MAX_RESULT_CHARACTERS: Final = 60_000
"""Characters of one tool result that a model is sent, if its context has room for them. They are
paid for in every later step of the turn."""

MODEL_TEST_TIMEOUT_SECONDS: Final = 60.0
"""Seconds that `/model test` waits: as long as a turn waits for the first token by default."""

MAX_WINDOW_TURNS: Final = 1_000
"""Turns that a room's window may be set to: each request reads them all from the database."""

DEFAULT_WINDOW_TURNS: Final = 5
"""Turns of the window of a room that sets none: enough to follow a talk, and few because each is
paid for with every request."""

MAX_HISTORY_ROWS: Final = 1_000
"""Rows that one page of history shows. A page is made in memory; its end says how to read on."""

MAX_PAGE_CHARACTERS: Final = 1_000_000
"""Characters of the rows of one page or search; fewer rows are returned if they are longer. It
bounds the memory of a page."""

DEFAULT_HISTORY_ROWS: Final = 20
"""Rows of one page of history by default: they fit on one screen."""

MAX_CONTEXT_TURNS: Final = 300
"""Turns that a context reads, unless its window is set to more. It bounds what each request reads
from the database."""

MAX_CONTEXT_TALK_ROWS: Final = 1_000
"""Rows of talk that a context reads. It bounds what each request reads from the database."""

LAYER_TIMEOUT_SECONDS: Final = 1.0
"""Seconds of CPU that a script of `hook:wrap` may run: every answer waits for it."""

MAX_LAYER_ROWS: Final = 50
"""Rows, or entries of the journal, that one call of a layer's script reads: a layer is a summary,
and the model has the log."""

MAX_LAYER_TEXT_CHARACTERS: Final = 2_000
"""Characters of a row or a value that the script of a layer reads: it has a second for all."""

DEFAULT_LAYER_TOKENS: Final = 1_000
"""Tokens of a layer that sets no budget: one layer cannot crowd out the others."""

DEFAULT_CONTEXT_TOKENS: Final = 32_000
"""Tokens of a context for a model that states no budget. It bounds the cost of a request where
nothing else does."""

MAX_CONTEXT_NAMESPACES: Final = 100
"""Namespaces that are not equipped and named in a context; the rest are counted. Each name is paid
for with every request."""

MAX_CONTEXT_TEXT_CHARACTERS: Final = 20_000
"""Characters of one thing said, in a context: one long message cannot fill the window."""

MAX_CONTEXT_RESULT_CHARACTERS: Final = 600
"""Characters of a tool's result of an earlier turn, in a context. The model has used it already,
and can read it again."""

MAX_RETENTION_ACTIONS: Final = 100
"""Actions of a tool with a policy of their own for what later contexts leave out: more than a tool
has. All are read with each context."""

# Tools

CALL_TIMEOUT_SECONDS: Final = 60.0
"""Seconds of one tool call, unless its provider sets another limit. The caller waits meanwhile, and
so does the turn of a model."""

MAX_CALL_DEPTH: Final = 4
"""Calls inside calls: a tool that calls itself ends."""

MAX_NESTED_CALLS: Final = 64
"""Calls that one call may lead to, at all depths together: tools that call several others would
multiply."""

MAX_ARGUMENTS_BYTES: Final = 3 * MIB
"""Bytes of the arguments of a call, as JSON: they are checked, stored in the log and sent on. A
text of the size of a thing fits, with its line ends escaped."""

MAX_EXACT_INTEGER: Final = 2**53 - 1
"""Maximum integer of an argument or of a schema: up to it a double holds every integer exactly, so
that every client can read it and put it into canonical JSON (RFC 8785)."""

MAX_ARGUMENT_CHECKS: Final = 50_000
"""Keywords of a tool's schema checked for the values of one call: they block the event loop."""

MAX_PATTERN_CHARACTERS: Final = 200
"""Characters of a pattern in a tool's schema; a longer one accepts everything. Patterns come from
strangers, and are read before they are matched."""

MAX_PATTERNS: Final = 8
"""Patterns that the arguments of one call are matched against; the others accept everything,
because each must be compiled while others wait."""

MAX_PATTERNS_SIZE: Final = 2_500
"""Parts of all patterns that one call is matched against; the others accept everything. Compiling
takes time by parts, and holds Python's lock."""

MAX_MATCHED_CHARACTERS: Final = 10_000
"""Characters matched against a schema's patterns in one call; the rest is accepted. Matching takes
time by characters, and holds Python's lock."""

MAX_MATCH_STEPS: Final = 1_500_000
"""Product of parts and characters in one call; texts that need more are accepted. A search cuts
each line there. Matching holds Python's lock, and takes 5 to 15 ns for each: at most 25 ms."""

MAX_NAMED_PROBLEMS: Final = 20
"""Problems with arguments that one refusal names. A refusal is read, and models pay for it."""

MAX_TOOL_QUERY_CHARACTERS: Final = 2_000
"""Characters of a search query that are read: more than a question. It bounds the work of the
comparison."""

MAX_MODEL_TOOL_NAME_CHARACTERS: Final = 64
"""Characters of a tool's name towards models: what every provider accepts."""

MAX_MCP_TOOL_NAME_CHARACTERS: Final = 128
"""Characters of a tool's name towards MCP clients: what the protocol allows."""

MAX_TOOLS_PER_PLACE: Final = 100
"""Lua tools in one place: each is in the context of every model that has them."""

MAX_TOOL_PARAMETERS: Final = 32
"""Parameters of one Lua tool: all are in the context of every model that has the tool."""

MAX_TOOL_DESCRIPTION_CHARACTERS: Final = 1_000
"""Characters of a Lua tool's description: it is in the context of every model that has it."""

MAX_PARAMETER_CHOICES: Final = 64
"""Choices of one parameter: all are in the context of every model that has the tool."""

MAX_RUNNING_SCRIPTS: Final = 3
"""Lua tools that run at the same time, without those that others called: each is a process."""

MAX_RUNNING_SCRIPTS_PER_AGENT: Final = 2
"""Lua tools of one agent that run at the same time; its others wait. One is left for everyone
else."""

MAX_WAITING_SCRIPTS_PER_AGENT: Final = 64
"""Lua tools of one agent that wait; the next is refused. A program may start as many at once as it
has lines in a few seconds, and a loop that starts tools is noticed."""

SCRIPT_CPU_SECONDS: Final = 2.0
"""Seconds of CPU of one run of a Lua tool: a loop without end is stopped, and its place is free
again."""

SCRIPT_TIMEOUT_SECONDS: Final = 50.0
"""Seconds of one run of a Lua tool, with waiting: less than CALL_TIMEOUT_SECONDS, so that the
script's own error is shown."""

MAX_SCRIPT_MEMORY_BYTES: Final = 96 * MIB
"""Bytes of memory of the process that runs a Lua tool: scripts come from anyone who may build."""

MAX_SCRIPT_RESULT_BYTES: Final = 128 * KIB
"""Bytes of the result of a Lua tool: it is stored in the log and sent to the caller."""

MAX_SCRIPT_LOG_BYTES: Final = 16 * KIB
"""Bytes that a run of a Lua tool prints; the rest is cut. They are held in memory until it ends."""

MAX_SCRIPT_INPUT_BYTES: Final = 4 * MIB
"""Bytes that a Lua tool gets, its arguments and the results of its calls: as one message of an MCP
server."""

MAX_CALLS_PER_SCRIPT: Final = 32
"""Tool calls of one run of a Lua tool, without those of the tools that it calls. A loop cannot
flood a server."""

# Files of rooms

MAX_WORKSPACE_ENTRIES: Final = 10_000
"""Files and empty folders of a room: comparing them with a folder takes 50 ms."""

MAX_WORKSPACE_BYTES: Final = 256 * MIB
"""Bytes of the files of a room, equal files counted each: as many as may be copied for one run of a
tool."""

MAX_FILE_BYTES: Final = 256 * MIB
"""Bytes of one file: the whole of a room."""

DEFAULT_FILES_MIB: Final = 1_024
"""MiB of files that one agent may store in an hour, unless `limits.files_mib_per_hour` says
otherwise: every version is kept."""

MAX_READ_FILE_BYTES: Final = 8 * MIB
"""Bytes of a file of which lines are read: all of it is held in memory."""

DEFAULT_READ_LINES: Final = 2_000
"""Lines of a file that one reading gives without a number: nearly every text whole."""

MAX_READ_LINES: Final = 10_000
"""Lines of a file that one reading may ask for: all are numbered and drawn at once."""

MAX_READ_BYTES: Final = 50 * KIB
"""Bytes of a file that one reading gives: a share of what a model can hold."""

MAX_READ_LINE_CHARACTERS: Final = 2_000
"""Characters of one line of a file that are read: longer ones are no text for people."""

MAX_EDITED_BYTES: Final = MIB
"""Bytes of a file in which a part can be replaced: its lines are compared one by one."""

MAX_PATCHED_CHARACTERS: Final = 64_000_000
"""Characters of a file times the chunks of a patch for it: each chunk is looked for in all of them,
which takes up to 20 s in a thread that nothing ends."""

MAX_JSON_FILE_BYTES: Final = 8 * MIB
"""Bytes of a file that is given as JSON, in base64: it is held in memory several times."""

MAX_LISTED_FILES: Final = 500
"""Files that one list of a room's files has: a model reads and pays for all of them."""

MAX_NAMED_WORLDS: Final = 3
"""Running worlds that a refusal names: a machine may have dozens of them."""

MAX_NAMED_FILES: Final = 5
"""Paths that one line about a version names: one row of a terminal."""

MAX_LISTED_VERSIONS: Final = 100
"""Versions of a room's files that one list has: each is read from the database."""

DEFAULT_LISTED_VERSIONS: Final = 20
"""Versions of a room's files that a list has without a number: they fill one screen."""

MAX_SEARCH_PATTERN_SIZE: Final = 1_000
"""Parts of a pattern that is searched for in files: the time for each line grows with them."""

MAX_SEARCHED_LINE_CHARACTERS: Final = 10_000
"""Characters of a line that a search reads, the first ones: while a line is matched, nobody else
has a turn. Large patterns are matched with fewer."""

MAX_SEARCHED_BYTES: Final = 64 * MIB
"""Bytes of files that one search reads: they are read and compared line by line."""

FILE_SEARCH_TIMEOUT_SECONDS: Final = 5.0
"""Seconds that one search of files may take: it shares the processor with everybody."""

MAX_FILE_MATCHES: Final = 500
"""Lines that one search of files may give: a model reads and pays for all of them."""

DEFAULT_FILE_MATCHES: Final = 50
"""Lines that a search of files gives without a number: they fill one screen."""

MAX_MATCH_CONTEXT_LINES: Final = 10
"""Lines shown before and after each line that is found: of more, the file itself is read."""

MAX_COMPARED_LINES: Final = 20_000
"""Lines of each side of a comparison, which takes up to 0.3 s: the time grows with the square."""

MAX_MERGED_LINES: Final = 5_000
"""Lines of a text that two sides have changed and that is merged by lines, in up to 0.1 s: both
texts are kept if there are more."""

MAX_MERGED_FILES: Final = 50
"""Files that one change compares to merge their lines: each takes up to 0.1 s. Both texts of
others are kept."""

MAX_COMPARED_BYTES: Final = MIB
"""Bytes of each side of a comparison: both are held in memory, line by line."""

MAX_COMPARED_FILES: Final = 50
"""Files whose differences one comparison shows: each is read and compared. Others are counted."""

MAX_SHOWN_DIFF_LINES: Final = 2_000
"""Lines of a comparison that are shown: nobody reads more of them on a screen."""

MAX_PATH_BYTES: Final = 1_024
"""Bytes of a path in a workspace, in UTF-8: what archives and clients can hold."""

MAX_PATH_PART_BYTES: Final = 255
"""Bytes of one name in a path: what file systems allow."""

MAX_PATH_DEPTH: Final = 32
"""Names in a path: folders deeper than this cannot be removed by every tool."""

MAX_SCRATCH_MEMORY_BYTES: Final = MIB
"""Bytes of a file over sftp that are in memory while it is written: most files are smaller. A
larger one goes to a temporary file."""

MAX_SFTP_HANDLES: Final = 16
"""Files and folders that one client of sftp has open at once: each may have a temporary file."""

MAX_SFTP_TRANSFER_BYTES: Final = 255 * KIB
"""Bytes that one request over sftp reads or writes: as many as OpenSSH's server offers."""

SFTP_BURST_SECONDS: Final = 1.0
"""Seconds after the last change over sftp after which the changes become a version: long enough
between two files of a copy, short enough to see them in the room."""

MAX_SFTP_BURST_SECONDS: Final = 60.0
"""Seconds after the first change over sftp after which the changes become a version, even if more
come: a crash loses what came since."""

SFTP_TEXT_SECONDS: Final = 3.0
"""Seconds that a log or another text read over sftp stays as it was made: its size is asked for
before it is read."""

MAX_GIT_SESSIONS: Final = 4
"""Clones, fetches and pushes at once: each is a process."""

MAX_GIT_SESSIONS_PER_AGENT: Final = 2
"""Clones, fetches and pushes of one agent at once: others have a place, too."""

GIT_WAIT_SECONDS: Final = 30.0
"""Seconds that a clone, fetch or push waits for a place: a client shows nothing meanwhile."""

GIT_IDLE_SECONDS: Final = 60.0
"""Seconds in which a client of git must send or read something: it keeps a place from others."""

GIT_TIMEOUT_SECONDS: Final = float(HOUR_SECONDS)
"""Seconds of one clone, fetch or push: a full room over a slow line."""

GIT_CPU_SECONDS: Final = 300
"""Seconds of processor time of one clone, fetch or push: many times what a full room takes."""

MAX_GIT_MEMORY_BYTES: Final = 1_024 * MIB
"""Bytes of memory of the process of a clone, fetch or push: it holds one file of 256 MiB, also
compressed."""

MAX_GIT_PUSH_BYTES: Final = 256 * MIB
"""Bytes that one push may send: compressed, as many as the files of a room may have."""

MAX_GIT_PUSH_OBJECTS: Final = 100_000
"""Commits, trees and files that one push may send: each is checked."""

MAX_GIT_UNPACKED_BYTES: Final = 8 * MAX_WORKSPACE_BYTES
"""Bytes of all objects of one push when they are unpacked: each is read and hashed, and a few bytes
can stand for a file of megabytes."""

MAX_GIT_CACHE_FILE_BYTES: Final = 1024 * MIB
"""Bytes of one file that the process of a clone, fetch or push writes: a pack of a full room with
room to spare, because what strangers send decides its size."""

MAX_GIT_REPOSITORIES: Final = 64
"""Repositories of rooms in the cache. Of more, those are deleted that were used longest ago."""

MAX_GIT_CACHE_BYTES: Final = 2_048 * MIB
"""Bytes of the repositories in the cache. Above that, those are deleted that were used longest ago,
but not the one in use: a room's can be several times as large as its files."""

MIN_GIT_FREE_BYTES: Final = 512 * MIB
"""Bytes of free disk below which no push is received: its pack and its files are written before
anybody can look at them, and the database must have room."""

# Toolsets

MAX_ARCHIVE_BYTES: Final = 32 * MIB
"""Bytes of the archive of a toolset: it is held in memory while it is read."""

MAX_ARCHIVE_ENTRIES: Final = 2_000
"""Files and folders in the archive of a toolset: each is checked, and becomes a row."""

MAX_BUNDLE_FILE_BYTES: Final = 32 * MIB
"""Bytes of one file of a toolset: it is held in memory while the archive is read."""

MAX_BUNDLE_BYTES: Final = 128 * MIB
"""Bytes of all files of a toolset: they are held in memory together until all are checked."""

MAX_COMPRESSION_RATIO: Final = 100
"""How many times larger than its compressed data a file in an archive may be: far above texts and
programs, because more is what archives have that are made to fill memory."""

MAX_BUNDLE_PATH_DEPTH: Final = 16
"""Names in a path of a toolset: fewer than in a workspace, into which a tool may copy its files."""

MAX_MANIFEST_BYTES: Final = 256 * KIB
"""Bytes of a `toolset.yaml`: hundreds of tools with their schemas. It is parsed in one go."""

MAX_MANIFEST_VALUES: Final = 20_000
"""Names and values in a `toolset.yaml`: 200 tools with a hundred each. Each is an object in memory,
and may be a problem to report."""

MAX_MANIFEST_DEPTH: Final = 20
"""Lists and mappings inside each other in a `toolset.yaml`: the parser calls itself at each
level."""

MAX_MANIFEST_DIGITS: Final = 18
"""Characters of a whole number in a `toolset.yaml`: such numbers fit into 64 bits, and the time to
read a number grows with the square of its digits."""

MAX_TOOLSET_TOOL_ID_CHARACTERS: Final = 64
"""Characters of the id of a tool of a toolset: it is a part of names that are typed."""

MAX_TOOLSET_TOOLS: Final = 200
"""Tools of one toolset: more than any model can hold in its context."""

MAX_TOOLSET_OVERRIDES: Final = 1_000
"""Overrides of one toolset: one for each of its tools, and many for tools of its servers. All are
read together."""

MAX_TOOLSET_SERVERS: Final = 20
"""MCP servers of one toolset: each keeps a process or a connection open."""

MAX_TOOLSET_REQUIREMENTS: Final = 64
"""Packages that one toolset requires: an owner reads the list before they are installed."""

MAX_PLUGINS: Final = 100
"""Plugins of a server: each is read in a sandbox of its own before a door opens."""

MAX_PLUGIN_MEMORY_BYTES: Final = 8 * MIB
"""Bytes of the session memory of a room that a call of a plugin can get: each call gets a copy."""

MAX_SERVER_VARIABLES: Final = 100
"""Variables, and headers, of one MCP server in a `toolset.yaml`: they are sent or set at every
start."""

MAX_SERVER_VALUE_CHARACTERS: Final = 4_000
"""Characters of one argument, variable or header of an MCP server in a `toolset.yaml`: keys and
certificates fit, and a header that is longer is refused by most servers."""

MAX_RENDER_PLAN_CHARACTERS: Final = 8 * MIB
"""Characters of JSON that the expressions of one render plan may add up to. A result may be named
many times, and the plan is stored and sent to every client."""

# MCP servers that this server uses

MAX_MCP_SERVERS: Final = 200
"""MCP servers of a world: each keeps a process or a connection open."""

MAX_COMMAND_WORDS: Final = 100
"""Words of the command of a server: it is stored, and shown in one view."""

MAX_QUEUED_CALLS: Final = 50
"""Calls that wait for one busy server; the next is refused. It is better to be refused at once than
to wait at the end of a long queue."""

MAX_CALL_TIMEOUT_SECONDS: Final = 1_800.0
"""Seconds that the timeout of a call to a server may be set to: half an hour. The call holds one of
the server's places meanwhile."""

MAX_SERVER_MEMORY_MIB: Final = 1_048_576
"""MiB that `memory_mib` of a server may be: one TiB, which is more than a server can use. A number
in bytes is refused."""

DEFAULT_SERVER_MEMORY_MIB: Final = 4_096
"""MiB of memory of each process of a server, unless its `memory_mib` says otherwise. Programs
reserve more than they use, and a leak must not take the machine."""

MIN_SERVER_MEMORY_MIB: Final = 32
"""MiB that `memory_mib` of a server must allow: with less hardly any program starts, so that a
number in GiB is refused."""

DEFAULT_SERVER_START_SECONDS: Final = 60
"""Seconds for a server to get ready, unless `start_seconds` says otherwise: programs such as `npx`
download themselves first."""

MAX_SERVER_START_SECONDS: Final = 600
"""Seconds that `start_seconds` may be: meanwhile it holds one of the few places of servers that
connect."""

DEFAULT_SERVER_CALLS: Final = 10
"""Calls to a server at the same time, unless `calls_at_once` says otherwise. It spares servers that
are not made for many; MAX_QUEUED_CALLS more wait."""

MAX_SERVER_CALLS: Final = 100
"""Calls that `calls_at_once` may allow: each to a URL takes a connection."""

DEFAULT_SERVER_TOOLS: Final = 128
"""Tools taken from a server's list, unless `max_tools` says otherwise. Each is stored, and can
stand in contexts."""

MAX_SERVER_TOOLS: Final = 2_000
"""Tools that `max_tools` may allow: they are checked and stored together at every connection."""

ELICITATION_TIMEOUT_SECONDS: Final = 60.0
"""Seconds that a question of a server waits for its person; then it is declined. The call that
asked waits meanwhile."""

MAX_ELICITATION_TRIES: Final = 3
"""Invalid answers to one field; then the question is declined. A server whose field no answer suits
cannot ask for ever."""

MAX_ELICITATION_ANSWER_CHARACTERS: Final = 4_000
"""Characters of one answer to a server's question: as many as a description has."""

MAX_ELICITATION_FIELDS: Final = 20
"""Fields of one question of a server; more are refused. A person is asked for them one by one."""

MAX_SERVER_TEXT_CHARACTERS: Final = 2_000
"""Characters of a server's question, or of an error that it reports. People are shown it, and the
server chooses its length."""

MAX_LISTING_PAGES: Final = 100
"""Pages of a server's list of tools that are read. A server may name a next page without end."""

MAX_LISTING_ENTRIES: Final = 5_000
"""Entries of a server's list of tools that are read. They are held in memory before the first is
checked."""

MAX_REFUSED_TOOLS: Final = 200
"""Refused entries of a server's list that are reported; the rest are counted. The report stays in
memory."""

MAX_SERVER_TOOL_NAME_CHARACTERS: Final = 64
"""Characters of a tool's name at a server; a longer one is shortened. As many as every model
provider accepts."""

MAX_SERVER_TITLE_CHARACTERS: Final = 200
"""Characters of the title of a tool or a field; the rest is cut. A title stands in one line."""

MAX_SERVER_DESCRIPTION_BYTES: Final = 2_048
"""Bytes of a tool's description: it is in models' contexts."""

MAX_SERVER_INSTRUCTIONS_CHARACTERS: Final = 2_000
"""Characters of a server's instructions that are kept. They are only searched, and the server
chooses their length."""

MAX_SERVER_SUMMARY_CHARACTERS: Final = 240
"""Characters of the description that a server's own texts give it: one line of lists."""

MAX_SERVER_SCHEMA_BYTES: Final = 64 * KIB
"""Bytes of a tool's JSON Schema; a tool with more is refused. The schema is in models' contexts,
and checked at each call."""

MAX_SERVER_SCHEMA_DEPTH: Final = 32
"""Schemas inside schemas of one tool; a tool with more is refused. Checks of a schema call
themselves at each level."""

MAX_SERVER_MESSAGE_DEPTH: Final = 150
"""Objects and lists inside each other of a server's message. Deeper values are left out of a
listing of tools, which refuses their tool; other answers are refused. The parser reads 200."""

MAX_SERVER_MESSAGE_BYTES: Final = 4 * MIB
"""Bytes of one message of a server: it is held in memory, and read while everyone waits."""

MAX_JUNK_LINES: Final = 1_000
"""Lines in a row that are no MCP messages; then the program is stopped. It may print for ever, and
was probably never an MCP server."""

MAX_SERVER_MESSAGES_PER_SECOND: Final = 2_000
"""Messages a second read of one server after the burst; the others wait. Each is worked on while
everyone waits."""

MAX_SERVER_MESSAGES_BURST: Final = 10_000
"""Messages of one server read as fast as they come: the many results and progress reports of an
honest server are not delayed."""

MIN_RECONNECT_SECONDS: Final = 1.0
"""Seconds until the first attempt to reconnect a server; each further one waits twice as long. A
restart is over soon, and a broken server is not started all the time."""

MAX_RECONNECT_SECONDS: Final = 60.0
"""Seconds between two attempts to reconnect a server. One that is repaired is back within a
minute."""

MCP_CONNECT_TIMEOUT_SECONDS: Final = 10.0
"""Seconds to connect to a server's URL: an address that does not answer is reported soon."""

OAUTH_REQUEST_TIMEOUT_SECONDS: Final = 20.0
"""Seconds of one request to an authorization server: a person waits, and a sign-in needs
several."""

MAX_CLIENT_ID_CHARACTERS: Final = 500
"""Characters of an OAuth client id: it is sent in the address of a page, which must not get too
long."""

MAX_OAUTH_SCOPE_CHARACTERS: Final = 1_000
"""Characters of the OAuth scopes to request: they are sent in the address of a page, which must not
get too long."""

SIGN_IN_TIMEOUT_SECONDS: Final = 600.0
"""Seconds a person has to sign in: ten minutes, for a second factor or a new password. Meanwhile
the server can have no other sign-in."""

SIGN_IN_PAGE_TIMEOUT_SECONDS: Final = 45.0
"""Seconds until a server and its authorization server have named the page to open: two requests of
OAUTH_REQUEST_TIMEOUT_SECONDS, and a little more."""

MAX_PASTED_ADDRESS_CHARACTERS: Final = 8_000
"""Characters of a pasted address after a sign-in. It holds the code of the authorization server,
whose length is not known."""

MCP_ADD_WAIT_SECONDS: Final = 30.0
"""Seconds that `/mcp add` waits for a new server before it returns. Most servers are ready by then;
the others go on starting."""

# MCP clients and the web

MAX_JSON_VALUES: Final = 100_000
"""Values of one message of JSON from strangers: of MCP servers and clients, requests to the API,
tools of toolsets, providers of models, scripts. Outside of strings, each comma and key counts, each
beginning of a list or object four times, each point of a number twice, and each exponent ten times.
Everyone waits while a message is parsed: at most 20 ms at the limit, but for long texts."""

MAX_JSON_NUMBER_DIGITS: Final = 400
"""Digits in a row of a number in such a message: the time to read a number grows with their square.
A number of double precision has 309 before its point."""

MAX_CLIENT_MESSAGE_BYTES: Final = 4 * MIB
"""Bytes of one message of an MCP client, over HTTP and over a channel: it is held in memory, and
read while everyone waits."""

MAX_UNSENT_ANSWER_BYTES: Final = MIB
"""Bytes of answers that an MCP client over ssh has not read, beyond which its requests are not read
either. They wait in memory; one answer may be larger."""

MCP_LOAD_TIMEOUT_SECONDS: Final = 60.0
"""Seconds that the first client waits while the MCP server loads. On a busy machine that takes
long; beyond, the client may retry."""

MAX_OPEN_REQUESTS_PER_AGENT: Final = 64
"""Requests, streams, sessions and channels of one agent: one agent cannot take all connections."""

MAX_CLIENT_CALLS_PER_AGENT: Final = 32
"""Running tool calls of one agent. The other half of its requests stays free, also to cancel
them."""

STAY_AFTER_REQUEST_SECONDS: Final = 300.0
"""Seconds that an agent stays in its room after a request over HTTP: others see it between two
requests, which have no connection in common."""

MAX_MCP_SESSIONS: Final = 2_000
"""Sessions of MCP clients: each is held in memory between requests."""

MAX_MCP_SESSIONS_PER_AGENT: Final = 32
"""Sessions of one agent; the least recently used ends first. A client that never ends its sessions
cannot fill the table."""

MCP_SESSION_IDLE_SECONDS: Final = 1_800.0
"""Seconds without a request or a listener after which a session ends: half an hour. A client that
went away leaves nothing behind."""

MAX_SUBSCRIBED_RESOURCES: Final = 200
"""Resources that one listener subscribes to: each event of the world is compared with them."""

MAX_RESOURCE_LOG_ROWS: Final = 50
"""Rows of a log that one read of a resource returns. A client may give them whole to its model."""

MAX_RESOURCE_URI_CHARACTERS: Final = 1_000
"""Characters of a resource's URI: longer than the address of any room or thing. Others are refused
unread."""

MAX_PAGE_ENTRIES: Final = 250
"""Entries of one page of a list. It bounds the size of one response; clients fetch the next
page."""

MAX_LISTED_DESCRIPTION_CHARACTERS: Final = 4_000
"""Characters of a tool's description in a list: a client gives all of them to its model."""

MAX_WAIT_SECONDS: Final = 60.0
"""Seconds that a client may wait for events in one call. Many clients and proxies end a call at a
minute."""

DEFAULT_WAIT_SECONDS: Final = 25.0
"""Seconds that a client waits for events by default: less than the timeout of most clients."""

MAX_WAIT_EVENTS: Final = 100
"""Events that one call returns; the next call returns the rest. A model reads them, and pays for
them."""

MAX_HTTP_CONNECTIONS: Final = 500
"""HTTP connections at a time: each takes a file descriptor and memory. The next takes the place of
one whose request has not arrived, of the agent or address that has the most of them: at once if
that is more than its own address has, and else after SAFE_HTTP_INPUT_SECONDS; or it is refused."""

DEFAULT_HTTP_CONNECTIONS_PER_ADDRESS: Final = 200
"""HTTP connections from one address, unless `http.max_connections_per_address` says otherwise. Many
people can share an address; none may take all connections. The next takes the place of one whose
request has not arrived, or is refused. Behind a proxy on loopback these are the open requests of
the address that it names; loopback itself has no such limit."""

SAFE_HTTP_INPUT_SECONDS: Final = 2.0
"""Seconds in which a request may arrive before its connection can lose its place to an address that
has as many: an honest client on a slow link is not refused."""

HTTP_HEAD_TIMEOUT_SECONDS: Final = 15.0
"""Seconds in which the head of an HTTP request must arrive. Slow senders would take all
connections."""

HTTP_WRITE_TIMEOUT_SECONDS: Final = 30.0
"""Seconds in which an HTTP client must read some of what it is sent: one that reads nothing would
keep its connection for ever. It loses its place to others earlier, as one that sends nothing."""

HTTP_BODY_TIMEOUT_SECONDS: Final = 30.0
"""Seconds in which the body of a request to `/api` or `/mcp` must arrive. Longer than for a head,
because a body may have MiB."""

MAX_API_REQUESTS_PER_AGENT: Final = 32
"""Open requests of one agent to the HTTP API: one agent cannot take all connections."""

WRITE_CHECK_TIMEOUT_SECONDS: Final = 2.0
"""Seconds after which `/healthz` answers 503 because a write has not ended: monitors usually wait
for 5."""

WRITE_CHECK_SECONDS: Final = 3.0
"""Seconds for which `/healthz` trusts a write that succeeded: each one waits for the disk, and
strangers may ask often."""

MIN_WRITABLE_BYTES: Final = MIB
"""Bytes of free disk below which `/healthz` calls it full: one change of many rows may need as
many."""

MAX_CONTROL_REQUEST_BYTES: Final = 8 * MIB
"""Bytes of one request of the command line to the running server: a step of an import may have one
text of 1 MiB, whose letters take up to six bytes each as JSON."""

MAX_SHOWN_CHANGE_CHARACTERS: Final = 60
"""Characters of a setting's old and new value that a reload shows, so that its report is one line a
setting: longer values are left out."""

MIN_HOST_KEY_OVERLAP_SECONDS: Final = DAY_SECONDS
"""Seconds for which the next host key is announced before it may be used without a confirmation:
clients that log in every day have learned it."""

CONTROL_TIMEOUT_SECONDS: Final = 30.0
"""Seconds that one request of the command line to the running server may take: a server that hangs
is reported."""

DEFAULT_DRAIN_MINUTES: Final = 10
"""Minutes of `sshwarma drain`: as long as an answer may take, see DEFAULT_TURN_SECONDS."""

MAX_DRAIN_MINUTES: Final = 1440
"""Minutes that `sshwarma drain` may take: a day. Nobody can log in over ssh meanwhile."""

STOP_DRAIN_SECONDS: Final = 20.0
"""Seconds that answers in progress have at SIGTERM. With the stop itself it fits into the 30 s
after which service managers end a process by force."""

# Approvals

APPROVAL_TIMEOUT_SECONDS: Final = 300.0
"""Seconds in which somebody must allow a call that waits for an approval: long enough to see the
question and to read the arguments. Then it is denied."""

MAX_WAITING_APPROVALS: Final = 16
"""Calls that wait for an approval in one room: people read each of them."""

MAX_WAITING_APPROVALS_PER_PERSON: Final = 4
"""Calls that wait for an approval for one person and the models they asked: others find room."""

# Sandboxes

MAX_SANDBOX_SECONDS: Final = 600
"""Seconds that a program in a sandbox may be given: as long as a build of a small project takes."""

DEFAULT_SANDBOX_SECONDS: Final = 120
"""Seconds that a command in a sandbox may take, unless the call says otherwise: most commands end
in a few, and the turn waits."""

MAX_SANDBOX_MEMORY_BYTES: Final = 1024 * MIB
"""Bytes of memory that all programs in one sandbox may use together: a compiler fits, and several
sandboxes fit in a small server."""

MAX_SANDBOX_ADDRESS_BYTES: Final = 2048 * MIB
"""Bytes of address space of each program in a sandbox: more than may be used, because runtimes
reserve what they do not use."""

MAX_SANDBOX_PROCESSES: Final = 256
"""Processes and threads in one sandbox: a parallel build fits. A program that starts them without
end is stopped."""

MAX_SANDBOX_OPEN_FILES: Final = 1024
"""Open files of each program in a sandbox: what most systems give a program."""

MAX_SANDBOX_ALL_OPEN_FILES: Final = 4096
"""Open files, sockets and pipes of all programs in one sandbox: the kernel keeps up to 208 KiB for
each socket, which is nobody's memory."""

MAX_SANDBOX_TEMPORARY_BYTES: Final = 64 * MIB
"""Bytes of /tmp in a sandbox: it is memory, and is gone when the call ends."""

MAX_SANDBOX_SHARED_MEMORY_BYTES: Final = 16 * MIB
"""Bytes of /dev/shm in a sandbox: it is memory of the server's machine."""

MAX_SANDBOX_TEMPORARY_FILES: Final = 20_000
"""Files and folders in /tmp and /dev/shm of a sandbox: the kernel keeps 1 KiB for each, also for
empty ones."""

MAX_SANDBOX_TERMINALS: Final = 64
"""Terminals that programs in a sandbox may open: a machine has some 3,000 for all its
sandboxes and containers."""

MAX_SANDBOX_FILE_LOCKS: Final = 10_000
"""Locks on files that programs in a sandbox hold: the kernel keeps memory for each, which is
nobody's, and becomes slow with many."""

MAX_SANDBOX_FILE_WATCHES: Final = 10_000
"""Files that programs in a sandbox watch with epoll: the kernel keeps memory for each, and counts
them for the user of the server, who would find none left."""

MAX_SANDBOX_SOCKETS: Final = 1_000
"""Sockets in the network of a sandbox, with connections that nobody has accepted: the kernel keeps
233 KB for each, which is nobody's memory."""

MAX_SANDBOX_TCP_SOCKETS: Final = 64
"""TCP sockets in the network of a sandbox, two a connection: the kernel keeps 4 MB and more for
each, also after its program has closed it."""

MAX_SANDBOX_SIGNALS: Final = 256
"""Timers and waiting signals in one sandbox: the kernel keeps memory for each, and counts them for
the user of the server."""

MIN_SANDBOX_FREE_BYTES: Final = 256 * MIB
"""Bytes of free disk below which programs in sandboxes are ended: what they hide, such as a file
without a name that they only map, cannot be measured."""

MAX_SANDBOXES: Final = 8
"""Sandboxes that run at a time on this server: each may take a processor. The next one waits."""

MAX_SANDBOXES_PER_PERSON: Final = 3
"""Sandboxes that run at a time for one person and the models that they have asked: others find
some free. The next one waits."""

MAX_SPARE_SANDBOXES: Final = 8
"""Sandboxes that wait for the next call of a toolset in a room, on this server: each takes 30 MiB
of memory and saves a tenth of a second."""

SPARE_SANDBOX_SECONDS: Final = 60.0
"""Seconds that such a sandbox waits: calls of one turn follow each other faster."""

TOOLSET_CALL_SECONDS: Final = 60.0
"""Seconds that a tool of a toolset may run: a turn waits for it."""

TOOLSET_IMPORT_SECONDS: Final = 10.0
"""Seconds in which all tools of a toolset must be imported and described: modules are loaded, and
nothing else is done."""

TOOLSET_PACKAGES_SECONDS: Final = 300.0
"""Seconds in which the packages that a toolset requires must be there: large ones come over a slow
network."""

MAX_TOOLSET_PACKAGES_BYTES: Final = 512 * MIB
"""Bytes of the packages that one toolset requires: libraries for data and pictures fit."""

MAX_TOOLSET_PACKAGES_FILES: Final = 50_000
"""Files of the packages that one toolset requires: each takes a block of the disk."""

MAX_UV_MEMORY_BYTES: Final = 2048 * MIB
"""Bytes of memory of uv while it finds and installs packages: an index may send without end."""

MAX_TOOLSET_RESULT_BYTES: Final = 4 * MIB
"""Bytes of the result of a tool of a toolset, as of an MCP server: it is stored, and a model reads
it."""

MAX_TOOLSET_OUTPUT_BYTES: Final = 64 * KIB
"""Bytes that a tool of a toolset may print and that are kept: the first ones of more."""

MAX_TOOLSET_PRINTED_LINES: Final = 200
"""Lines that a tool of a toolset printed and that its result shows: more are no message but a
log."""

MAX_COMMAND_OUTPUT_BYTES: Final = 256 * KIB
"""Bytes of the output of a command that its result keeps, half of them from the beginning: the
middle of a longer one is left out."""

MAX_COMMAND_CHARACTERS: Final = 8_000
"""Characters of a command: a long script belongs in a file."""

MAX_MEMORY_KEY_CHARACTERS: Final = 255
"""Characters of a key of a memory: it is typed, and stands in lists."""

MAX_MEMORY_KEYS: Final = 100_000
"""Keys of one memory: a new key counts them."""

MAX_PROJECT_PATH_CHARACTERS: Final = 4_096
"""Characters of the path of a project: the kernel takes no longer ones."""

MAX_KEPT_TEXTS: Final = 100
"""Earlier texts of one thing, or values of one key of a memory, that are kept: each takes as much
space as it has text, and the oldest are forgotten."""

MAX_KEPT_TEXT_BYTES: Final = 8 * MIB
"""Bytes of the earlier texts of one thing, or values of one key, that are kept, besides the newest
of them: a model may write a large text again and again."""

MAX_TEXT_MATCH_STEPS: Final = 200_000_000
"""Product of the parts of a pattern and the characters of one line in a search that says where it
matches: a line is cut there. Others run meanwhile; it takes up to 10 ns for each."""

MAX_LINE_MATCHES: Final = 10_000
"""Matches of a pattern in one line that a search shows: the rest of the line is shown as it is."""

MEMORY_SEARCH_SECONDS: Final = 2.0
"""Seconds in which a value of a memory is searched: an answer waits for it."""

MAX_SHOWN_MATCH_CHARACTERS: Final = 2_000
"""Characters of one matching line of a memory that a terminal shows: a value may be one line of
megabytes. Pipes and programs get the whole line."""

MAX_SHOWN_MEMORY_KEYS: Final = 300
"""Keys of a memory that people are shown at once: more are no list to read. The rest are
counted."""

MAX_CONTEXT_MEMORY_KEYS: Final = 50
"""Keys of a memory that a context names: the rest are counted, because a model can list them."""

MAX_PROJECT_NOTE_CHARACTERS: Final = 2_000
"""Characters of the note of a project that a context has: every question brings them again."""

# Imports

MAX_IMPORT_FILE_BYTES: Final = 1024 * MIB
"""Bytes of a database that is imported: it is read where it is, and copied if it is in use."""

MAX_IMPORT_TEXT_FILE_BYTES: Final = 64 * MIB
"""Bytes of a dump, CSV or JSON file that is imported: it is held in memory as a whole."""

MAX_IMPORT_ROWS: Final = 500_000
"""Rows of one table, or values of one file, that an import reads: as many as a room of many years
has. Each is looked for in the world."""

MAX_IMPORT_ROOMS: Final = 1_000
"""Rooms, projects or skills that one import makes: more are no list to choose from."""

MAX_IMPORT_TEXT_BYTES: Final = MIB
"""Bytes of one message that is imported, as a line may have at most: a longer one is left out."""

MAX_IMPORT_NAME_CHARACTERS: Final = 200
"""Characters of a name in a source, such as that of a session, a group or a tool: it stands in
reports and in metadata."""

IMPORT_READ_SECONDS: Final = 120.0
"""Seconds that an import waits for the next row of a database: it may be made so that a query never
ends."""

MAX_IMPORT_STEP_ITEMS: Final = 200
"""Rows or values in one step of an import: each step is one change of the world, and others wait
for it."""

MAX_IMPORT_STEP_CHARACTERS: Final = 256 * KIB
"""Characters of the texts in one step of an import, unless one text alone is longer: as with its
rows, others wait for it."""

MAX_IMPORT_REASONS: Final = 50
"""Reasons that the report of an import names, each with what it was for: more are no list to read.
The rest is counted."""

MAX_PLUGIN_FILE_BYTES: Final = 256 * KIB
"""Bytes of a file of a plugin that is looked at: it is parsed, which takes much memory."""

PROJECT_PATH_SECONDS: Final = 5.0
"""Seconds in which the path of a project is found: a file system over a network may not answer."""

CANONICAL_PATH_SECONDS: Final = 2.0
"""Seconds for which the canonical path of a directory counts: links change rarely, and each call of
a memory needs it."""

MAX_SCRIPT_STATE_KEYS: Final = 1_000
"""Keys that a script keeps in one store: it has one for itself, for each room and each agent."""

MAX_SCRIPT_STATE_BYTES: Final = 64 * KIB
"""Bytes of keys and values in one store of a script: visitors without the build right fill it."""

MAX_SCRIPT_STATE_KEY_CHARACTERS: Final = 255
"""Characters of a key of a script's store: a key is a name, and no text."""

MAX_EVENT_PATTERNS: Final = 20
"""Events that a hook or a trigger is for: each is compared with every row."""

MAX_BUILD_BYTES: Final = 4 * MIB
"""Bytes of an archive that rooms are built from: it is held in memory, and stored in one change."""

MAX_BUILD_FILES: Final = 2_000
"""Files of an archive that rooms are built from: all of them are stored in one change, for which
others wait."""

MAX_BUILD_PATH_CHARACTERS: Final = 1_000
"""Characters of a path in such an archive: names have at most 64, and folders are few."""

MAX_ROOM_FILES_CHARACTERS: Final = 256 * KIB
"""Characters of all room.toml of an archive: to read a megabyte of odd TOML takes seconds."""

MAX_SHOWN_BUILD_STEPS: Final = 200
"""Changes that a build shows: nobody reads more. The others are counted."""

MAX_BUILD_DIFF_LINES: Final = 200
"""Lines of differences that a build shows in all: the files themselves have the rest."""

MAX_TRIGGERS_PER_ROOM: Final = 20
"""Triggers of a room that are on: each reads every row of it."""

MAX_TRIGGERS_PER_AGENT: Final = 100
"""Triggers that one agent has turned on: each runs as long as the server."""

MAX_TRIGGER_SCHEDULES: Final = 10
"""Times at which one trigger runs: lines with @at."""

MAX_TRIGGER_RUNS_PER_WINDOW: Final = 20
"""Runs of one trigger in RATE_WINDOW_SECONDS: more events wait, so that it cannot fill a log at the
pace of the server."""

MAX_TRIGGER_FAILURES: Final = 10
"""Runs of a trigger that fail one after another: then it is off, because nobody mends it."""

MAX_SCHEDULE_CHARACTERS: Final = 200
"""Characters of a time of a trigger: it is shown in lists, and to the room."""

MAX_TRIGGER_LATE_SECONDS: Final = HOUR_SECONDS
"""Seconds after a time of a trigger in which it still runs for it, if the server was away then: a
report of the morning is of use an hour later, and not at night."""

MAX_TRIGGER_EXCHANGES: Final = 50
"""Messages of programs that a trigger runs for, each soon after one of its own runs and with no
person between: programs and it answer each other, so it is off then."""

MAX_PROGRAM_EXCHANGES: Final = 1
"""Calls of a program by another program or a model to which it has called back, since a person
spoke last: as each model answers a question once, so that two bots do not talk for ever."""

MAX_BRIDGED_EXCHANGES: Final = 20
"""The same for those whom a bridge speaks for: people take turns, and bots must come to an end."""

MAX_PROGRAM_QUESTIONS: Final = 50
"""Questions of a program to a model in PROGRAM_EXCHANGE_SECONDS, since a person spoke last: a bot
that calls a model after each row it hears must come to an end, and an agent at work may go on."""

PROGRAM_EXCHANGE_SECONDS: Final = 600
"""Seconds in which calls of programs belong to one exchange: bots answer within seconds."""

TRIGGER_EXCHANGE_SECONDS: Final = 60.0
"""Seconds after a run of a trigger in which the message of a program counts as its answer: programs
answer within seconds, and what comes later has causes of its own."""

MAX_KEPT_TRIGGER_RUNS: Final = 100
"""Runs of a trigger that its log has: older ones say nothing of how it is now."""

MAX_TRIGGER_OUTPUT_CHARACTERS: Final = 1_000
"""Characters of the result of a run that the log of a trigger has: it is for a look at what went
wrong, and the room has what was said."""

MAX_HOOKS_PER_ROOM: Final = 20
"""Hooks of a room: each reads every row of it."""

MAX_HOOKS_PER_AGENT: Final = 100
"""Hooks that one agent has made: each runs as long as the server."""

MAX_HOOK_TEMPLATE_CHARACTERS: Final = 4_000
"""Characters of the template of a hook: it is read at each post."""

MAX_HOOK_PLACEHOLDERS: Final = 100
"""Values that the template of a hook has: each may be as long as what is posted."""

MAX_KEPT_DELIVERIES: Final = 100
"""Attempts of a hook that its log has: older ones say nothing of how it is now."""

MAX_HOOK_BODY_BYTES: Final = 256 * KIB
"""Bytes that one post to a hook may have, and characters of the values in one that a hook makes:
both are held in memory; services send up to 100 KiB."""

MAX_HOOK_CONNECTIONS: Final = 50
"""Posts of hooks that are under way at once: each has a connection."""

MAX_HOOK_CONNECTIONS_PER_AGENT: Final = 10
"""Posts of one agent's hooks that are under way at once: slow servers of one do not delay the hooks
of others."""

MAX_HOOK_POSTS_PER_WINDOW: Final = 200
"""Posts to the hooks of one agent in RATE_WINDOW_SECONDS: each becomes a line that all in a room
read."""

MAX_HOOK_HOPS: Final = 3
"""Hooks that a text comes through, one posting to the next: two that post to each other end so."""

HOOK_TIMEOUT_SECONDS: Final = 15.0
"""Seconds that the server of a hook has to answer. Events after it wait meanwhile."""

MAX_HOOK_RETRY_SECONDS: Final = 300.0
"""Seconds between two attempts of a hook that fails, at most: they double from 1, because a server
that is away for long must be asked rarely."""

MAX_HOOK_FAILING_SECONDS: Final = DAY_SECONDS
"""Seconds for which a hook that fails is tried: its server may be gone for good. Then it is off."""

MAX_HEARD_ROOMS: Final = 20
"""Rooms that one stream of events has: each is a part of the cursor that every event carries."""

MAX_SPEAKER_CHARACTERS: Final = 40
"""Characters of the name of somebody for whom a bridge speaks: it stands before each of their
messages."""

MAX_EVENT_STREAMS_PER_AGENT: Final = 4
"""Open streams of events of one agent: each keeps what its reader has not read yet."""

MAX_WAITING_EVENTS: Final = 1_000
"""Events that wait for the reader of a stream: one that is slower loses the stream, and begins
again at its cursor without losing a row."""

MAX_EVENT_PAGE_CHARACTERS: Final = 65_536
"""Characters of rows that are sent to the reader of a stream at once: it holds them twice while it
reads slowly."""

MAX_READ_EVENTS: Final = 200
"""Rows that are read at once for a stream that begins at a cursor: they are held in memory."""

IDEMPOTENCY_KEY_SECONDS: Final = DAY_SECONDS
"""Seconds for which a request with an Idempotency-Key does not run again: a client that was cut off
retries within minutes, one that was down over a night in the morning."""

MAX_IDEMPOTENCY_KEY_CHARACTERS: Final = 255
"""Characters of an Idempotency-Key: a UUID has 36."""

MAX_IDEMPOTENCY_KEYS: Final = 10_000
"""Keys of one agent that are remembered at once: each is stored with an answer. With more, its
oldest are forgotten early."""

MAX_IDEMPOTENT_ANSWER_BYTES: Final = 4_096
"""Bytes of an answer that are kept for its Idempotency-Key, because 10,000 of an agent are: what
was said has 300. Of a longer one the repeated request reads that it was done."""

MAX_CANONICAL_PATHS: Final = 1_000
"""Canonical paths that are remembered: there are a few for each room."""

MAX_SHOWN_VALUE_LINES: Final = 200
"""Lines of a value of a memory that a terminal shows: more push everything else off the screen."""

MAX_DELIMITER_CHARACTERS: Final = 16
"""Characters between the number of a line and the line: each of a million lines may have them."""

MAX_PLUGIN_MEMORY_CHANGES: Final = 1_000
"""Keys of session memory that one call of a plugin may change: they are stored in one transaction,
and all others wait for it."""
