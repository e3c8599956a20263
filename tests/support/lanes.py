"""Lanes: which tests start processes or servers, and the check that no others do."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FOLDERS = ("lua_tools", "mcp_client", "mcp_server", "models/wire", "screens", "wire", "wrap")
"""Folders whose tests start processes or servers, or share them."""

FIXTURES = frozenset({"data_dir", "port", "serve", "shared_server", "ssh", "web"})
"""Fixtures that start one."""

ONE_LOOP = ("lua_tools", "wrap")
"""Folders whose tests run in one event loop, in which they share Lua hosts."""

LONGEST_FILES = (
    "wire/test_git_hostile.py", "wire/test_git_push.py",
    "tools/test_finding_rates.py", "wire/test_hostile_text.py", "cli/test_failures.py",
    "wire/test_mcp_servers.py", "wire/test_sftp_bursts.py", "wire/test_keeping.py",
    "wire/test_homeless.py", "mcp_server/test_tools.py", "wire/test_toolset_install.py",
    "wire/test_pipes.py", "wire/test_toolsets.py", "mcp_server/test_conformance.py",
    "wire/test_offer.py", "wire/test_tools.py", "mcp_server/test_presence.py",
    "mcp_client/test_stdio_servers.py", "world/test_reports.py", "wire/test_models.py",
    "wire/test_health.py", "wire/test_moving.py", "wire/test_operating.py",
    "wire/test_crash_recovery.py", "verbs/test_any_line.py", "test_words.py",
    "mcp_client/test_oauth_sign_in.py", "wrap/test_lua_exhaustion.py",
)  # fmt: skip
"""Files that take longest, the longest first. A worker runs a whole file: one that is begun last
keeps the others waiting."""

SAMPLED = frozenset({
    "admin/test_readable_worlds.py::"
    "test_world_that_no_server_could_read_is_neither_backed_up_nor_restored",
    "cli/test_failures.py::test_failure_is_one_sentence_with_what_to_do",
    "lua_tools/test_provider.py::test_script_error_names_its_line",
    "mcp_server/test_tools.py::test_token_scope_limits_listed_and_callable_tools",
    "models/wire/test_damaged_streams.py::test_damage_at_the_start_is_named",
    "models/wire/test_damaged_streams.py::test_damage_is_named_and_what_came_before_it_is_kept",
    "terminal/test_image_decoder.py::test_truncated_file_is_refused",
    "verbs/test_program_results.py::test_no_result_names_what_people_type",
    "wire/test_git_hostile.py::test_hostile_pack_is_refused_and_leaves_nothing",
    "wire/test_git_push.py::test_hostile_tree_is_refused_and_leaves_nothing",
    "wire/test_hostile_text.py::test_hostile_arguments_are_escaped",
    "wire/test_hostile_text.py::test_hostile_pipes_are_escaped",
    "wire/test_process.py::test_address_of_a_server_on_every_address_parses",
    "wire/test_sftp.py::test_what_is_no_file_of_a_workspace_cannot_be_changed",
    "world/test_loadout_sequences.py::test_load_then_unload_is_neutral",
    "world/test_reports.py::test_expressions_never_see_hidden_rows",
    "world/test_reports.py::test_forbidden_queries_are_refused",
    "world/test_reports.py::test_invalid_queries_are_refused",
    "world/test_reports.py::test_readable_tables_reveal_no_secret",
    "wrap/test_lua_exhaustion.py::test_endless_script_times_out",
    "wrap/test_lua_exhaustion.py::test_script_over_the_memory_limit_is_stopped",
})  # fmt: skip
"""Tests with many cases of one kind, each in a process or a server of its own. `make test` runs one
of CASES_PER_SAMPLE, `make test-all` all."""

CASES_PER_SAMPLE = 4

WITHOUT_PROCESSES = "not process and not soak and not long"
"""The marks that `make test-fast` selects by."""

STARTS = frozenset({"os.fork", "os.posix_spawn", "socket.bind", "subprocess.Popen"})
"""Audit events of Python at the start of a process or a server."""

_started: list[str] = []


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STARTS and arguments[:1] != ("uname",):  # asked by platform, once in a process
        _started.append(f"{event}{arguments!r}"[:200])


def watch() -> None:
    """Note every process and server that this process starts from now on."""
    sys.addaudithook(_listen)


def assign(items: list[pytest.Item]) -> None:
    """Mark tests `process` by folder or fixture; say which of them share a loop.

    The tests of LONGEST_FILES come first. Of SAMPLED tests, most cases are marked `soak`.
    """
    cases: Counter[str] = Counter()
    folders: dict[Path, str] = {}
    for item in items:
        place = item.path.parent
        if place not in folders:
            folders[place] = place.relative_to(item.config.rootpath / "tests").as_posix()
        folder = folders[place]
        if folder in ONE_LOOP and inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        if folder in FOLDERS or FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.process)
        test = f"{folder}/{item.path.name}::{getattr(item, 'originalname', '')}"
        if test in SAMPLED:
            if cases[test] % CASES_PER_SAMPLE:
                item.add_marker(pytest.mark.soak)
            cases[test] += 1
    first = {name: number for number, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: first.get("/".join(item.path.parts[-2:]), len(first)))


def is_left_out(path: Path, config: pytest.Config) -> bool:
    """Whether a run without processes need not even import what is in a directory."""
    if config.option.markexpr != WITHOUT_PROCESSES or not path.is_dir():
        return False
    return path.relative_to(config.rootpath).as_posix() in {f"tests/{name}" for name in FOLDERS}


def started() -> list[str]:
    """Return what was started since the last call."""
    found = _started.copy()
    _started.clear()
    return found
