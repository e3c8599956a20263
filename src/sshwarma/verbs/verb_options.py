"""The options with which verbs are declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Required, TypedDict

from sshwarma.verbs.rights import RightRule
from sshwarma.verbs.verb import Spelling
from sshwarma.world.access import Right, TokenScope


class VerbOptions(TypedDict, total=False):
    """Options of a verb's declaration, besides its name.

    Attributes:
        examples: example lines for the help; each must parse.
        needs: the right that the caller must have in the room; None needs no right.
        also_needs: the rights that it needs for some arguments, or for what is not the caller's.
        aliases: other first words for it.
        spellings: flags without a value that people may type for other calls.
        excludes: for an argument, those that a call must not give besides it.
        needs_one_of: the optional arguments of which a program must give at least one.
        rarely_used: parameters that lists of tools for models leave out.
        covered_by: name of the tool that does the same for models, which are not offered both.
        private_with: arguments whose calls as a tool are private: logs show nothing of them.
        tool: False for a verb that only people use; or its name as a tool, if that differs.
        mcp_tool: its name for MCP clients, if that differs from its name as a tool.
        default: whether new rooms have it equipped as a tool.
        namespace: the namespace of the tool; default `sshwarma`.
        moves: whether it takes a model out of its room.
        scope: the scope that a token needs; None derives it from `needs`, by `required_scope`.
        change_scope: the scope that it needs to change something, if it can also only show.
        aside: whether a terminal runs it at once, while another line is running.
        takes_bytes: whether piped input is a content of any bytes, `Caller.upload`, and not text.
        adds_piped_text: whether piped text follows a text that is given.
        takes_exact_text: whether piped text keeps its last line end, and no text goes before it.
        text_source: the optional argument that names where else the text comes from.
        needs_approval: whether a person must allow each call of it as a tool.
        leave_out: what models read of its calls as a tool once their turn is over, such as
            `SHORT 500`; see `world.leave_out`.
        times_out_itself: whether it bounds its own time, instead of CALL_TIMEOUT_SECONDS.
        ssh_only: whether it needs a terminal or an ssh key; the HTTP API does not list it, and it
            is not a tool.
        in_console: whether it works in the console, too, where people edit texts.
        works_at_terminals: whether it needs a terminal and no key: one in a browser will do.
    """

    examples: Required[tuple[str, ...]]
    needs: Right | None
    also_needs: tuple[RightRule, ...]
    aliases: tuple[str, ...]
    spellings: Mapping[str, Spelling]
    excludes: Mapping[str, tuple[str, ...]]
    needs_one_of: tuple[str, ...]
    rarely_used: tuple[str, ...]
    covered_by: str
    private_with: tuple[str, ...]
    tool: str | bool
    mcp_tool: str
    default: bool
    namespace: str
    moves: bool
    scope: TokenScope | None
    change_scope: TokenScope
    aside: bool
    ssh_only: bool
    in_console: bool
    works_at_terminals: bool
    takes_bytes: bool
    adds_piped_text: bool
    takes_exact_text: bool
    text_source: str
    needs_approval: bool
    leave_out: str
    times_out_itself: bool
