"""Long lines of memory that match, as a terminal shows them."""

from __future__ import annotations

from sshwarma.common.limits import MAX_SHOWN_MATCH_CHARACTERS
from sshwarma.terminal.render import render_plain
from sshwarma.tools.text_search import MatchedLine
from sshwarma.verbs.mem_views import MemoryMatches
from sshwarma.verbs.views import draw_result


def test_long_line_is_shown_at_its_first_match_and_whole_in_a_pipe() -> None:
    text = "a" * 50_000 + "needle" + "b" * 50_000
    found = MemoryMatches(
        "k", "needle", True, (MatchedLine(1, text, ((50_000, 50_006),)),), None, 1
    )
    shown = "".join(render_plain(draw_result(found)).split("\n")[1:])
    assert "needle" in shown and "(100,006 characters)" in shown
    assert len(shown) < MAX_SHOWN_MATCH_CHARACTERS + 100
    assert len(found.exact_text) > 100_000


def test_a_search_of_a_part_says_so_where_nothing_matches() -> None:
    nothing = MemoryMatches("k", "x", True, (), 649_350, 1)
    assert nothing.header == 'No matches were found in what was searched of "k".'
    assert "the first 649,350 characters" in nothing.exact_text
