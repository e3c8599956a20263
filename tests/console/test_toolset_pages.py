"""The pages of toolsets: import, switch, decisions, export, uninstall."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from console.test_for_everybody import DESK, PHONE, find_violations
from support.console_tabs import Tabs
from support.driver import Person
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack

pytestmark = needs_bubblewrap

MakePerson = Callable[..., Person]

HOSTILE = '"<script>alert(1)</script> \\u202eevil"'


@pytest.fixture
def ann(person: MakePerson, name: Callable[[str], str]) -> Person:
    """An admin in a room of her own."""
    one = person("ann", role="admin")
    one.does(f"create {name('bench')}")
    return one


def send(page: Page, archive: bytes) -> str:
    """Import a file, and return what is said then."""
    page.evaluate("() => { document.getElementById('managed-answer').textContent = ''; }")
    page.locator("#import-file").set_input_files(
        {"name": "kit.zip", "mimeType": "application/zip", "buffer": archive}
    )
    page.get_by_role("button", name="Import").click()
    return answer(page)


def answer(page: Page) -> str:
    page.wait_for_function("() => document.getElementById('managed-answer').textContent !== ''")
    return page.locator("#managed-answer").inner_text()


def press(page: Page, button: str) -> str:
    """Press a button, and return what is said then."""
    page.evaluate("() => { document.getElementById('managed-answer').textContent = ''; }")
    page.get_by_role("button", name=button, exact=True).click()
    return answer(page)


def test_toolset_is_imported_upgraded_and_refused_by_its_field(
    ann: Person, name: Callable[[str], str], tabs: Tabs
) -> None:
    kit_id, page = name("kit"), tabs(ann, "/toolsets")
    page.evaluate(
        "() => { window.said = []; new MutationObserver(() => said.push(document.getElementById("
        "'import-state')?.textContent)).observe(document.getElementById('managed'),"
        " { subtree: true, childList: true }); }"
    )
    bad = kit(kit_id, functions=("ask",))
    bad["toolset.yaml"] = bad["toolset.yaml"].replace("version:", "versoin:")
    said = send(page, pack(bad))
    assert "version" in said, said
    assert any("sent" in str(one) for one in page.evaluate("() => said"))
    assert page.get_by_role("link", name=f"Export {kit_id}").count() == 0
    assert "toolset.yaml" in send(page, pack({"x.txt": "x"}))
    assert f"Installed {kit_id} 1.0" in send(page, pack(kit(kit_id, functions=("ask",))))
    page.get_by_text(f"{kit_id} 1.0, 1 tool").wait_for()
    said = send(page, pack(kit(kit_id, "2.0", functions=("ask", "fail"))))
    assert f"Upgraded {kit_id} from 1.0 to 2.0" in said and "New: fail" in said
    page.get_by_text(f"{kit_id} 2.0, 2 tools").wait_for()
    assert ann.json(f"toolset show {kit_id}")["toolset"]["installed_over"] == "the console"
    ann.does(f"toolset uninstall {kit_id} --yes")
    page.get_by_text(f"{kit_id} 2.0, 2 tools").wait_for(state="detached")


def test_dropped_file_is_chosen(ann: Person, tabs: Tabs) -> None:
    page = tabs(ann, "/toolsets")
    page.evaluate(
        "() => { const data = new DataTransfer(); data.items.add(new File(['x'], 'dropped.zip'));"
        " document.querySelector('.drop').dispatchEvent(new DragEvent('drop',"
        " { bubbles: true, cancelable: true, dataTransfer: data })); }"
    )
    assert page.locator("#import-file").input_value().endswith("dropped.zip")
    page.get_by_role("button", name="Import").click()
    assert "zip" in answer(page).lower()


def test_switch_decisions_export_and_uninstall_agree_with_the_verbs(
    ann: Person, name: Callable[[str], str], tabs: Tabs
) -> None:
    kit_id = name("kit")
    ann.run("toolset import", pack(kit(kit_id, functions=("ask",))), "-T")
    page = tabs(ann, f"/toolsets/{kit_id}")
    (file, *_) = ann.json(f"toolset show {kit_id}")["files"]
    assert file["sha256"] in page.locator("table").inner_text()
    assert "Disabled" in press(page, "Disable")
    page.get_by_text("disabled: nobody sees its tools").wait_for()
    assert f"{kit_id}:ask" not in ann.does("inv all")
    assert "Enabled" in press(page, "Enable")
    page.get_by_role("button", name="Disable", exact=True).wait_for()
    tool = f"{kit_id}:ask"
    page.locator("summary").click()
    press(page, f"Ask first {tool}")
    page.get_by_text("asks first", exact=True).wait_for()
    page.get_by_label(f"Title of {tool}").fill("Asks it")
    assert "Asks it" in press(page, f"Save Title of {tool}")
    renderer = page.get_by_label(f"Renderer (JSON) of {tool}")
    renderer.fill('{"type": "code", "colour": 1}')
    assert "renderer.colour" in press(page, f"Save Renderer (JSON) of {tool}")
    assert renderer.input_value() == '{"type": "code", "colour": 1}'
    renderer.fill('{"type": "code", "content": "$return"}')
    press(page, f"Save Renderer (JSON) of {tool}")
    page.get_by_text("shown as code").wait_for()
    shown = ann.json(f"toolset show {kit_id}")["tools"][0]
    assert (shown["name"], shown["renderer"], shown["confirms"]) == ("Asks it", "code", True)
    assert shown["renderer_config"] == {"content": "$return"}
    assert '"content": "$return"' in renderer.input_value()
    press(page, f"Disable {tool}")
    page.get_by_role("button", name=f"Enable {tool}").wait_for()
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Export").click()
    path = downloading.value.path()
    exported = ann.run(f"toolset export {kit_id}", b"", "-T").raw
    assert names_in(path.read_bytes()) == names_in(exported)
    assert downloading.value.suggested_filename == f"{kit_id}-1.0.zip"
    ann.does(f"equip room {kit_id}:*")
    page.get_by_role("link", name="Uninstall").click()
    page.get_by_text(f"This uninstalls {kit_id} with 1 tool: ask. It is equipped in").wait_for()
    assert ann.run(f"toolset show {kit_id}").status == 0
    assert f"Uninstalled {kit_id} with 1 tool." in press(page, f"Uninstall {kit_id}")
    assert ann.run(f"toolset show {kit_id}").status != 0
    page.wait_for_url("**/toolsets*")
    expect(page.locator("#managed")).not_to_contain_text(kit_id)


def test_typed_text_stays_while_the_page_is_fetched_again(
    ann: Person, name: Callable[[str], str], tabs: Tabs
) -> None:
    kit_id = name("kit")
    ann.run("toolset import", pack(kit(kit_id, functions=("ask",))), "-T")
    page, held = tabs(ann, f"/toolsets/{kit_id}"), list[Route]()
    page.route(f"**/toolsets/{kit_id}", lambda one: held.append(one))
    page.locator("summary").click()
    press(page, f"Ask first {kit_id}:ask")
    title = page.get_by_label(f"Title of {kit_id}:ask")
    title.fill("Half of a ti")
    assert held, "the page was not asked for"
    with page.expect_response(f"**/toolsets/{kit_id}") as answered:
        page.unroute(f"**/toolsets/{kit_id}")  # which lets it through
    answered.value.text()
    page.evaluate("() => new Promise(requestAnimationFrame)")
    assert title.input_value() == "Half of a ti"
    press(page, f"Save Title of {kit_id}:ask")
    page.get_by_text("asks first", exact=True).wait_for()


def names_in(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_who_is_no_admin_sees_toolsets_and_why_not_the_rest(
    ann: Person, bob: Person, name: Callable[[str], str], tabs: Tabs
) -> None:
    kit_id = name("kit")
    ann.run("toolset import", pack(kit(kit_id, functions=("ask",))), "-T")
    page = tabs(bob, "/toolsets")
    assert "Some of it is not for you: " in page.locator("#managed").inner_text()
    assert page.get_by_role("button", name="Import").is_disabled()
    assert page.locator("#import-file").is_disabled()
    page.get_by_role("link", name="Kit", exact=True).last.click()
    page.wait_for_url("**/toolsets/*")
    button = page.get_by_role("button", name="Disable", exact=True)
    assert button.is_disabled()
    button.evaluate("(button) => { button.disabled = false; }")
    assert "Permission denied" in press(page, "Disable")
    origin = page.url.partition("/toolsets")[0]
    refused = page.request.get(f"{origin}/toolsets/{kit_id}/export")
    assert refused.status == 403
    page.goto(f"{origin}/toolsets/{kit_id}/uninstall")
    assert "Permission denied" in page.locator("main").inner_text()
    page.goto(f"{origin}/toolsets/nosuch")
    assert "nosuch" in page.locator("main").inner_text()
    page.goto(f"{origin}/toolsets/{kit_id}")
    ann.does(f"toolset uninstall {kit_id} --yes")
    page.locator("#managed-answer", has_text=kit_id).wait_for()


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_pages_are_sound_and_hostile_words_are_text(
    ann: Person, name: Callable[[str], str], tabs: Tabs, size: dict[str, int]
) -> None:
    kit_id = name("kit")
    files = kit(kit_id, functions=("ask",))
    files["toolset.yaml"] += f"    description: {HOSTILE}\n"
    files["toolset.yaml"] += f"description: {HOSTILE}\n"
    files[f"assets/{'x' * 100}.txt"] = "x"
    done = ann.run("toolset import", pack(files), "-T")
    assert done.status == 0, done
    page = tabs(ann, "/toolsets", viewport=size)
    for path in ("/toolsets", f"/toolsets/{kit_id}", f"/toolsets/{kit_id}/uninstall"):
        page.goto(page.url.partition("/toolsets")[0] + path)
        if page.locator("summary").count():
            page.locator("summary").first.click()
        words = page.locator("#managed").inner_text()
        assert ("<script>alert(1)</script>" in words) == ("uninstall" not in path)
        assert "\u202e" not in words
        assert find_violations(page) == [], path
        wide = page.evaluate("() => document.documentElement.scrollWidth > innerWidth")
        assert not wide, f"{path} scrolls sideways"
    ann.does(f"toolset uninstall {kit_id} --yes")
