"""What a model's context says of memory and of the server's environment."""

from __future__ import annotations

from pathlib import Path

from sshwarma.common.environment import describe_environment, find_shell, find_system
from sshwarma.common.limits import MAX_CONTEXT_MEMORY_KEYS, MAX_PROJECT_NOTE_CHARACTERS
from sshwarma.wrap.profiles import ContextProfile
from wrap.setting import Setting


def test_the_environment_names_the_start_only_where_it_differs() -> None:
    assert describe_environment("Linux", "zsh", "/a", "/a") == "OS: Linux, Shell: zsh, CWD: /a"
    assert describe_environment("Linux", "zsh", "/a/", "/a") == "OS: Linux, Shell: zsh, CWD: /a/"
    assert describe_environment("Linux", "zsh", "/a", None) == "OS: Linux, Shell: zsh, CWD: /a"
    assert describe_environment("Linux", "zsh", "/a", "/b").endswith("CWD: /a, Initial CWD: /b")


def test_system_and_shell_are_named() -> None:
    assert find_system({}) in ("Linux", "Linux (WSL)", "macOS")
    assert find_system({"WSL_DISTRO_NAME": "Debian"}) in ("Linux (WSL: Debian)", "macOS")
    assert find_shell({"SHELL": "/usr/bin/zsh"}) == "zsh"
    assert find_shell({"SHELL": "/bin/bash", "FISH_VERSION": "4"}) == "fish"
    assert find_shell({}) == "unknown"


async def test_memory_is_explained_to_a_model_that_has_its_tools(setting: Setting) -> None:
    system = (await setting.received()).system
    assert "few on purpose" in system
    for words in ("target_session_key", "from_session_key", "session_memory_"):
        assert words in system
    assert "global__load_room with memory loads those tools." in system
    assert "OS: " in system and ", CWD: " in system and "Initial CWD" not in system
    await setting.does("/equip room memory:*")
    assert "loads those tools" not in (await setting.received()).system
    await setting.does("/unequip room memory:*")
    assert "few on purpose" not in (await setting.received()).system


async def test_the_directory_of_a_room_is_named_beside_that_of_the_start(
    setting: Setting, tmp_path: Path
) -> None:
    await setting.does(f"/state directory {tmp_path}")
    system = (await setting.received()).system
    assert f"CWD: {tmp_path}, Initial CWD: {setting.services.projects.start_directory}" in system


async def test_keys_are_named_and_the_note_is_there(setting: Setting) -> None:
    assert not {"keys", "project"} & {layer.name for layer in (await setting.received()).layers}
    await setting.does("/mem project set plan = x")
    await setting.does("/mem session set draft = x")
    await setting.does("/mem project set note = Ask alice\n[Request of bob]\n<bob> first.")
    told = [one.text for one in (await setting.received()).messages]
    text = "\n".join(told)
    path = setting.services.projects.pinned_project
    assert f"  Keys in the memory of the project {path}: note, plan" in text
    assert "  Keys in session memory: draft" in text
    assert "[Note of the project]\n  Ask alice\n  [Request of bob]\n  <bob> first." in text


async def test_many_keys_are_counted_and_a_long_note_is_cut(setting: Setting) -> None:
    for number in range(MAX_CONTEXT_MEMORY_KEYS + 3):
        await setting.does(f"/mem session set k{number} = x")
    note = "plan it " * (MAX_PROJECT_NOTE_CHARACTERS // 8)
    await setting.does(f"/mem project set note = {note}beyond")
    told = "\n".join(one.text for one in (await setting.received()).messages)
    assert ", and 3 more" in told
    assert note.rstrip() in told and "beyond" not in told


async def test_a_small_model_reads_nothing_of_it(setting: Setting) -> None:
    await setting.does("/mem project set plan = x")
    composed = await setting.received(profile=ContextProfile("small", "few"))
    assert not {"memory", "keys", "project"} & {layer.name for layer in composed.layers}


async def test_keys_that_would_be_unclear_in_a_list_are_in_quotes(setting: Setting) -> None:
    for line in ("/mem project set ' a ' = x", "/mem project set 'b, c' = x"):
        await setting.does(line)
    told = "\n".join(one.text for one in (await setting.received()).messages)
    assert '" a ", "b, c"' in told
