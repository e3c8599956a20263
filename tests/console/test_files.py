"""The files of a room in a browser: their tree, each file, and changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page

from console.test_for_everybody import DESK, PHONE, find_violations
from console.test_sign_in import ask, sign_in
from sshwarma.common.limits import MAX_ARCHIVE_BYTES
from sshwarma.common.units import MIB
from support.console_tabs import Tabs, write_text
from support.copying import sftp
from support.driver import Person, Server
from support.images import encode_image, paint_flag


def put(who: Person, room: str, path: str, data: str | bytes) -> str:
    """Write a file over ssh; return the version that it makes."""
    return str(who.json(f"file put '{path}' --room {room}", data)["version"])


def read(who: Person, room: str, path: str) -> bytes:
    """The bytes of a file."""
    return who.run(f"file get '{path}' --room {room}").raw


def yes(page: Page) -> None:
    """Confirm what the page asks from now on."""
    page.on("dialog", lambda dialog: dialog.accept())


def save(page: Page, said: str) -> None:
    """Save what stands in the editor."""
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator("#files-answer", has_text=said).wait_for()


def test_tree_shows_what_others_do_without_reload(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    put(alice, room, "src/main.py", "x = 1\n")
    page = tabs(alice, f"/room/{room}/files", viewport=DESK)
    page.get_by_role("link", name="main.py").wait_for()
    page.locator("#panel", has_text=f"6 B {alice.name}").wait_for()
    lines = f"cd rooms/{room}/workspace", "mkdir deep", "put /etc/hostname deep/copied"
    assert sftp(alice, *lines).returncode == 0
    page.get_by_role("link", name="copied").wait_for()
    alice.run(f"shell --room {room} echo made > made.txt; echo more >> src/main.py")
    page.locator("li.file", has_text="added by the last run").filter(has_text="made.txt").wait_for()
    page.locator("li.file", has_text="changed by the last run").filter(
        has_text="main.py"
    ).wait_for()
    page.locator("summary", has_text="deep/").click()
    bob.run(f"file put said.txt --room {room}", "x")
    page.get_by_role("link", name="said.txt").wait_for()
    assert page.get_by_role("link", name="copied").is_hidden(), "a closed folder stays closed"
    alice.run(f"shell --room {room} rm made.txt")
    page.locator("li", has_text="removed by the last run").filter(has_text="made.txt").wait_for()


def test_files_are_uploaded_and_each_refusal_is_shown(
    alice: Person, room: str, tabs: Tabs, tmp_path: Path
) -> None:
    page = tabs(alice, f"/room/{room}/files")
    contents = {
        "one.txt": b"\x00\r\none",
        "a<b>.txt": b"two",
        "bad\u202ename.txt": b"three",
        "large.bin": b"x" * (MAX_ARCHIVE_BYTES + MIB),
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    page.locator("#files-upload").set_input_files([tmp_path / name for name in contents])
    page.get_by_role("button", name="Upload", exact=True).click()
    page.locator("#files-answer", has_text="3 of 4 files uploaded").wait_for()
    page.locator("#files-uploads li", has_text="must not contain U+202E").wait_for()
    page.get_by_role("link", name="a<b>.txt").wait_for()
    page.get_by_role("link", name="large.bin").wait_for()
    assert read(alice, room, "one.txt") == b"\x00\r\none"
    newest = alice.json(f"file history large.bin --room {room}")["versions"][0]
    assert (newest["source"], newest["size"] > MAX_ARCHIVE_BYTES) == ("user_upload", True)


def test_upload_that_comes_too_fast_is_sent_again(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}/files")
    page.route(
        "**/verb/file_put*", lambda route: route.fulfill(status=429, body="Too fast"), times=1
    )
    page.locator("#files-upload").set_input_files(
        {"name": "one.txt", "mimeType": "text/plain", "buffer": b"one"}
    )
    page.get_by_role("button", name="Upload", exact=True).click()
    page.locator("#files-answer", has_text="1 of 1 file uploaded").wait_for()
    assert read(alice, room, "one.txt") == b"one"


def test_dropped_files_are_uploaded_into_the_open_folder(
    alice: Person, room: str, tabs: Tabs
) -> None:
    put(alice, room, "docs/a.txt", "a")
    page = tabs(alice, f"/room/{room}/files")
    page.get_by_role("link", name="Open docs/").click()
    page.get_by_role("heading", name="docs/").wait_for()
    page.evaluate(
        """() => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File(["dropped"], "b.txt"));
          const panel = document.getElementById("panel");
          for (const type of ["dragover", "drop"]) {
            panel.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
          }
        }"""  # noqa: E501 - a line of script
    )
    page.get_by_role("link", name="b.txt").wait_for()
    assert read(alice, room, "docs/b.txt") == b"dropped"


def test_file_is_made_renamed_and_deleted(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}/files")
    yes(page)
    page.get_by_label("New file").fill("notes/first.md")
    page.get_by_role("button", name="Write it").click()
    write_text(page, "#file-text", "# Head\n")
    save(page, "Made notes/first.md")
    page.get_by_role("link", name="Show the file").click()
    page.locator(".file-text .s-heading", has_text="Head").wait_for()
    page.get_by_text("Rename or delete").click()
    page.get_by_label("New name").fill("notes/second.md")
    page.get_by_role("button", name="Rename").click()
    page.locator("#files-answer", has_text="Moved notes/first.md to notes/second.md").wait_for()
    page.get_by_role("link", name="second.md").click()
    page.get_by_role("heading", name="notes/second.md").wait_for()
    page.get_by_text("Rename or delete", exact=True).click()
    page.get_by_label("New name").fill("../out.md")
    page.get_by_role("button", name="Rename").click()
    page.locator("#files-answer", has_text="must not leave the workspace").wait_for()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.locator("#files-answer", has_text="Removed notes/second.md").wait_for()
    assert alice.json(f"files --room {room}")["count"] == 0


def test_two_versions_are_compared_and_one_is_restored(
    alice: Person, room: str, tabs: Tabs
) -> None:
    first = put(alice, room, "plan.md", "one\n")
    put(alice, room, "plan.md", "two\n")
    put(alice, room, "plan.md", "three\n")
    page = tabs(alice, f"/room/{room}/files/plan.md")
    yes(page)
    page.get_by_role("link", name="Versions").click()
    page.get_by_label(f"older {first[-6:]}").check()
    page.get_by_role("button", name="Compare the two").click()
    page.get_by_role("heading", name="plan.md: ").wait_for()
    shown = page.locator("#panel").inner_text()
    assert "-one" in shown and "+three" in shown and "two" not in shown
    page.go_back()
    page.get_by_role("button", name=f"Restore {first[-6:]}").click()
    page.locator("#files-answer", has_text="Restored plan.md").wait_for()
    page.locator("li.card", has_text=f"restore of {first[-6:]}").wait_for()
    assert read(alice, room, "plan.md") == b"one\n"
    page.get_by_role("link", name=f"Version {first[-6:]}").click()
    page.get_by_role("link", name="What it changed").or_(
        page.get_by_role("link", name="Compare with the present")
    ).first.wait_for()


def test_contents_are_searched_and_names_filtered(alice: Person, room: str, tabs: Tabs) -> None:
    put(alice, room, "src/main.py", "x = 1\n# ToDo <b>\n")
    put(alice, room, "readme.md", "nothing\n")
    page = tabs(alice, f"/room/{room}/files")
    page.get_by_label("Filter by name").press_sequentially("MAIN")
    page.get_by_role("link", name="readme.md").wait_for(state="hidden")
    assert page.get_by_role("link", name="main.py").is_visible()
    page.get_by_label("Filter by name").fill("*.md")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="main.py").wait_for(state="detached")
    page.get_by_label("Search in contents").fill("todo")
    page.keyboard.press("Enter")
    page.locator(".found li", has_text="# ToDo <b>").wait_for()
    page.get_by_label("Search in contents").fill("[")
    page.keyboard.press("Enter")
    page.locator("#panel", has_text="pattern").wait_for()


def test_hostile_files_are_shown_and_never_run(alice: Person, room: str, tabs: Tabs) -> None:
    evil = "<script>alert(1)</script> \x1b[31m \u202e </textarea><img src=x onerror=alert(2)>"
    for path in ("evil.html", "evil.svg", "evil.md", "<script>x</script>.txt"):
        put(alice, room, path, evil)
    put(alice, room, "pic.png", encode_image(paint_flag(20, 10)))
    put(alice, room, "broken.png", b"\x89PNG\r\n\x1a\n\0\0")
    page = tabs(alice, f"/room/{room}/files")
    base = page.url
    for path in ("evil.html", "evil.svg", "evil.md", "<script>x</script>.txt"):
        page.goto(f"{base}/{quote(path, safe='')}?raw=1")
        shown = page.locator(".file-text")
        assert "<script>alert(1)</script> ^[[31m <U+202E>" in shown.inner_text(), path
        assert shown.locator("script, img").count() == 0
        page.goto(f"{base}/{quote(path, safe='')}?edit")
        assert page.locator("#file-text").input_value() == evil
        answer = page.request.get(f"{base}/{quote(path, safe='')}?download")
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"].startswith("nosniff")
        assert answer.body() == evil.encode()
    page.goto(f"{base}/pic.png")
    assert page.locator(".file-text img").get_attribute("alt") == "image of 20 x 10 pixels"
    page.goto(f"{base}/broken.png")
    assert "cannot be shown" in page.locator(".file-text").inner_text()


def test_members_alone_read_files_and_paths_stay_inside(
    world: Server, alice: Person, bob: Person, room: str
) -> None:
    put(alice, room, "secret.txt", "secret")
    cookie = sign_in(world, bob)
    path = f"/room/{room}/files/secret.txt?download"
    assert ask(world, "GET", path, Cookie=cookie)[:2] == (200, "secret")
    for outside in ("..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "a/../../x"):
        status, text, _ = ask(world, "GET", f"/room/{room}/files/{outside}?download", Cookie=cookie)
        assert status in (404, 422), outside
        assert "root:" not in text
    alice.does(f"room private --room {room}")
    for query in ("", "?download", "?edit", "?versions", "?old=", "?changed-since=abc"):
        status, text, _ = ask(world, "GET", f"/room/{room}/files/secret.txt{query}", Cookie=cookie)
        assert status in (403, 404), query
        assert "6 B" not in text


def test_guest_reads_files_and_changes_none(
    person: Callable[..., Person], alice: Person, room: str, tabs: Tabs
) -> None:
    put(alice, room, "plan.md", "text\n")
    guest = person("guest", "guest")
    page = tabs(guest, f"/room/{room}/files")
    page.get_by_text("You can read these files, and not change them.").wait_for()
    assert page.locator("#files-upload").count() == 0
    page.get_by_role("link", name="plan.md").click()
    page.locator(".file-text", has_text="text").wait_for()
    assert page.get_by_role("link", name="Edit", exact=True).count() == 0
    page.goto(f"{page.url}?edit")
    assert page.locator("#file-text").count() == 0


def test_files_work_without_scripts(alice: Person, room: str, tabs: Tabs) -> None:
    put(alice, room, "plan.md", "one\n")
    page = tabs(alice, "/verbs")
    plain = tabs(alice, java_script_enabled=False, storage_state=page.context.storage_state())
    plain.goto(page.url.replace("/verbs", f"/room/{room}/files"))
    plain.locator("#files-add > summary").click()
    plain.locator("#files-upload").set_input_files(
        {"name": "up.txt", "mimeType": "text/plain", "buffer": b"up"}
    )
    plain.get_by_role("button", name="Upload", exact=True).click()
    plain.get_by_role("link", name="up.txt").wait_for()
    plain.get_by_role("link", name="plan.md").click()
    plain.get_by_role("link", name="Edit", exact=True).click()
    put(alice, room, "plan.md", "other\n")
    plain.locator("#file-text").fill("mine\n")
    plain.get_by_role("button", name="Save", exact=True).click()
    plain.get_by_text("both texts are kept").wait_for()
    plain.get_by_role("link", name=f"Compare with plan.md.from-{alice.name}").click()
    plain.get_by_role("button", name="Take your text").click()
    plain.locator(".file-text", has_text="mine").wait_for()
    assert read(alice, room, "up.txt") == b"up"
    assert read(alice, room, "plan.md") == b"mine\n"


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_pages_of_files_have_no_fault_that_axe_finds(
    alice: Person, room: str, tabs: Tabs, size: dict[str, int]
) -> None:
    put(alice, room, "src/plan.md", "# Head\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    version = put(alice, room, "src/plan.md", "# Head\n\nfirst\n")
    put(alice, room, f"src/plan.md.from-{alice.name}", f"# Head\n\n{'long ' * 60}\n")
    page = tabs(alice, f"/room/{room}/files", viewport=size)
    base = page.url
    for path in (
        "", "/src", "/src/plan.md", "/src/plan.md?edit", "/src/plan.md?versions", "?versions",
        f"?version={version}", f"?old={version}", "?search=Head", f"/src/plan.md?at={version}",
        f"/src/plan.md.from-{alice.name}", "?make=new.txt",
    ):  # fmt: skip
        page.goto(f"{base}{path}")
        assert find_violations(page) == [], path
        wide = page.evaluate("() => document.documentElement.scrollWidth > innerWidth")
        assert not wide, f"{path} scrolls sideways"


def test_room_of_two_thousand_files_opens_at_once(alice: Person, room: str, tabs: Tabs) -> None:
    alice.run(
        f"shell --room {room} for d in 1 2 3 4 5 6 7 8 9 10; do mkdir d$d; "
        "for f in $(seq 200); do echo $f > d$d/f$f.txt; done; done"
    )
    assert alice.json(f"files --room {room}")["count"] == 2_000
    page = tabs(alice, f"/room/{room}/files")
    assert page.locator("li.file").count() == 2_000
    assert page.get_by_role("link", name="f7.txt").first.is_hidden()
    page.get_by_label("Filter by name").fill("d7/f150")
    page.get_by_role("link", name="f150.txt").locator("visible=true").wait_for()
    assert page.locator("li.file").locator("visible=true").count() == 1


def test_download_of_a_file_is_a_file_of_the_browser(alice: Person, room: str, tabs: Tabs) -> None:
    put(alice, room, "page.html", "<h1>never drawn</h1>")
    page = tabs(alice, f"/room/{room}/files/page.html")
    with page.expect_download() as started:
        page.get_by_role("link", name="Download").click()
    assert started.value.suggested_filename == "page.html"
    assert started.value.path().read_text() == "<h1>never drawn</h1>"
    assert page.get_by_role("heading", name="page.html").is_visible()
