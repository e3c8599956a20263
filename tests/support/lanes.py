"""Lanes: which tests start processes or servers, and the check that no others do."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FOLDERS = (
    "console",
    "lua_tools",
    "mcp_client",
    "mcp_server",
    "models/wire",
    "screens",
    "wire",
    "wrap",
)
"""Folders whose tests start processes or servers, or share them."""

FIXTURES = frozenset({"data_dir", "port", "serve", "shared_server", "ssh", "web"})
"""Fixtures that start one."""

ONE_LOOP = ("lua_tools", "wrap")
"""Folders whose tests run in one event loop, in which they share Lua hosts."""

LONGEST_FILES = (
    "wire/test_git_push.py", "wire/test_mcp_servers.py", "wire/test_sftp_bursts.py",
    "wire/test_keeping.py", "wire/test_hostile_text.py", "cli/test_failures.py",
    "wire/test_git_hostile.py", "mcp_server/test_tools.py", "wire/test_toolset_install.py",
    "wire/test_pipes.py", "wire/test_toolsets.py", "mcp_server/test_conformance.py",
    "wire/test_offer.py", "wire/test_tools.py", "mcp_server/test_presence.py",
    "mcp_client/test_stdio_servers.py", "world/test_reports.py", "wire/test_models.py",
    "wire/test_health.py", "wire/test_moving.py", "wire/test_operating.py",
    "wire/test_crash_recovery.py", "verbs/test_any_line.py", "test_words.py",
    "mcp_client/test_oauth_sign_in.py", "wrap/test_lua_exhaustion.py",
)  # fmt: skip
"""Files that take longest, the longest first. A worker runs a whole file: one that is begun last
keeps the others waiting."""

UNITS_TWICE = frozenset({
    "admin/test_import_operations.py", "admin/test_operations.py", "admin/test_same_moment.py",
    "imports/test_taking.py", "models/test_own_equipment.py", "models/test_surrogates.py",
    "models/test_turn_budgets.py", "models/test_turn_stop.py", "models/test_turns_run_again.py",
    "tools/test_withdrawn_questions.py", "toolsets/test_stopped_changes.py",
    "verbs/test_equip_role.py", "verbs/test_export.py", "verbs/test_keys.py",
    "verbs/test_scopes.py", "verbs/test_spellings.py", "workspaces/test_runs.py",
    "world/test_exits.py", "world/test_memory.py", "world/test_movement.py",
    "world/test_room_copies.py", "world/test_things.py",
})  # fmt: skip
"""Files whose units of work always run twice (support/units_twice.py), here and in CI: they have
most units for their time, so that one which cannot be run again is found before the commit. All
others run as the program does; `--units=twice` runs them twice, too."""

SAMPLED = frozenset({
    "admin/test_backup_files.py::test_hostile_files_of_a_backup_are_refused",
    "admin/test_hostile_backups.py::test_a_damaged_archive_is_refused",
    "admin/test_hostile_backups.py::test_database_with_what_no_version_makes_is_refused",
    "admin/test_readable_worlds.py::"
    "test_world_that_no_server_could_read_is_neither_backed_up_nor_restored",
    "cli/test_failures.py::test_failure_is_one_sentence_with_what_to_do",
    "lua_tools/test_provider.py::test_script_error_names_its_line",
    "mcp_server/test_tools.py::test_token_scope_limits_listed_and_callable_tools",
    "models/wire/test_damaged_streams.py::test_damage_at_the_start_is_named",
    "models/wire/test_damaged_streams.py::test_damage_is_named_and_what_came_before_it_is_kept",
    "models/wire/test_providers.py::test_failed_request_is_retried_only_where_it_helps",
    "sandbox/test_hoarding.py::test_program_that_hides_what_it_takes_is_ended",
    "terminal/test_image_decoder.py::test_truncated_file_is_refused",
    "verbs/test_program_results.py::test_no_result_names_what_people_type",
    "verbs/test_scopes.py::test_read_scope_changes_nothing",
    "wire/test_git_hostile.py::test_hostile_pack_is_refused_and_leaves_nothing",
    "wire/test_git_malformed.py::test_malformed_object_is_refused_by_its_id_and_leaves_nothing",
    "wire/test_git_push.py::test_hostile_tree_is_refused_and_leaves_nothing",
    "wire/test_hostile_text.py::test_hostile_arguments_are_escaped",
    "wire/test_hostile_text.py::test_hostile_pipes_are_escaped",
    "wire/test_json_output.py::test_refusals_are_valid_json",
    "wire/test_lost_access.py::test_answer_ends_and_calls_nothing",
    "wire/test_models.py::test_invalid_model_command_is_refused",
    "wire/test_process.py::test_address_of_a_server_on_every_address_parses",
    "wire/test_sftp.py::test_what_is_no_file_of_a_workspace_cannot_be_changed",
    "wire/test_sftp_git_names.py::test_repository_cannot_be_changed_by_sftp",
    "wire/test_toolset_install.py::test_unusable_toolset_is_refused_and_leaves_nothing",
    "wire/test_toolset_mistakes.py::test_mistake_in_code_is_refused_with_its_place",
    "wire/test_toolsets.py::test_failure_of_a_tool_is_an_error_of_its_call",
    "world/test_loadout_sequences.py::test_load_then_unload_is_neutral",
    "world/test_reports.py::test_expressions_never_see_hidden_rows",
    "world/test_reports.py::test_forbidden_queries_are_refused",
    "world/test_reports.py::test_invalid_queries_are_refused",
    "world/test_reports.py::test_readable_tables_reveal_no_secret",
    "wrap/test_compose.py::test_failing_hook_loses_only_its_layer_and_leaves_a_notice",
    "wrap/test_lua_exhaustion.py::test_endless_script_times_out",
    "wrap/test_lua_exhaustion.py::test_script_over_the_memory_limit_is_stopped",
})  # fmt: skip
"""Tests with many cases of one kind, each in a process or a server of its own. `make test` runs one
of CASES_PER_SAMPLE, `make test-all` all."""

CASES_PER_SAMPLE = 4

RARE = frozenset({
    "admin/test_database_copy.py::test_locked_database_on_a_nearly_full_disk_is_not_copied",
    "admin/test_doctor.py::test_server_that_does_not_answer_fails",
    "admin/test_replaced_world.py::test_damaged_world_keeps_its_log_when_a_restore_is_killed",
    "admin/test_replaced_world.py::test_restore_that_is_killed_leaves_the_old_world_or_the_new_one",
    "admin/test_upgrade.py::test_upgrades_that_are_killed_keep_one_copy",
    "admin/test_upkeep.py::test_files_that_somebody_reads_get_smaller_later",
    "admin/test_upkeep.py::test_unused_space_returns_to_the_disk",
    "cli/test_failures.py::test_answer_that_cannot_be_written_is_a_failure",
    "cli/test_failures.py::test_closed_standard_streams_are_no_failure",
    "cli/test_failures.py::test_server_that_is_stopped_is_reported_after_a_while",
    "console/test_terminal_socket.py::test_flood_of_ten_megabytes_costs_the_server_nothing",
    "console/test_terminal_socket.py::test_terminal_that_reads_nothing_is_dropped_and_costs_little",
    "lua_tools/test_provider.py::test_waiting_scripts_per_agent_are_limited",
    "mcp_client/test_elicitation.py::test_cancelled_call_ends_the_elicitation",
    "mcp_client/test_elicitation.py::test_concurrent_elicitations_are_asked_in_turn",
    "mcp_client/test_http.py::test_killed_server_is_down_at_once_and_reconnects",
    "mcp_client/test_http.py::test_reference_server_works_over_http",
    "mcp_client/test_oauth_sign_in.py::test_cancelled_call_does_not_cancel_the_token_refresh",
    "mcp_client/test_oauth_sign_in.py::test_denied_or_unanswered_sign_in_ends",
    "mcp_client/test_oauth_sign_in.py::test_token_about_to_expire_is_refreshed_first",
    "mcp_client/test_reference_servers.py::test_five_reference_servers_work",
    "mcp_client/test_reference_servers.py::test_idle_server_imports_no_mcp_sdk",
    "mcp_client/test_reference_servers.py::test_kills_leak_no_tasks_or_files",
    "mcp_client/test_stdio_servers.py::test_flood_of_messages_does_not_block_the_event_loop",
    "mcp_client/test_stdio_servers.py::test_program_that_floods_other_output_is_given_up",
    "mcp_client/test_stdio_servers.py::test_response_over_the_limit_fails_only_its_call",
    "mcp_server/test_over_ssh.py::test_inspector_works_over_http_and_ssh",
    "models/test_fit_results.py::test_every_request_of_a_turn_fits_the_context",
    "models/test_local_process.py::"
    "test_process_starts_with_the_first_question_and_again_after_a_crash",
    "models/test_pydantic_ai_backend.py::test_model_libraries_load_in_concurrent_threads",
    "models/wire/test_endless_streams.py::test_stream_without_end_is_closed_at_the_limit",
    "models/wire/test_provider_faults.py::test_missing_first_token_times_out",
    "models/wire/test_provider_faults.py::test_slow_consumer_is_not_a_stall",
    "sandbox/test_counting.py::test_memory_counts_where_the_first_thread_has_ended",
    "sandbox/test_counting.py::test_processes_are_stopped_to_be_measured",
    "sandbox/test_kernel_memory.py::test_look_ends_though_its_helper_is_stopped",
    "sandbox/test_sandbox.py::test_processes_are_limited",
    "sandbox/test_sandbox.py::test_sum_of_memory_is_limited",
    "terminal/test_image_decoder.py::test_only_the_first_frame_of_an_animation_is_decoded",
    "test_forkserver.py::test_start_of_a_forked_server_imports_next_to_nothing",
    "tools/test_finding_rates.py::test_default_beats_plain_bm25_for_queries_without_keyword",
    "tools/test_finding_rates.py::test_finding_opens_no_connection",
    "wire/test_access.py::test_login_works_while_nothing_can_be_stored",
    "wire/test_approval_questions.py::test_question_that_is_cut_is_allowed_when_all_of_it_was_read",
    "wire/test_audit_commands.py::test_commands_without_a_server_leave_a_row",
    "wire/test_audit_commands.py::test_world_of_an_older_schema_has_its_row_after_the_upgrade",
    "wire/test_broken_log.py::test_empty_data_dir_is_refused",
    "wire/test_broken_log.py::test_second_world_in_the_home_of_a_service_is_refused",
    "wire/test_commands_on_full_disk.py::test_commands_on_a_full_disk_name_it_and_change_nothing",
    "wire/test_commands_on_full_disk.py::"
    "test_commands_that_cannot_open_the_database_say_that_the_disk_is_full",
    "wire/test_damaged_contents.py::test_lost_content_of_an_old_version_is_named_and_left_out",
    "wire/test_damaged_streams.py::test_damaged_stream_ends_with_one_sentence_in_the_room",
    "wire/test_files.py::test_file_over_the_limit_is_refused_and_leaves_nothing",
    "wire/test_files.py::test_stored_files_survive_kill_9",
    "wire/test_git_push.py::test_pushed_commits_keep_their_ids_through_gc_backup_and_restore",
    "wire/test_git_push.py::test_server_that_is_killed_leaves_the_version_before",
    "wire/test_git_undo.py::test_undone_version_does_not_return_by_a_push",
    "wire/test_health.py::test_database_that_was_moved_away_fails_until_it_is_back",
    "wire/test_health.py::test_full_disk_fails_until_there_is_room",
    "wire/test_health.py::test_lack_of_file_descriptors_is_logged_and_does_no_lasting_harm",
    "wire/test_health.py::test_lock_of_another_process_fails",
    "wire/test_homeless.py::test_everything_works_with_a_data_directory",
    "wire/test_homeless.py::test_home_that_cannot_be_written_is_named_with_what_to_set",
    "wire/test_homeless.py::test_without_a_home_one_sentence_says_what_to_set",
    "wire/test_host_key.py::test_old_key_is_put_back_without_a_warning",
    "wire/test_keeping.py::test_backup_is_restored_from_a_pipe_that_has_a_name",
    "wire/test_keeping.py::test_leftovers_of_a_killed_command_go_at_the_next_start",
    "wire/test_keeping.py::test_restore_from_what_is_no_backup_leaves_a_directory_as_it_was",
    "wire/test_keeping.py::test_server_backs_up_keeps_some_and_survives_a_kill",
    "wire/test_keys.py::test_connection_ends_when_the_key_that_it_came_with_expires",
    "wire/test_live_answers.py::test_finished_answer_is_drawn_for_each_width",
    "wire/test_local_model.py::test_newcomer_gets_a_model_that_greets_and_adds",
    "wire/test_login.py::test_address_in_use_is_reported",
    "wire/test_mcp_servers.py::test_mcp_server_restarts_after_it_or_the_program_is_killed",
    "wire/test_metrics.py::test_labels_do_not_grow_with_use",
    "wire/test_metrics.py::test_mcp_servers_calls_and_programs_are_measured",
    "wire/test_model_failures.py::"
    "test_answer_cut_by_kill_9_is_marked_and_the_next_request_is_valid",
    "wire/test_models.py::test_change_of_provider_keeps_the_conversation",
    "wire/test_moving.py::test_silent_connection_is_dropped_by_keepalive",
    "wire/test_oauth_sign_in.py::test_owner_signs_in_by_pasting_and_stays_signed_in",
    "wire/test_oauth_sign_in.py::test_sign_in_over_http_leaves_its_code_nowhere",
    "wire/test_offer.py::test_admin_can_list_and_end_an_offer",
    "wire/test_offer.py::test_offer_ends_when_the_build_right_is_lost",
    "wire/test_operator_refusals.py::test_lost_json_is_said",
    "wire/test_pictures.py::test_room_shows_half_blocks_in_the_colours_of_the_image",
    "wire/test_pipes.py::test_batch_over_the_line_rate_is_slowed_and_whole",
    "wire/test_pipes.py::test_script_of_500_reads_is_not_refused",
    "wire/test_pipes.py::test_slow_reader_of_long_messages_stays_connected",
    "wire/test_process.py::test_json_log_contains_nothing_else",
    "wire/test_process.py::test_log_has_the_signal_that_stopped_the_server",
    "wire/test_process.py::test_second_signal_ends_at_once",
    "wire/test_process.py::test_server_stops_when_its_terminal_is_closed",
    "wire/test_process.py::test_server_under_nohup_outlives_its_terminal",
    "wire/test_read_only.py::test_backup_has_what_the_log_holds",
    "wire/test_reload.py::test_server_starts_on_a_full_disk_with_new_models_and_servers",
    "wire/test_reload_findings.py::"
    "test_reload_with_parts_that_cannot_work_fails_and_names_doubtful_ones",
    "wire/test_served_data_dir.py::test_deleted_control_socket_is_made_again",
    "wire/test_served_data_dir.py::test_deleted_database_is_saved_by_backup_and_at_the_stop",
    "wire/test_served_data_dir.py::test_deleted_host_key_is_written_again",
    "wire/test_served_data_dir.py::test_deleted_lock_file_is_made_again",
    "wire/test_sftp_bursts.py::test_cut_upload_is_discarded_and_whole_ones_are_kept",
    "wire/test_sftp_bursts.py::test_full_room_takes_nothing_of_a_file_that_is_too_large",
    "wire/test_sftp_bursts.py::test_old_content_stays_when_its_replacement_is_cut",
    "wire/test_sftp_bursts.py::test_server_that_stops_keeps_what_was_whole",
    "wire/test_sftp_mounted.py::test_rsync_works_over_sshfs",
    "wire/test_shell.py::test_files_that_the_server_has_inherited_are_not_open_inside",
    "wire/test_tools.py::test_harmful_tool_fails_only_its_own_call",
    "wire/test_toolset_install.py::test_linked_folder_is_installed_again_when_it_changes",
    "wire/test_toolset_mistakes.py::test_uninstall_and_a_later_import_name_the_rooms_that_had_it",
    "wire/test_toolset_packages.py::test_owner_allows_packages_and_tools_import_them",
    "wire/test_toolset_packages.py::test_package_runs_nothing_before_a_tool_is_called",
    "wire/test_toolset_packages.py::test_packages_that_are_gone_come_back_as_they_were",
    "wire/test_toolset_packages.py::test_source_is_never_built_and_the_version_before_stays",
    "wire/test_toolset_progress.py::test_import_says_how_much_of_its_file_has_come",
    "wire/test_toolset_progress.py::test_import_that_waits_for_another_says_so",
    "wire/test_toolset_servers.py::test_approvals_of_a_server_end_with_the_next_version",
    "wire/test_toolset_servers.py::test_overrides_of_tools_of_a_server_are_in_force",
    "wire/test_waiting_calls.py::test_numbers_of_approvals_go_on_after_a_crash",
    "world/test_report_limits.py::test_endless_query_times_out",
    "world/test_report_limits.py::test_query_over_the_memory_limit_is_refused",
    "world/test_report_limits.py::test_running_and_waiting_queries_are_limited",
    "wrap/test_lua_exhaustion.py::test_event_loop_stays_responsive_while_scripts_loop",
    "wrap/test_lua_exhaustion.py::test_timeout_of_a_loop_names_its_line",
    "wrap/test_lua_host.py::test_host_calls_per_run_are_limited",
    "wrap/test_lua_host.py::test_queue_for_workers_is_bounded",
})  # fmt: skip
"""Tests of what is rare, each of which takes long: it waits for a limit of time, fills a limit of
size, or kills a program at many places. `make test-all` runs them, `make test` does not."""

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

    The tests of LONGEST_FILES come first. RARE tests are marked `soak`, as are most cases of
    SAMPLED ones.
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
        if test.removeprefix("./") in RARE:
            item.add_marker(pytest.mark.soak)
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
