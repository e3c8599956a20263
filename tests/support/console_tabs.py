"""A real browser: a test fails if a page in one of its `tabs` complains."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from support.driver import Person

PROGRAMS = ("chromium-headless-shell", "chromium")

Tabs = Callable[..., Page]
"""Open a tab of a browser of its own in which somebody is signed in."""

_WATCH = """
window.complaints = [];
addEventListener("securitypolicyviolation", (event) => complaints.push(`${event.violatedDirective} ${event.blockedURI}`));
addEventListener("error", (event) => complaints.push(event.message));
addEventListener("unhandledrejection", (event) => complaints.push(String(event.reason)));
"""  # noqa: E501 - a line of script


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without a window; the test is skipped where none is installed."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"NO BROWSER: install one of {', '.join(PROGRAMS)}")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def tabs(browser: Browser) -> Iterator[Tabs]:
    """Open tabs; none may violate a policy, fail, or ask another host."""
    opened: list[tuple[Page, list[str]]] = []

    def open_tab(who: Person, path: str = "/", **options: object) -> Page:
        context = browser.new_context(**options)  # type: ignore[arg-type]
        context.add_init_script(_WATCH)
        page = context.new_page()
        page.set_default_timeout(20_000)
        complaints: list[str] = []
        link = find_link(who)
        host = urlsplit(link).netloc
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                complaints.append(request.url)
                if urlsplit(request.url).scheme != "data" and urlsplit(request.url).netloc != host
                else None
            ),
        )
        opened.append((page, complaints))
        if options.get("java_script_enabled", True):
            page.goto(link)
            page.wait_for_url(lambda url: urlsplit(url).path == "/")
            if path != "/":
                page.goto(f"http://{host}{path}")
        return page

    yield open_tab
    for page, complaints in opened:
        if page.url.startswith("http") and not page.is_closed():
            complaints += page.evaluate("() => window.complaints ?? []")
        page.context.close()
        assert complaints == []


def write_text(page: Page, field: str, text: str, *, adds: bool = False) -> None:
    """Type a text into the editor of a field, over what is there, or before it."""
    content = page.locator(f"{field} + .editor .cm-content")
    content.click()
    page.keyboard.press("Control+Home" if adds else "Control+a")
    if text:
        page.keyboard.insert_text(text)
    else:
        page.keyboard.press("Delete")


def find_link(who: Person, command: str = "web") -> str:
    """The link that `ssh HOST web` prints."""
    found = re.search(r"http\S+", who.run(command).out)
    assert found is not None
    return found[0]
