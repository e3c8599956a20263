"""The verb `/file search`: lines of files that match a pattern."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from sshwarma.common.finish import run_in_thread
from sshwarma.common.limits import (
    DEFAULT_FILE_MATCHES,
    FILE_SEARCH_TIMEOUT_SECONDS,
    MAX_FILE_MATCHES,
    MAX_MATCH_CONTEXT_LINES,
    MAX_NAMED_FILES,
    MAX_SEARCHED_BYTES,
    MAX_SEARCHED_LINE_CHARACTERS,
)
from sshwarma.common.shorten import join_with_rest, shorten_name
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.tools.patterns import LineMatcher, compile_search
from sshwarma.verbs.arguments import Arg, Word
from sshwarma.verbs.file import file, match_paths, read_files, workspaces_of
from sshwarma.verbs.file_arguments import FilePath
from sshwarma.verbs.views import format_count, view_for_reader
from sshwarma.workspaces.blobs import BlobStore, DamagedBlob
from sshwarma.workspaces.damaged_files import LOST_CONTENT_HINT
from sshwarma.workspaces.text_diff import decode_file
from sshwarma.workspaces.text_lines import iterate_lines
from sshwarma.workspaces.tree import Entry
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.reader import Reader

MAX_MATCH_CHARACTERS: Final = 300
"""Characters of a line that a result shows."""

MatchCount: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_FILE_MATCHES)]
ContextLines: TypeAlias = Annotated[int, Arg("number"), Field(ge=0, le=MAX_MATCH_CONTEXT_LINES)]


@dataclass(frozen=True, slots=True)
class FileMatch:
    """A line that matches, with the lines around it, which may be none."""

    path: str
    line: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileMatches:
    """Lines of files that match a pattern.

    Attributes:
        files: how many files were searched.
        skipped: how many were not, because they are no text, or their content is missing or
            damaged.
        stopped: why the search ended early, as a sentence; "" if it did not.
        cut_lines: how many lines were too long to be searched as a whole.
        line_characters: the first characters of a line, which were searched.
        damaged_count: how many contents are missing or damaged.
        damaged: the paths of the first files with such a content.
    """

    pattern: str
    matches: tuple[FileMatch, ...]
    files: int
    skipped: int
    stopped: str
    cut_lines: int = 0
    line_characters: int = MAX_SEARCHED_LINE_CHARACTERS
    damaged_count: int = 0
    damaged: tuple[str, ...] = ()


@view_for_reader(FileMatches)
def draw_file_matches(result: FileMatches, reader: Reader) -> Block:
    """Draw the lines below their files; for programs each with its path and number."""
    lines: list[Line] = []
    path = ""
    for match in result.matches:
        start = match.line - len(match.before)
        shown = (*match.before, match.text, *match.after)
        if reader.is_person and match.path != path:
            lines.append(line(("name", match.path)))
        path = match.path
        for number, text in enumerate(shown, start):
            sign = ":" if number == match.line else "-"
            if reader.is_person:
                style = "text" if number == match.line else "dim"
                lines.append(line(("dim", f"{number:6}{sign} "), (style, text), hang=8))
            else:
                lines.append(line(f"{match.path}{sign}{number}{sign}{text}"))
    lines.append(line(("dim", summarize_matches(result))))
    return block(*lines)


def summarize_matches(result: FileMatches) -> str:
    """Return how much was found and searched, and what was left out."""
    found = format_count(len(result.matches), "line")
    searched = format_count(result.files, "file")
    binary = result.skipped - result.damaged_count
    skipped = f", {format_count(binary, 'binary file')} left out" if binary else ""
    sentences = (
        f"{found} in {searched}{skipped}.",
        _describe_damaged(result),
        _describe_cut(result),
        result.stopped,
    )
    return " ".join(filter(None, sentences))


def _describe_damaged(result: FileMatches) -> str:
    """Return what to know and do about files whose content is lost, or ""."""
    if not (count := result.damaged_count):
        return ""
    contents = "content of 1 file is" if count == 1 else f"contents of {count} files are"
    shown = [shorten_name(path) for path in result.damaged]
    named = join_with_rest(shown, MAX_NAMED_FILES, total=count)
    return f"The {contents} missing or damaged: {named}. {LOST_CONTENT_HINT}"


def _describe_cut(result: FileMatches) -> str:
    """Return a sentence about lines that were cut for the search, or ""."""
    if not result.cut_lines:
        return ""
    searched = f"first {result.line_characters} characters"
    return f"Of {format_count(result.cut_lines, 'long line')}, only the {searched} were searched."


@file.verb(
    "search",
    needs=Right.ENTER,
    tool="search_files",
    namespace="workspace",
    examples=("/file search TODO", "/file search 'def \\w+' *.py --context 2"),
)
async def search_files(
    caller: Caller,
    pattern: Word,
    path: FilePath | None = None,
    *,
    context: ContextLines = 0,
    limit: MatchCount = DEFAULT_FILE_MATCHES,
) -> FileMatches:
    """Find lines of this room's files.

    Only the first {MAX_SEARCHED_LINE_CHARACTERS} characters of a line are searched, with a large
    pattern fewer.

    Args:
        pattern: a regular expression; (?i) before it ignores case.
        path: only this file or folder, or a pattern of names such as *.py (default: all files).
        context: number of lines before and after each (default 0).
        limit: number of lines to find (default {DEFAULT_FILE_MATCHES}).
    """
    matcher = compile_search(pattern)
    _, tree = await read_files(caller, None)
    names = sorted(tree) if path is None else await match_paths(caller, tree, path)
    entries = {name: tree[name] for name in names if tree[name].is_file}
    workspaces = workspaces_of(caller)

    def run(stop: threading.Event) -> _Search:
        search = _Search(workspaces.blobs, matcher, context, limit, stop)
        search.run(entries)
        return search

    async with workspaces.take_long_read(caller):
        search = await run_in_thread(run)
    return FileMatches(
        pattern,
        tuple(search.found),
        search.files,
        search.skipped,
        search.stopped,
        search.cut_lines,
        matcher.max_characters,
        len(search.damaged),
        tuple(search.damaged[:MAX_NAMED_FILES]),
    )


class _Search:
    """One search, which begins and runs in a thread."""

    def __init__(
        self,
        blobs: BlobStore,
        matcher: LineMatcher,
        context: int,
        limit: int,
        stop: threading.Event,
    ) -> None:
        self._blobs = blobs
        self._matcher = matcher
        self._context = context
        self._limit = limit
        self._deadline = time.monotonic() + FILE_SEARCH_TIMEOUT_SECONDS
        self._stop = stop
        self.found: list[FileMatch] = []
        self.files = 0
        self.skipped = 0
        self.damaged: list[str] = []
        self.cut_lines = 0
        self.stopped = ""

    def run(self, entries: Mapping[str, Entry]) -> None:
        """Search files in order, until enough is found or it should stop."""
        left = MAX_SEARCHED_BYTES
        for path, entry in entries.items():
            left -= entry.size
            if left < 0:
                self.stopped = "The other files were not searched: they are too large together."
                break
            if (text := self._read(path, entry)) is None:
                self.skipped += 1
                continue
            self.files += 1
            for match in self._search_text(path, text):
                self.found.append(match)
                if len(self.found) == self._limit:
                    self.stopped = "There may be more lines."
                    return
            if self.stopped:
                break

    def _read(self, path: str, entry: Entry) -> str | None:
        """Return the text of a file; None if it is binary, or its content is lost."""
        try:
            return decode_file(self._blobs.read(entry.sha256))
        except DamagedBlob:
            self.damaged.append(path)
            return None

    def _search_text(self, path: str, text: str) -> Iterator[FileMatch]:
        before: deque[str] = deque(maxlen=self._context)
        width = self._matcher.max_characters
        unchecked = width  # characters, with line ends, that were searched since a look at the time
        for number, (start, end) in enumerate(iterate_lines(text, 0), 1):
            if unchecked >= width:
                if self._is_over():
                    return
                unchecked = 0
            one = text[start : min(end, start + width)]
            unchecked += len(one) + 1
            self.cut_lines += end - start > width
            if self._matcher.matches(one):
                after = islice(iterate_lines(text, start), 1, 1 + self._context)
                yield FileMatch(
                    path,
                    number,
                    one[:MAX_MATCH_CHARACTERS],
                    tuple(before),
                    tuple(
                        text[begin : min(stop, begin + MAX_MATCH_CHARACTERS)]
                        for begin, stop in after
                    ),
                )
            before.append(one[:MAX_MATCH_CHARACTERS])

    def _is_over(self) -> bool:
        if self._stop.is_set() or time.monotonic() > self._deadline:
            seconds = f"{FILE_SEARCH_TIMEOUT_SECONDS:g} s"
            self.stopped = f"It took {seconds}: not all files were searched."
            return True
        return False
