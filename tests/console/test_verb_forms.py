"""Verbs as forms: fields from the declaration, the same refusals as of a line."""

from __future__ import annotations

import json
from collections.abc import Callable

from playwright.sync_api import Page

from sshwarma.verbs.registry import every_verb
from support.console_tabs import Tabs, write_text
from support.driver import Person


def run(page: Page, button: str = "Run") -> str:
    """Send the form, and return what it gives."""
    page.evaluate("() => { document.getElementById('result').textContent = ''; }")
    page.get_by_role("button", name=button, exact=True).click()
    page.wait_for_function("() => document.getElementById('result').textContent !== ''")
    return page.locator("#result").inner_text()


def test_every_verb_has_a_form_with_its_arguments(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, "/verbs")
    listed = page.locator("main li a").all_inner_texts()
    assert sorted(listed) == sorted(verb.name for verb in every_verb())
    for verb in every_verb():
        answer = page.request.get(f"{page.url.rpartition('/')[0]}/verb/{verb.path}?in={room}")
        assert answer.status == 200, verb.name
        for parameter in verb.parameters:
            assert f'name="{parameter.name}"' in answer.text(), verb.name


def test_form_does_what_the_line_does(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/verb/note?in={room}")
    page.get_by_label("text").fill("first\nsecond")
    assert "[note] first" in run(page)
    assert "second" in alice.run(f"journal --room {room}").out
    page.goto(page.url.replace("/note", "/history_show"))
    page.locator("[name=n]").fill("0")
    page.locator("form#form").evaluate("(form) => { form.noValidate = true; }")
    refused = run(page)
    assert "greater than or equal to 1" in refused or "at least 1" in refused
    assert page.locator("[name=n]").input_value() == "0"


def test_all_arguments_can_be_one_json_object(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/verb/mem_session_set?in={room}")
    page.get_by_text("As JSON").click()
    page.locator("#as-json").fill(json.dumps({"key": "k", "value": "a\r\nb\t"}))
    run(page, "Run with this JSON")
    stored = json.loads(alice.run(f"mem session get k --room {room} --json").out)
    assert stored["value"] == "a\r\nb\t"
    page.locator("#as-json").fill("[1]")
    assert "must be an object" in run(page, "Run with this JSON")
    page.locator("#as-json").fill('{"key": "k", "value": "v", "nosuch": 1}')
    assert "nosuch" in run(page, "Run with this JSON")


def test_fields_complete_from_the_declaration(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/verb/join?in={room}")
    page.locator("[data-completes]").first.focus()
    page.locator("[data-completes]").first.fill("lob")
    page.locator("datalist option[value=lobby]").wait_for(state="attached")


def test_what_one_may_not_do_says_why(bob: Person, room: str, tabs: Tabs) -> None:
    page = tabs(bob, "/verb/token_new")
    for name in ("token_new", "keys_add", "keys_remove"):
        page.goto(f"{page.url.rpartition('/')[0]}/{name}")
        assert page.get_by_text("only over ssh").is_visible()
        assert page.get_by_role("button", name="Run", exact=True).is_disabled()
    page.goto(page.url.replace("keys_remove", "ban"))
    assert page.get_by_role("button", name="Run", exact=True).is_disabled()


def test_form_works_without_scripts(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, "/verbs")
    plain = tabs(alice, java_script_enabled=False, storage_state=page.context.storage_state())
    plain.goto(page.url.replace("/verbs", f"/verb/note?in={room}"))
    plain.get_by_label("text").fill("without a script")
    plain.get_by_role("button", name="Run", exact=True).click()
    assert "[note]" in plain.locator("#result").inner_text()
    plain.goto(page.url.replace("/verbs", "/verb/nosuch"))
    assert "There is no verb nosuch" in plain.locator("main").inner_text()


def test_listed_values_are_a_select_and_lua_has_an_editor(
    alice: Person, owner: Person, room: str, tabs: Tabs
) -> None:
    page = tabs(owner, "/verb/model_add")
    kind = page.locator("select[name=kind]")
    assert "ollama" in kind.locator("option").all_inner_texts()
    page.goto(page.url.replace("model_add", "tool_set"))
    assert page.locator("select[name=field] option").all_inner_texts()[1:] == [
        "approval", "name", "renderer",
    ]  # fmt: skip
    assert "allows them" in page.locator("#about-value").inner_text()
    page = tabs(alice, f"/verb/tool_new?in={room}")
    page.locator("[name=name]").fill("dice")
    write_text(page, "#field-text", "-- rolls\nreturn 'rolled'")
    page.locator("#field-text + .editor .s-code-keyword", has_text="return").wait_for()
    assert "in Lua" in page.locator("#about-text").inner_text()
    assert "dice" in run(page)
    assert "rolled" in alice.run(f"run dice --room {room}").out
    page.goto(page.url.replace("tool_new", "lua"))
    write_text(page, "#field-text", "6 * 7")
    assert "42" in run(page)
    page.goto(page.url.replace("/lua", "/trigger_new"))
    page.locator("#field-text + .editor").wait_for()


def test_lists_say_how_they_are_typed(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/verb/equip?in={room}")
    assert "One value per line." in page.locator("main").inner_text()


def test_refusal_of_two_texts_speaks_of_no_signs(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/verb/mem_project_set?in={room}")
    page.locator("[name=key]").fill("k")
    page.locator("[name=value]").fill("v")
    page.locator("[name=from_session_key]").fill("other")
    assert "Give either a text or the key to copy from, not both." in run(page)


def test_model_is_set_by_the_names_of_the_form_that_adds_it(
    owner: Person, name: Callable[[str], str], tabs: Tabs
) -> None:
    model = name("luna")
    owner.does(f"model add {model} ollama qwen3:8b --url http://127.0.0.1:9/")
    page = tabs(owner, "/verb/model_set")
    page.locator("[name=name]").fill(model)
    page.get_by_text("As JSON").click()
    given = {"name": model, "field": "url", "value": "http://127.0.0.1:10/"}
    page.locator("#as-json").fill(json.dumps(given))
    assert f"base_url of {model} is now: http://127.0.0.1:10/" in run(page, "Run with this JSON")
    owner.does(f"model remove {model}")
