"""What /help shows: every sentence of a verb or group about itself, at any width."""

from __future__ import annotations

import inspect
import re

import pytest
import pytest_asyncio

from sshwarma.common.limit_text import fill_limits
from sshwarma.terminal.render import DisplayOptions, render_block, wrap_line
from sshwarma.terminal.text import Line
from sshwarma.verbs.help import load_help_topics
from sshwarma.verbs.registry import Verb, VerbGroup, every_entry, every_verb
from sshwarma.verbs.views import draw_result
from sshwarma.world.reader import PERSON
from sshwarma.world.world import World
from support.people import Someone, arrive, do, refused

in_one_loop = pytest.mark.asyncio(loop_scope="module")
VERBS = list(every_verb())
GROUPS = [entry for entry in every_entry() if isinstance(entry, VerbGroup)]

at_widths = pytest.mark.parametrize("columns", [80, 40])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alice(shared_world: World) -> Someone:
    """The owner of a world in which all tests here ask for help."""
    return await arrive(shared_world, "alice", role="owner")


def sentences(docstring: str) -> list[str]:
    """Sentences of a docstring, each on one line.

    They are without the names that begin an argument's description, and without the full stop that
    a summary loses.
    """
    text = fill_limits(inspect.cleandoc(docstring).replace("`", ""))
    summary, _, rest = text.partition("\n")
    rest = re.sub(r"^(?:Args|For people):$", "", rest, flags=re.MULTILINE)
    rest = re.sub(r"^    \w+: ", "\n\n", rest, flags=re.MULTILINE)
    parts = [summary.removesuffix(".")]
    for paragraph in re.split(r"\n\s*\n", rest):
        parts += re.split(r"(?<=[.;?!]) ", " ".join(paragraph.split()))
    return [part for part in parts if part]


async def help_at(who: Someone, topic: str, columns: int) -> list[str]:
    """The lines of /help TOPIC on a terminal of that width."""
    drawn = draw_result(await do(who, f"/help {topic}".strip()))
    text = render_block(drawn, DisplayOptions(width=columns + 1, plain=True)).decode()
    lines = text.replace("\r", "").split("\n")
    assert all(len(line) <= columns for line in lines), topic
    return lines


def joined(lines: list[str]) -> str:
    """Wrapped lines as one; a word longer than a line may be cut anywhere."""
    return "".join("".join(lines).split())


FOR_MODELS = re.compile(r"\n    For models:\n(        .*\n|\n(?=        ))+")
"""The section of a docstring that people are not shown."""


def check_shown(docstring: str, lines: list[str]) -> None:
    shown = joined(lines)
    for sentence in sentences(docstring):
        assert "".join(sentence.split()) in shown, sentence


def test_sentences_of_a_docstring_are_found() -> None:
    docstring = """Do it.

    One: two. Three
    goes on; four.

    Args:
        name: a thing. It
            is red.
    """
    assert sentences(docstring) == [
        "Do it", "One: two.", "Three goes on;", "four.", "a thing.", "It is red.",
    ]  # fmt: skip


@in_one_loop
@at_widths
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
async def test_every_sentence_of_a_verb_is_shown(alice: Someone, verb: Verb, columns: int) -> None:
    lines = await help_at(alice, verb.name, columns)
    assert verb.run.__doc__
    check_shown(FOR_MODELS.sub("", verb.run.__doc__), lines)
    shown = joined(lines)
    for part in (verb.usage, *verb.examples, *(known.help for known in verb.parameters)):
        assert "".join(part.split()) in shown, part
    for known in verb.parameters:
        assert any(known.option in line for line in lines), known.name
    if verb.needs:
        assert "".join(verb.rights.split()) in shown


@in_one_loop
@at_widths
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
async def test_every_sentence_of_a_group_is_shown(
    alice: Someone, group: VerbGroup, columns: int
) -> None:
    lines = await help_at(alice, group.name, columns)
    check_shown(f"{group.summary}.\n\n{group.detail}", lines)
    shown = joined(lines)
    for verb in group.verbs:
        assert "".join(verb.usage.split()) in shown
        assert "".join(verb.summary.split()) in shown
    if group.default:
        assert "".join(f"/{group.name} alone is /{group.name} {group.default}.".split()) in shown


@in_one_loop
@at_widths
async def test_help_index_lists_every_verb_and_group(alice: Someone, columns: int) -> None:
    shown = joined(await help_at(alice, "", columns))
    for entry in every_entry():
        assert f"/{entry.name}{''.join(entry.summary.split())}" in shown


@in_one_loop
async def test_flags_are_shown_as_they_are_typed(alice: Someone) -> None:
    shown = dict((await do(alice, "/help shell")).arguments)
    assert shown["--timeout TIMEOUT"] == "seconds after which it is ended."
    assert "--yes" in dict((await do(alice, "/help gc orphans")).arguments)


@in_one_loop
@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("/gc --help", "gc"),
        ("/gc purge --help", "gc purge"),
        ("/look --help", "look"),
        ("/shell --help", "shell"),
        ("/tool new --help", "tool new"),
        ("/mem project get --help", "mem project get"),
        ("/mem session set --help", "mem session set"),
        ("/mem project --help", "mem project"),
        ("/look north --help", "look"),
        ("/file edit notes.md --help", "file edit"),
        ("/file put notes.md --help", "file put"),
        ("/search relay --help", "search"),
        ("/file edit -h", "file edit"),
        ("/file -h", "file"),
    ],
)
async def test_help_flag_alone_asks_for_help(alice: Someone, line: str, topic: str) -> None:
    assert await do(alice, line) == await do(alice, f"/help {topic}")


@in_one_loop
async def test_help_flag_alone_asks_for_help_also_of_a_verb_that_takes_a_text(
    alice: Someone,
) -> None:
    assert await do(alice, "/me --help") == await do(alice, "/help me")
    await do(alice, "/me needs --help")  # a text


@in_one_loop
async def test_help_of_a_first_word_lists_its_actions(alice: Someone) -> None:
    shown = await do(alice, "/help mem project")
    usages = [usage for usage, _ in shown.verbs]
    assert any(usage.startswith("/mem project get KEY") for usage in usages)
    assert all(usage.startswith("/mem project ") for usage in usages)


@in_one_loop
async def test_help_on_an_unknown_action_is_refused(alice: Someone) -> None:
    for group in GROUPS:
        for topic in (f"{group.name} nothing", f"{group.name} {group.verbs[0].action} more"):
            refusal = await refused(alice, f"/help {topic}")
            assert refusal.message == f"Unknown help topic {topic}."
            hint = refusal.hint_for(PERSON)
            if not hint.startswith("Did you mean /help "):
                assert hint == f"/{group.name} has {', '.join(group.actions)}."


PAGES = [
    "",
    *(group.name for group in GROUPS),
    *(verb.name for verb in VERBS),
    *load_help_topics(),
]
SECOND_COLUMN = re.compile(r" +\S.*? {2,}(?=\S)")
COMMENT = re.compile(r" +-- ")
OPTION = re.compile(r"\[[^]]*\]\S*")


def indentation(row: str) -> int:
    return len(row) - len(row.lstrip())


def check_hang(text: str, rows: list[str]) -> None:
    """Rows after the first are below the second column, or at least indented further.

    Those of a comment begin as the comment does, and their text is indented further.
    """
    if (mark := COMMENT.match(text)) is not None:
        assert all(row.startswith(f"{mark[0]}  ") for row in rows[1:]), rows
        return
    column = SECOND_COLUMN.match(text)
    beside = column is not None and len(rows[0]) > column.end()
    least = column.end() if column is not None and beside else indentation(text) + 2
    for row in rows[1:]:
        assert indentation(row) >= least, rows


@in_one_loop
@at_widths
@pytest.mark.parametrize("page", PAGES)
async def test_wrapped_rows_of_every_page_are_indented(
    alice: Someone, page: str, columns: int
) -> None:
    drawn = draw_result(await do(alice, f"/help {page}".strip()))
    for part in drawn.lines:
        assert isinstance(part, Line)
        text = part.plain()
        rows = list(wrap_line(part, DisplayOptions(width=columns + 1, plain=True)))
        options = [option for option in OPTION.findall(text) if len(option) <= columns - 6]
        if text.startswith(("/", "  /")) and not any("[[" in option for option in options):
            assert all(any(option in row for row in rows) for option in options), rows
        indented = text.startswith(" ") and page in load_help_topics()
        if indented or part.last_column is not None or part.breaks_between_spans:
            check_hang(text, rows)
        else:
            assert all(indentation(row) >= part.hang for row in rows[1:]), rows


@pytest.mark.parametrize("topic", load_help_topics())
def test_help_topics_fit_80_columns(topic: str) -> None:
    text = load_help_topics()[topic]
    assert "`" not in text
    assert [line for line in text.split("\n") if line.startswith(" ") and len(line) > 78] == []


@pytest.mark.parametrize("topic", ["skill", "skill new", "skill show"])
@in_one_loop
async def test_help_of_skills_says_who_can_read_them(alice: Someone, topic: str) -> None:
    text = " ".join(" ".join(await help_at(alice, topic, 80)).split())
    assert re.search(r"everyone on (it|the server) can read", text)
