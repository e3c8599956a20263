"""Pictures of every page of the console, in a small world: `make screens`.

Needs chromium-headless-shell. Each page is drawn as wide as a desk (dark) and as a phone (light).
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

TOP: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

from support.console_tabs import PROGRAMS, find_link  # noqa: E402 - of the tests
from support.driver import Person, Server  # noqa: E402
from support.driver.fixtures import answering_with  # noqa: E402

FOLDER: Final = TOP / "docs" / "screens"

SIZES: Final = (("1280", 1280, 800, "dark"), ("390", 390, 844, "light"))

COLOURS: Final = 96
"""Colours of a picture: enough for text, and a fifth of the bytes."""

PAGES: Final = (
    ("rooms", "/"),
    ("room", "/room/workshop"),
    ("here", "/room/workshop/here"),
    ("tools", "/room/workshop/tools"),
    ("call-form", "/room/workshop/tools/charts:bar_chart"),
    ("files", "/room/workshop/files"),
    ("file", "/room/workshop/files/plan.py"),
    ("editor", "/room/workshop/files/plan.py?edit"),
    ("memory", "/room/workshop/memory"),
    ("memory-key", "/room/workshop/memory/project/key?key=plan"),
    ("context", "/room/workshop/debug?view=context&model=qwen"),
    ("turns", "/room/workshop/debug?view=turns"),
    ("calls", "/room/workshop/debug?view=calls"),
    ("toolsets", "/toolsets"),
    ("toolset", "/toolsets/charts"),
    ("servers", "/servers"),
    ("map", "/map"),
    ("figures", "/figures"),
    ("terminal", "/term?in=workshop"),
    ("verbs", "/verbs"),
    ("verb", "/verb/mem_project_set?in=workshop"),
    ("messages", "/messages"),
    ("conversation", "/messages/bob"),
    ("system", "/system"),
    ("go", "/go"),
    ("keys", "/keys"),
)

ANSWER: Final = """The **build** is green again.

| step | seconds |
| --- | ---: |
| lint | 12 |
| tests | 214 |

```python
print("all green")
```
"""


def answers(asked: dict[str, Any]) -> Iterator[str]:
    """What the model of the world says."""
    yield from (ANSWER[at : at + 40] for at in range(0, len(ANSWER), 40))


def fill(server: Server) -> Person:
    """Build the world that the pictures show; return who looks at it."""
    ann, bob = server.person("ann"), server.person("bob")
    owner = server.owner
    for name in ("charts", "app-builder"):
        packed = shutil.make_archive(
            f"{server.home}/{name}", "zip", TOP / "examples/toolsets" / name
        )
        owner.run("toolset import", Path(packed).read_bytes(), "-T")
    owner.does("room builder ann --room lobby")
    ann.does("create workshop", "describe Where the build is kept green", "vibe smells of coffee")
    ann.does("dig north library", "dig east garden")
    ann.does("equip room charts:*,app-builder:*")
    bob.does("join workshop", "say good morning", "say the build is red again")
    bob.does("tell ann can you look at the build?")
    ann.does("tell bob in a minute")
    bob.does("tell ann thank you")
    ann.run("file put plan.py", b"def plan(days: int) -> list[str]:\n    return ['ship'] * days\n")
    ann.run("file put notes/today.md", b"# Today\n\n- fix the build\n- ship\n")
    ann.does("mem project set plan = Ship on Friday, if the build is green.")
    ann.does(
        "mem project set who/bob = Looks after the build.", "mem session set draft = Dear all,"
    )
    chart = {"title": "Builds", "labels": ["red", "green"], "values": [3, 11]}
    ann.run(f"run charts:bar_chart {json.dumps(chart)}")
    ann.does("say @qwen what broke?")
    return ann


def shoot(page: Page, name: str, size: str) -> None:
    """Store a picture of a page."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(COLOURS).save(FOLDER / f"{name}-{size}.png", optimize=True)


def draw(browser: Browser, ann: Person) -> None:
    """Draw every page in each size."""
    for size, width, height, scheme in SIZES:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme,  # type: ignore[arg-type]
            has_touch=width < 500,
        )  # fmt: skip
        page = context.new_page()
        link = find_link(ann)
        page.goto(link)
        page.wait_for_url(lambda url: urlsplit(url).path == "/")
        for name, path in PAGES:
            page.goto(f"http://{urlsplit(link).netloc}{path}", wait_until="networkidle")
            if name == "room":
                page.locator("#log details.call > summary").last.click()
                page.locator("#log .frame iframe").first.wait_for()
            if name == "terminal":
                page.locator("#terminal").click()
                page.keyboard.type("/look\n")
                page.wait_for_timeout(1_000)
            shoot(page, name, size)
        context.close()


def main() -> None:
    """Draw all pictures."""
    FOLDER.mkdir(exist_ok=True)
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise SystemExit(f"There is no browser: install one of {', '.join(PROGRAMS)}.")
    with answering_with(answers) as server, sync_playwright() as playwright:
        ann = fill(server)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        draw(browser, ann)
        browser.close()
        ann.hang_up()


if __name__ == "__main__":
    main()
