"""Reload of the settings: what applies now, and what waits for a restart."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import structlog
from pydantic import BaseModel

from sshwarma.admin.check_result import CheckResult
from sshwarma.admin.doctor_backups import check_backups
from sshwarma.admin.doctor_providers import check_mcp_servers, check_models
from sshwarma.common.limits import MAX_SHOWN_CHANGE_CHARACTERS
from sshwarma.services import Services
from sshwarma.settings import InvalidSettingsError, Settings, SettingsSource
from sshwarma.settings.logs import configure_logging
from sshwarma.toolsets.plugin_folder import PluginError
from sshwarma.world.audit import Origin, operator, record_change
from sshwarma.world.errors import Invalid, Unavailable, WorldError
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

FIXED_SETTINGS: Final = ("data_dir", "ssh", "http.listen", "memory", "plugins.load")
"""Settings, and whole sections, that are read at the start alone."""

SECRET_TABLES: Final = ("models", "mcp")
"""Lists of tables whose values are never shown: one of them may be a key."""


@dataclass(slots=True)
class ReloadReport:
    """What a reload did.

    Attributes:
        changed: settings that changed and are in force now.
        needs_restart: settings that changed and stay as they were until a restart.
        problems: models and MCP servers that were skipped, with the reasons.
        broken: models, MCP servers and backups that cannot work as they are set, with the reasons.
        doubtful: MCP servers that may not work, because a file of their command is missing.
        unrecorded: why the audit has no row of the reload; "" if it has one.
    """

    changed: list[str]
    needs_restart: list[str]
    problems: list[str]
    broken: list[str]
    doubtful: list[str] = dataclasses.field(default_factory=list)
    unrecorded: str = ""

    def log(self) -> None:
        """Log what the reload did."""
        log.info("reloaded", changed=self.changed)
        if self.needs_restart:
            log.warning("these settings need a restart", settings=self.needs_restart)
        if self.problems or self.broken:
            log.warning("these settings cannot work", settings=self.problems + self.broken)
        if self.doubtful:
            log.warning("these settings may not work", settings=self.doubtful)
        if self.unrecorded:
            log.error("the audit has no row of a reload", reason=self.unrecorded)

    def as_json(self) -> dict[str, Any]:
        """Return the report as the control socket sends it."""
        return asdict(self)


def load_again(source: SettingsSource) -> Settings:
    """Read the settings file and the environment again.

    Raises:
        Invalid: with the reason; nothing has changed then.
    """
    try:
        return source.load()
    except InvalidSettingsError as error:
        reason = str(error)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    raise Invalid(f"The settings are not valid, so nothing changed: {reason.rstrip('.')}.")


def compare_settings(old: Settings, new: Settings) -> ReloadReport:
    """Return what a reload from old to new settings changes."""
    report = ReloadReport([], [], [], [])
    for name, text in _list_changes(old, new, ""):
        is_fixed = any(name == fixed or name.startswith(f"{fixed}.") for fixed in FIXED_SETTINGS)
        (report.needs_restart if is_fixed else report.changed).append(text)
    return report


def keep_fixed(old: Settings, new: Settings) -> Settings:
    """Return the new settings with the fixed ones of the running server."""
    for name in FIXED_SETTINGS:
        section, _, field = name.partition(".")
        kept = getattr(old, section)
        if field:
            kept = getattr(new, section).model_copy(update={field: getattr(kept, field)})
        new = new.model_copy(update={section: kept})
    return new


async def record_reload(world: World) -> str:
    """Write the audit row of a reload; return why it could not be written, or "".

    On a full disk the new settings may be what makes room, so they come into force all the same.
    """
    origin = Origin(os_user=operator.get())  # "" for a signal: the kernel does not tell whose it is
    try:
        await world.change(
            lambda tx: record_change(tx, door="cli", verb="reload", request="", origin=origin)
        )
    except Unavailable as error:
        return str(error)
    return ""


async def apply_settings(
    services: Services, old: Settings, new: Settings, report: ReloadReport
) -> Settings:
    """Put settings into force; note in a report what was skipped.

    Returns:
        The new settings, with the old tables of models and servers that were skipped: the next
        reload tries those again, and says so.
    """
    configure_logging(new.log)
    services.settings.adopt(new)
    models_before = {
        entry.agent_id: entry.settings.name
        for entry in services.roster.entries()
        if entry.settings is not None
    }
    skipped = {
        "models": await services.roster.adopt(new.models),
        "mcp": await services.hub.adopt(new.mcp),
    }
    reasons = {
        f"{table}.{name}": reason
        for table, found in skipped.items()
        for name, reason in found.items()
    }
    report.problems += [f"{name}: {reason}" for name, reason in reasons.items()]
    report.changed = [text for text in report.changed if text.partition(": ")[0] not in reasons]
    for agent_id, name in models_before.items():
        if agent_id not in services.roster:  # its answers would go on to cost money
            count = len(services.turns.stop(None, agent_id=agent_id))
            done = "1 answer was stopped" if count == 1 else f"{count} answers were stopped"
            report.changed += [f"models.{name}: {done}"] if count else []
    await _reload_plugins(services, new, report)
    return leave_out(new, skipped, old)


async def _reload_plugins(services: Services, settings: Settings, report: ReloadReport) -> None:
    """Load the plugins again, if the server has any; note what changed.

    Plugins that break a rule leave those that are loaded as they were.
    """
    plugins = services.toolsets.plugins
    plugins.sessions.show_tracebacks = settings.plugins.show_tracebacks
    if not plugins.is_on:
        return
    try:
        done = await plugins.reload()
    except (PluginError, WorldError) as error:
        report.problems.append(f"plugins: {error}")
        return
    change = done.change
    for names, word in (
        (change.added, "added"), (change.changed, "changed"), (change.removed, "removed")
    ):  # fmt: skip
        report.changed += [f"plugins.{name}: {word}" for name in names]


def leave_out(
    new: Settings, skipped: Mapping[str, Container[str]], old: Settings | None = None
) -> Settings:
    """Return settings without the tables of some names, which are not in force.

    Args:
        new: the settings.
        skipped: names of tables by the list that they are in, such as `models`.
        old: settings in force before, whose tables of these names still are; None at the start.
    """
    kept = {
        field: (
            *(one for one in getattr(new, field) if one.name not in names),
            *(one for one in getattr(old, field, ()) if one.name in names),
        )
        for field, names in skipped.items()
    }
    return new.model_copy(update=kept)


def note_findings(settings: Settings, environ: Mapping[str, str], report: ReloadReport) -> None:
    """Note in a report what cannot work, and what may not, as doctor finds."""
    servers = list(check_mcp_servers(settings, environ))
    checks = (*check_models(settings, environ), *servers, *check_backups(settings))
    report.broken += [_describe(check) for check in checks if not check.ok]
    report.doubtful += [_describe(check) for check in servers if check.is_warning]


def _describe(check: CheckResult) -> str:
    return f"{check.name}: {check.detail.rstrip('.')}; {check.remedy}"


def _list_changes(old: BaseModel, new: BaseModel, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each setting that differs, and a text with its values."""
    for field in type(old).model_fields:
        before, after, name = getattr(old, field), getattr(new, field), f"{prefix}{field}"
        if before == after:
            continue
        if field in SECRET_TABLES and not prefix:
            yield from _list_table_changes(name, before, after)
        elif isinstance(before, BaseModel):
            yield from _list_changes(before, after, f"{name}.")
        else:
            shown = f"{_show(before)} -> {_show(after)}"
            yield name, f"{name}: {shown}" if len(shown) <= MAX_SHOWN_CHANGE_CHARACTERS else name


def _list_table_changes(
    name: str, before: Sequence[Any], after: Sequence[Any]
) -> Iterator[tuple[str, str]]:
    old, new = ({table.name: table for table in tables} for tables in (before, after))
    for table in sorted(old.keys() | new.keys()):
        if old.get(table) != new.get(table):
            word = "added" if table not in old else "removed" if table not in new else "changed"
            yield f"{name}.{table}", f"{name}.{table}: {word}"


def _show(value: Any) -> str:
    match value:
        case None:
            return "default"
        case tuple():
            return ", ".join(map(str, value)) or "none"
        case str():
            return f'"{value}"' if not value or " " in value or "\n" in value else value
    return str(value)
