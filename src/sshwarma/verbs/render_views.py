"""How terminals show the results of tools that have a renderer.

The four renderers are for pages; here each has a form in text, and a way to the file if there is
one.
"""

from __future__ import annotations

from typing import Any, Final

from sshwarma.common.limits import MAX_ROW_PART_CHARACTERS
from sshwarma.terminal.highlight import draw_code_lines
from sshwarma.terminal.markdown_results import has_table, render_indented
from sshwarma.terminal.text import Line, Table, line, split_bold, split_text, text_lines
from sshwarma.tools.provider import find_printed
from sshwarma.tools.result_check import format_value
from sshwarma.toolsets.frame_page import find_frame_url
from sshwarma.verbs.rendered_file import read_content
from sshwarma.verbs.shell_command import write_ssh_command
from sshwarma.workspaces.languages import guess_language
from sshwarma.world.reader import Reader

PAGE_PROBLEM_KEY: Final = "page_problem"
"""Key of a plan that is shown: why there is no page of it."""


def draw_rendered_text(
    text: str, plan: dict[str, Any] | None, reader: Reader, value: Any, row: int = 0
) -> list[Line | Table]:
    """Draw the text of a result, unless its plan has it, and what the plan adds.

    `value` is the result itself, `row` the number of its row; 0 for one that has none.
    """
    rendered = draw_render_plan(plan, reader, value, row) if plan else []
    has_content = read_content(plan) is not None
    if rendered and has_content:
        if printed := find_printed(text):
            rendered += [line(("dim", "  printed:")), *text_lines(printed, indent=2)]
        return rendered
    if rendered and not text:
        return rendered
    if not reader.is_person:
        return [*text_lines(text, indent=2), *rendered]
    if has_table(text):
        return [*render_indented("  ", text), *rendered]
    return [*(line("  ", *split_bold(part), hang=2) for part in split_text(text)), *rendered]


def draw_render_plan(
    plan: dict[str, Any], reader: Reader, value: Any = None, row: int = 0
) -> list[Line | Table]:
    """Draw the plan of a result; empty if it has nothing but what the result says.

    `value` is the result itself, which is drawn anyway. `row` is as above.
    """
    config = plan.get("config")
    if not reader.is_person or not isinstance(config, dict):
        return []
    lines: list[Line | Table] = []
    file, content = config.get("file"), read_content(plan)
    match plan.get("renderer"):
        case "code" if content is not None:
            language = config.get("language")
            if language in (None, "auto"):
                is_text = isinstance(config.get("content"), str)
                known = guess_language(str(file or "")) if is_text else "json"
            else:
                known = str(language)
            shown = content[:MAX_ROW_PART_CHARACTERS].rstrip("\n")
            if known:
                lines += [line("  ", *spans) for spans in draw_code_lines(shown, known)]
            else:
                lines += text_lines(shown, indent=2)
        case "document" if content is not None:
            lines += render_indented("  ", content[:MAX_ROW_PART_CHARACTERS])
        case "html":
            lines += [*_draw_html(config, value), *_draw_page_command(plan, row)]
        case "frame" if (url := find_frame_url(config)) is not None:
            where = "" if isinstance(config.get("url"), str) else " on the machine of the server"
            lines += [line(("dim", "  page: "), f"{url}{where}"), *_draw_page_command(plan, row)]
    if isinstance(file, str) and file:
        verb = "file edit" if config.get("editable") is True else "file show"
        call = reader.name_call(verb, path=file)
        lines.append(line(("dim", "  open in workspace: "), ("verb", call)))
    problems = plan.get("problems")
    for problem in problems if isinstance(problems, list) else []:
        lines.append(line(("warn", f"  renderer: {problem}")))
    return lines


def _draw_html(config: dict[str, Any], value: Any) -> list[Line | Table]:
    """Draw a page by its name, and its data unless it is the result."""
    data, page = config.get("data"), f"  page {config.get('artifact')}"
    lines: list[Line | Table] = []
    if data == value:
        lines.append(line(("dim", f"{page}, with the result as its data")))
    else:
        text = format_value(data, indent=1)
        lines.append(line(("dim", f"{page}, with the data:")))
        lines += text_lines(text[:MAX_ROW_PART_CHARACTERS], indent=2)
    return lines


def _draw_page_command(plan: dict[str, Any], row: int) -> list[Line]:
    """Draw how to open a page in a browser, or why that is not possible."""
    if problem := plan.get(PAGE_PROBLEM_KEY):
        return [line(("dim", f"  {problem}"))]
    if not row:
        return []
    saves = f"{write_ssh_command('render', row=row)} > page.html"
    return [line(("dim", "  for a browser: "), ("verb", saves))]
