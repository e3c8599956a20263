"""Limits that a person or a program can meet: one place, each with its unit and reason.

Longer than 400 lines, because it is one table: every limit is found in one file.

The unit is in the name; `docs/limits.md` is made from here by `make docs`. Limits that an operator
sets are in `sshwarma.settings`, those of ssh connections in `ssh.transport.admission`, which the
page lists too. Help texts name a limit in braces, see `common.limit_text`. A module's
own constants (cache sizes, intervals of drawing) stay in their modules.
"""

from __future__ import annotations

from typing import Final

from sshwarma.common.units import HOUR_SECONDS, KIB, MIB

# Typing

MAX_DRAFT_BYTES: Final = 64 * KIB
"""Bytes of a line being edited: more than may be submitted, to shorten a long paste."""

DEFAULT_LINE_BYTES: Final = 16 * KIB
"""Bytes of a submitted line, unless `limits.line_bytes` says otherwise: a long letter."""

MAX_PASTE_CHARACTERS: Final = 65_536
"""Characters of one paste; its beginning is kept. As long as a draft may be."""

MAX_MENTION_SCAN_CHARACTERS: Final = 16_384
"""Characters of a message, from its beginning, in which `@name` calls somebody: a typed line."""

MIN_MENTION_PREFIX_CHARACTERS: Final = 3
"""Characters of `@name` that call a model by the start of its name: `@al` is too short."""

PIPE_WAIT_SECONDS: Final = 0.3
"""Seconds that a command over ssh with optional text waits for piped input to begin."""

MAX_SEARCH_WORDS: Final = 64
"""Words of one search: each more costs time in every row that has the others."""

SEARCH_TIMEOUT_SECONDS: Final = 2.0
"""Seconds that one search may take: searches share their threads with all other reads."""

MAX_RUNNING_SEARCHES: Final = 1
"""Searches that run at the same time; the others wait, and leave threads to all other reads."""

MAX_WAITING_SEARCHES: Final = 20
"""Searches that wait; the next is refused."""

MAX_KEYS_PER_SECOND: Final = 10_000
"""Keys a second, beyond the burst: far above any keyboard. A paste is one key."""

MAX_KEYS_BURST: Final = 4_000
"""Keys taken at once; the rest of the packet is dropped."""

MIN_TERMINAL_COLUMNS: Final = 20
"""Columns: a narrower terminal is drawn as if it had these."""

MAX_TERMINAL_COLUMNS: Final = 500
"""Columns: a wider terminal is drawn as if it had these. It bounds the work of a frame."""

MIN_TERMINAL_ROWS: Final = 5
"""Rows: a lower terminal is drawn as if it had these."""

MAX_TERMINAL_ROWS: Final = 200
"""Rows: a higher terminal is drawn as if it had these. It bounds the work of a frame."""

MAX_QUEUED_BLOCKS: Final = 500
"""Blocks that wait for a slow reader; the oldest are dropped and their lines counted."""

MAX_MARKDOWN_LEVELS: Final = 24
"""Levels of lists and quotes; deeper text is shown as it was written."""

MAX_TABLE_CELLS: Final = 1_000
"""Cells of one table; a larger one is shown as it was written."""

MAX_HIGHLIGHTED_CHARACTERS: Final = 4_000
"""Characters of one piece of code; longer code has one style. Highlighting is the slowest part."""

RATE_WINDOW_SECONDS: Final = 10.0
"""Seconds over which lines and requests are counted: `limits.lines_per_10_seconds`."""

MAX_READS_PER_WINDOW: Final = 400
"""Commands at once that only show something. Each ten seconds permit as many again; more wait."""

MAX_TYPED_AHEAD_LINES: Final = 50
"""Lines typed ahead of a running command."""

MAX_PIPED_AHEAD_LINES: Final = 200
"""Lines read ahead of a running command where there is no terminal; then the client waits."""

MAX_ALIASES: Final = 100
"""Aliases of one agent."""

MAX_ALIAS_CHARACTERS: Final = 32
"""Characters of the name of an alias."""

MAX_ALIAS_MEANING_CHARACTERS: Final = 1_000
"""Characters of the line that an alias stands for."""

MAX_INPUT_HISTORY_LINES: Final = 300
"""Lines of input history kept for each agent."""

# Logging in

MAX_KEEPALIVE_MISSES: Final = 3
"""Keepalives in a row that a link over ssh may miss; then it is dropped."""

REGISTRATION_TIMEOUT_SECONDS: Final = 120.0
"""Seconds a newcomer has to answer: they hold a connection without an account."""

REGISTRATION_WINDOW_SECONDS: Final = HOUR_SECONDS
"""Seconds over which new agents of one address are counted: `registration.per_hour_per_address`."""

MAX_REGISTRATION_TRIES: Final = 5
"""Wrong answers of a newcomer: invite codes cannot be guessed."""

MAX_REGISTRATION_ANSWER_CHARACTERS: Final = 64
"""Characters of a newcomer's answer: a name or a code."""

MAX_PUBLIC_KEY_CHARACTERS: Final = 16_384
"""Characters of a public key line: RSA of 8192 bits takes 1,400."""

DEFAULT_INVITE_HOURS: Final = 72
"""Default hours an invite is valid: three days."""

MAX_INVITE_HOURS: Final = 24 * 365
"""Hours an invite is valid: a year."""

MAX_EXPORT_ROWS: Final = 10_000
"""Rows of a log in one document of /export; older ones are in the next."""

MAX_EXPORT_TEXTS: Final = 1_000
"""Texts of a room in one document of /export."""

MAX_EXPORT_CHARACTERS: Final = 1_000_000
"""Characters of the rows, and of the texts, in one document of /export."""

DEFAULT_MAP_DEPTH: Final = 3
"""Exits that /map follows, unless its argument says otherwise."""

MAX_MAP_DEPTH: Final = 8
"""Exits that /map follows."""

MAX_MAP_ROOMS: Final = 60
"""Rooms that one map shows."""

MAX_OPEN_INVITES: Final = 50
"""Unused invite codes of one agent, so that /invite cannot fill the database."""

MAX_TOKEN_DAYS: Final = 3650
"""Days a token is valid, if it expires: ten years."""

MAX_TOKENS_PER_AGENT: Final = 100
"""Active tokens of one agent."""

DEFAULT_MUTE_MINUTES: Final = 60
"""Default minutes of a mute."""

# Names and texts

MAX_LABEL_CHARACTERS: Final = 200
"""Characters of the label of a token or the comment of a key; the rest is cut."""

MAX_NAME_CHARACTERS: Final = 32
"""Characters of the name of an agent or a room: it stands in every line of a log."""

MAX_THING_NAME_CHARACTERS: Final = 128
"""Characters of the name of a thing."""

MAX_NAMESPACE_NAME_CHARACTERS: Final = 200
"""Characters of a dotted namespace name."""

MAX_TITLE_CHARACTERS: Final = 60
"""Characters of the title of a namespace or tool, and of one of its keywords: lists show them."""

MAX_NAMESPACE_DEPTH: Final = 32
"""Namespaces inside namespaces."""

MAX_LISTED_NAMESPACES: Final = 2_000
"""Namespaces that one list shows."""

MAX_NAMESPACE_WORDS: Final = 50
"""Keywords, or required states, of one namespace or tool."""

MAX_TREE_DEPTH: Final = 64
"""Things inside things: a deeper tree is a mistake."""

MAX_DESCRIPTION_CHARACTERS: Final = 4_000
"""Characters of a description or a vibe: it is in every look and every model's context."""

MAX_URL_CHARACTERS: Final = 2_000
"""Characters of the URL of a link."""

MAX_SKILL_BYTES: Final = 32 * KIB
"""Bytes of a skill: a model reads it whole."""

MAX_SKILL_SUMMARY_CHARACTERS: Final = 200
"""Characters of a skill's summary: it is in every context where the skill is."""

MAX_EXPANDED_CHARACTERS: Final = 65_536
"""Characters of a line that a command expands to."""

MAX_EQUIP_PATTERNS: Final = 64
"""Patterns in one request to equip."""

MAX_CLONED_ROWS: Final = 10_000
"""Newest rows of a log that a clone of a room copies."""

MAX_ROOM_ATTACHMENT_BYTES: Final = 64 * MIB
"""Bytes of attachments kept for a room; the newest stay."""

MAX_CALL_ATTACHMENTS: Final = 20
"""Attachments kept of one tool call."""

DEFAULT_GARBAGE_DAYS: Final = 30
"""Default days since the deletion of a thing that `/gc stale` lists."""

# What is shown

MAX_SHOWN_NAME_CHARACTERS: Final = 60
"""Characters of a name or a word of the input that a message repeats."""

MAX_SHOWN_TEXT_CHARACTERS: Final = 200
"""Characters of a text, such as an error of another program, that a message repeats."""

MAX_SHOWN_ROW_LINES: Final = 40
"""Lines of one row in the log; /history --row shows the rest."""

MAX_SHOWN_ROW_CHARACTERS: Final = 6_000
"""Characters of one row in the log; /history --row shows the rest."""

MAX_SHOWN_ANSWER_LINES: Final = 300
"""Lines of a model's answer in the log."""

MAX_SHOWN_ANSWER_CHARACTERS: Final = 12_000
"""Characters of a model's answer in the log."""

MAX_SHOWN_RESULT_LINES: Final = 20
"""Lines of a tool's result where results are shown in full."""

MAX_SHOWN_RESULT_CHARACTERS: Final = 4_000
"""Characters of a tool's result where results are shown in full."""

MAX_LIVE_LINES: Final = 100
"""Lines of an answer in progress: no live area shows more."""

MAX_LIVE_CHARACTERS: Final = 6_000
"""Characters of an answer in progress; the newest are shown."""

MAX_MARKDOWN_ROWS: Final = 50
"""Newest answers of a page of history whose Markdown is drawn; the others are plain."""

MAX_ROW_PART_CHARACTERS: Final = 20_000
"""Characters of one row that a person is shown at once."""

MAX_MODEL_ROW_PART_CHARACTERS: Final = 4_000
"""Characters of one row that a model is shown at once: they are paid for."""

MAX_SHOWN_PEOPLE: Final = 50
"""People that a look names; the rest are counted. A crowd costs no more than one screen."""

MAX_SHOWN_BAG_THINGS: Final = 50
"""Things of a bag that a look names; the rest are counted."""

MAX_SHOWN_GARBAGE_THINGS: Final = 40
"""Things that a report of `/gc` names; the rest are counted."""

MAX_SHOWN_AVAILABLE_TOOLS: Final = 300
"""Tools that `/inv all` lists as available."""

MAX_COMPLETIONS: Final = 200
"""Completion candidates."""

MAX_MODEL_ROOMS: Final = 100
"""Rooms that the settings of a model may name."""

MAX_ROOM_MODELS: Final = 100
"""Models that a room may name as those that may be called in it."""

MAX_BAG_OPTIONS: Final = 200
"""Things of a bag that completion reads."""

MAX_LISTED_TURNS: Final = 200
"""Turns that one list shows."""

DEFAULT_LISTED_TURNS: Final = 10
"""Default turns that one list shows."""

MAX_FOUND_NAMESPACES: Final = 10
"""Namespaces that a search shows."""

MAX_ROOM_STATES: Final = 50
"""States set by hand in one room."""

MAX_PRINTED_LINES: Final = 200
"""Printed lines that a trial of a tool shows."""

MAX_SHOWN_SERVER_LOG_LINES: Final = 100
"""Lines of an MCP server's log that are shown."""

# Images

MAX_IMAGE_BYTES: Final = 8 * MIB
"""Bytes of an image that a terminal shows: twice a message of an MCP server."""

MAX_IMAGE_PIXELS: Final = 16_000_000
"""Pixels of an image that a terminal shows, as its header says: more than most cameras take."""

MAX_IMAGE_MEMORY_BYTES: Final = 256 * MIB
"""Bytes of memory of the process that decodes an image."""

IMAGE_TIMEOUT_SECONDS: Final = 5.0
"""Seconds that the decoding of one image takes, the start of its process included."""

MAX_RUNNING_IMAGES: Final = 2
"""Images that are decoded at the same time: each in a process."""

MAX_WAITING_IMAGES: Final = 16
"""Images that wait to be decoded; the next is not shown."""

MAX_RESULT_IMAGES: Final = 4
"""Images of one tool result that a room shows; `/attachment` shows the others."""

MAX_ROOM_PICTURE_ROWS: Final = 12
"""Rows of a picture below a tool result: half of a small terminal."""

MAX_PICTURE_ROWS: Final = 32
"""Rows of a picture that `/attachment` shows; fewer, if the terminal is lower."""

MAX_PICTURE_COLUMNS: Final = 100
"""Columns of a picture."""

MAX_PICTURE_PIXELS: Final = 120_000
"""Pixels that are sent of a picture, a byte each: a larger image is scaled down."""

# Reports

REPORT_TIMEOUT_SECONDS: Final = 2.0
"""Seconds that one query of `/sql` runs."""

MAX_REPORT_ROWS: Final = 200
"""Rows shown of a report; the rest are counted."""

MAX_REPORT_CELL_CHARACTERS: Final = 1_000
"""Characters shown of one value."""

MAX_REPORT_CHARACTERS: Final = 64_000
"""Characters shown of a whole report."""

MAX_REPORT_MEMORY_BYTES: Final = 128 * MIB
"""Bytes of memory of the process that runs a query."""

MAX_RUNNING_REPORTS: Final = 2
"""Queries that run at the same time: each is a process."""

MAX_WAITING_REPORTS: Final = 20
"""Queries that wait; the next is refused."""

MAX_QUEUED_WRITES: Final = 20_000
"""Changes that wait for the writer; the next is refused."""

# Models

MAX_ADDED_MODELS: Final = 100
"""Models added by verb."""

MAX_ANSWERS_PER_ROOM: Final = 32
"""Answers in progress in one room: it bounds models that call each other."""

DEFAULT_TURN_STEPS: Final = 12
"""Requests of one turn of a model, unless its `turn_steps` says otherwise."""

DEFAULT_TURN_SECONDS: Final = 600.0
"""Seconds of one turn of a model, unless its `turn_seconds` says otherwise."""

LOCAL_MODEL_START_SECONDS: Final = 120.0
"""Seconds in which llama.cpp must have loaded a local model."""

MODEL_DOWNLOAD_TIMEOUT_SECONDS: Final = 600.0
"""Seconds in which `/model add smol local` must have downloaded its model, about 98 MB."""

DEFAULT_FULL_OUTPUT_TOKENS: Final = 8_000
"""Tokens of an answer of one step, unless the model's `max_output_tokens` says otherwise. Models
that reason need thousands before they answer."""

DEFAULT_SMALL_OUTPUT_TOKENS: Final = 1_500
"""Tokens of an answer of one step of a model with the profile small, unless `max_output_tokens`
says otherwise."""

MAX_CHARACTERS_PER_OUTPUT_TOKEN: Final = 10
"""Characters of an answer for each token that it may have: a server that ignores the limit of
tokens is stopped there."""

MAX_STREAMED_CALLS: Final = 1_000
"""Tool calls of one step that a provider may send; more end the turn."""

MAX_EVENT_BYTES: Final = 8 * MIB
"""Bytes of one event of a provider's response. A larger one ends the turn."""

MAX_CALLS_PER_STEP: Final = 8
"""Tool calls of one step that are carried out; the others are refused."""

STALL_TIMEOUT_SECONDS: Final = 300.0
"""Seconds of silence after which a backend is given up."""

MAX_MODEL_ATTEMPTS: Final = 3
"""Attempts of one request to a model's provider."""

MAX_RETRY_AFTER_SECONDS: Final = 60.0
"""Seconds that a provider may ask to wait; beyond, the turn fails."""

MAX_ANSWER_CHARACTERS: Final = 200_000
"""Characters of one answer; the rest is cut."""

MAX_NOTES_CHARACTERS: Final = 4_000
"""Characters of a model's notes; the rest is cut, with a notice."""

MAX_KEY_FILE_BYTES: Final = 4096
"""Bytes of a file that holds a provider's key."""

MAX_RESULT_CHARACTERS: Final = 60_000
"""Characters of one tool result that a model is sent, if its context has room for them."""

MODEL_TEST_TIMEOUT_SECONDS: Final = 60.0
"""Seconds that `/model test` waits."""

MAX_WINDOW_TURNS: Final = 1_000
"""Turns that a room's window may be set to."""

DEFAULT_WINDOW_TURNS: Final = 5
"""Turns of the window of a room that sets none."""

MAX_HISTORY_ROWS: Final = 1_000
"""Rows that one page of history shows."""

MAX_PAGE_CHARACTERS: Final = 1_000_000
"""Characters of the rows of one page or search; fewer rows are returned if they are longer."""

DEFAULT_HISTORY_ROWS: Final = 20
"""Default rows of one page of history."""

MAX_CONTEXT_TURNS: Final = 300
"""Turns of a conversation that a context reads, however large the window."""

MAX_CONTEXT_TALK_ROWS: Final = 1_000
"""Rows of talk that a context reads."""

LAYER_TIMEOUT_SECONDS: Final = 1.0
"""Seconds that a script of `hook:wrap` may run: every answer waits for it."""

DEFAULT_LAYER_TOKENS: Final = 1_000
"""Tokens of a layer that sets no budget."""

DEFAULT_CONTEXT_TOKENS: Final = 32_000
"""Tokens of a context for a model that states no budget."""

MAX_CONTEXT_NAMESPACES: Final = 100
"""Namespaces that are not equipped and named in a context."""

MAX_CONTEXT_TEXT_CHARACTERS: Final = 20_000
"""Characters of one thing said, in a context."""

MAX_CONTEXT_RESULT_CHARACTERS: Final = 600
"""Characters of a tool's result of an earlier turn, in a context."""

MAX_KEPT_RESULT_CHARACTERS: Final = 5_000
"""Characters of a result that a tool's policy keeps."""

# Tools

CALL_TIMEOUT_SECONDS: Final = 60.0
"""Seconds of one tool call, unless its provider sets another limit."""

MAX_CALL_DEPTH: Final = 4
"""Calls inside calls: a tool that calls itself ends."""

MAX_NESTED_CALLS: Final = 64
"""Calls that one call may lead to, at all depths together."""

MAX_ARGUMENTS_BYTES: Final = MIB
"""Bytes of the arguments of a call, as JSON."""

MAX_EXACT_INTEGER: Final = 2**53 - 1
"""Maximum integer of an argument or of a schema: up to it a double holds every integer exactly, so
that every client can read it and put it into canonical JSON (RFC 8785)."""

MAX_ARGUMENT_CHECKS: Final = 50_000
"""Keywords of a tool's schema checked for the values of one call: they block the event loop."""

MAX_NAMED_PROBLEMS: Final = 20
"""Problems with arguments that one refusal names."""

MAX_TOOL_QUERY_CHARACTERS: Final = 2_000
"""Characters of a search query that are read."""

MAX_MODEL_TOOL_NAME_CHARACTERS: Final = 64
"""Characters of a tool's name towards models: what every provider accepts."""

MAX_MCP_TOOL_NAME_CHARACTERS: Final = 128
"""Characters of a tool's name towards MCP clients: what the protocol allows."""

MAX_TOOLS_PER_PLACE: Final = 100
"""Lua tools in one place: each is in the context of every model that has them."""

MAX_TOOL_PARAMETERS: Final = 32
"""Parameters of one Lua tool."""

MAX_TOOL_DESCRIPTION_CHARACTERS: Final = 1_000
"""Characters of a Lua tool's description: it is in the context of every model that has it."""

MAX_PARAMETER_CHOICES: Final = 64
"""Choices of one parameter."""

MAX_RUNNING_SCRIPTS: Final = 3
"""Lua tools that run at the same time, without those that others called: each is a process."""

MAX_RUNNING_SCRIPTS_PER_AGENT: Final = 2
"""Of these, tools of one agent; its others wait."""

MAX_WAITING_SCRIPTS_PER_AGENT: Final = 16
"""Lua tools of one agent that wait; the next is refused."""

SCRIPT_CPU_SECONDS: Final = 2.0
"""Seconds of CPU of one run of a Lua tool."""

SCRIPT_TIMEOUT_SECONDS: Final = 50.0
"""Seconds of one run of a Lua tool, with waiting."""

MAX_SCRIPT_MEMORY_BYTES: Final = 96 * MIB
"""Bytes of memory of the process that runs a Lua tool."""

MAX_SCRIPT_RESULT_BYTES: Final = 128 * KIB
"""Bytes of the result of a Lua tool."""

MAX_SCRIPT_LOG_BYTES: Final = 16 * KIB
"""Bytes that a run of a Lua tool prints; the rest is cut."""

MAX_SCRIPT_INPUT_BYTES: Final = 4 * MIB
"""Bytes that a Lua tool gets: its arguments and the results of its calls."""

MAX_CALLS_PER_SCRIPT: Final = 32
"""Tool calls of one run of a Lua tool, without those of the tools that it calls."""

# MCP servers that this server uses

MAX_MCP_SERVERS: Final = 200
"""MCP servers of a world."""

MAX_QUEUED_CALLS: Final = 50
"""Calls that wait for one busy server; the next is refused."""

MAX_CALL_TIMEOUT_SECONDS: Final = 1_800.0
"""Seconds that the timeout of a call to a server may be set to."""

MAX_SERVER_MEMORY_MIB: Final = 1_048_576
"""MiB: one TiB, which is more than a server can use."""

DEFAULT_SERVER_MEMORY_MIB: Final = 4_096
"""MiB of memory of each process of a server, unless its `memory_mib` says otherwise."""

ELICITATION_TIMEOUT_SECONDS: Final = 60.0
"""Seconds that a question of a server waits for its person; then it is declined."""

MAX_ELICITATION_TRIES: Final = 3
"""Invalid answers to one field; then the question is declined."""

MAX_ELICITATION_ANSWER_CHARACTERS: Final = 4_000
"""Characters of one answer to a server's question."""

MAX_ELICITATION_FIELDS: Final = 20
"""Fields of one question of a server."""

MAX_SERVER_TEXT_CHARACTERS: Final = 2_000
"""Characters of a server's question, or of an error that it reports."""

MAX_LISTING_PAGES: Final = 100
"""Pages of a server's list of tools that are read."""

MAX_LISTING_ENTRIES: Final = 5_000
"""Entries of a server's list of tools that are read."""

MAX_REFUSED_TOOLS: Final = 200
"""Refused entries of a server's list that are reported."""

MAX_SERVER_TOOL_NAME_CHARACTERS: Final = 64
"""Characters of a tool's name at a server."""

MAX_SERVER_TITLE_CHARACTERS: Final = 200
"""Characters of the title of a tool or a field; the rest is cut."""

MAX_SERVER_DESCRIPTION_BYTES: Final = 2_048
"""Bytes of a tool's description: it is in models' contexts."""

MAX_SERVER_INSTRUCTIONS_CHARACTERS: Final = 2_000
"""Characters of a server's instructions that are kept for searches."""

MAX_SERVER_SUMMARY_CHARACTERS: Final = 240
"""Characters of the description that a server's own texts give it: one line of lists."""

MAX_SERVER_SCHEMA_BYTES: Final = 64 * KIB
"""Bytes of a tool's JSON Schema."""

MAX_SERVER_SCHEMA_DEPTH: Final = 32
"""Schemas inside schemas of one tool."""

MAX_SERVER_MESSAGE_BYTES: Final = 4 * MIB
"""Bytes of one message of a server."""

MAX_SERVER_MESSAGE_QUOTES: Final = 100_000
"""Quotes in one message: many small parts cost the loop more than one long text."""

MAX_JUNK_LINES: Final = 1_000
"""Lines in a row that are no MCP messages; then the program is taken for something else."""

MAX_SERVER_MESSAGES_PER_SECOND: Final = 2_000
"""Messages a second read of one server after the burst; the others wait."""

MAX_SERVER_MESSAGES_BURST: Final = 10_000
"""Messages of one server read as fast as they come."""

MIN_RECONNECT_SECONDS: Final = 1.0
"""Seconds until the first attempt to reconnect a server; each further one waits twice as long."""

MAX_RECONNECT_SECONDS: Final = 60.0
"""Seconds between two attempts to reconnect a server."""

MCP_CONNECT_TIMEOUT_SECONDS: Final = 10.0
"""Seconds to connect to a server's URL."""

OAUTH_REQUEST_TIMEOUT_SECONDS: Final = 20.0
"""Seconds of one request to an authorization server."""

SIGN_IN_TIMEOUT_SECONDS: Final = 600.0
"""Seconds a person has to sign in."""

SIGN_IN_PAGE_TIMEOUT_SECONDS: Final = 45.0
"""Seconds until a server and its authorization server have named the page to open."""

MAX_PASTED_ADDRESS_CHARACTERS: Final = 8_000
"""Characters of a pasted address after a sign-in."""

MCP_ADD_WAIT_SECONDS: Final = 30.0
"""Seconds that `/mcp add` waits for a new server before it returns."""

# MCP clients and the web

MAX_CLIENT_MESSAGE_BYTES: Final = 4 * MIB
"""Bytes of one message of an MCP client, over HTTP and over a channel."""

MCP_LOAD_TIMEOUT_SECONDS: Final = 60.0
"""Seconds that the first client waits while the MCP server loads."""

MAX_OPEN_REQUESTS_PER_AGENT: Final = 64
"""Requests, streams, sessions and channels of one agent."""

MAX_CLIENT_CALLS_PER_AGENT: Final = 32
"""Running tool calls of one agent."""

STAY_AFTER_REQUEST_SECONDS: Final = 300.0
"""Seconds that an agent stays in its room after a request over HTTP."""

MAX_MCP_SESSIONS: Final = 2_000
"""Sessions of MCP clients."""

MAX_MCP_SESSIONS_PER_AGENT: Final = 32
"""Sessions of one agent."""

MCP_SESSION_IDLE_SECONDS: Final = 1_800.0
"""Seconds without a request or a listener after which a session ends."""

MAX_SUBSCRIBED_RESOURCES: Final = 200
"""Resources that one listener subscribes to."""

MAX_RESOURCE_LOG_ROWS: Final = 50
"""Rows of a log that one read of a resource returns."""

MAX_RESOURCE_URI_CHARACTERS: Final = 1_000
"""Characters of a resource's URI."""

MAX_PAGE_ENTRIES: Final = 250
"""Entries of one page of a list."""

MAX_LISTED_DESCRIPTION_CHARACTERS: Final = 4_000
"""Characters of a tool's description in a list."""

MAX_WAIT_SECONDS: Final = 60.0
"""Seconds that a client may wait for events in one call."""

DEFAULT_WAIT_SECONDS: Final = 25.0
"""Seconds that it waits by default: less than the timeout of most clients."""

MAX_WAIT_EVENTS: Final = 100
"""Events that one call returns."""

MAX_HTTP_CONNECTIONS: Final = 500
"""HTTP connections at a time. The next takes the place of one whose request has not arrived in
SAFE_HTTP_INPUT_SECONDS, of the agent or address that has the most of them; else it is refused."""

SAFE_HTTP_INPUT_SECONDS: Final = 2.0
"""Seconds in which a request may arrive before its connection can lose its place."""

HTTP_HEAD_TIMEOUT_SECONDS: Final = 15.0
"""Seconds in which the head of an HTTP request must arrive."""

HTTP_BODY_TIMEOUT_SECONDS: Final = 30.0
"""Seconds in which the body of a request to `/api` or `/mcp` must arrive."""

MAX_API_REQUESTS_PER_AGENT: Final = 32
"""Open requests of one agent to the HTTP API."""

MAX_CONTROL_REQUEST_BYTES: Final = 64 * KIB
"""Bytes of one request of the command line to the running server."""

CONTROL_TIMEOUT_SECONDS: Final = 30.0
"""Seconds that one request of the command line to the running server may take."""

DEFAULT_WORD_THRESHOLD: Final = 0.15
"""Score by words below which a namespace counts as unrelated: one common word gives a low score to
many."""

DEFAULT_SENTENCE_THRESHOLD: Final = 0.15
"""Score by a sentence model below which a namespace counts as unrelated, because any two sentences
are a little alike."""
