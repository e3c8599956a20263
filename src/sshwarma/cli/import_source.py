"""`sshwarma import`: what people have in other programs, into a world."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sshwarma.cli.file_argument import FileArgument
from sshwarma.cli.invocation import Invocation, with_invocation
from sshwarma.cli.termination import exit_on_signals

if TYPE_CHECKING:
    from sshwarma.cli.world_link import Operate
    from sshwarma.imports.covalt_source import CovaltBundle
    from sshwarma.imports.items import Step
    from sshwarma.imports.report import ImportReport
    from sshwarma.imports.source import SourceKind
    from sshwarma.settings import Settings

DEFAULT_MODEL: Final = "slop"
"""Name of the model whose answers those of std::slop are."""

KINDS: Final = ("slop", "covalt", "slbp")


@click.command("import")
@click.argument("source", type=FileArgument(path_type=Path))
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    help="What SOURCE is (default: recognised by its content).",
)
@click.option(
    "--apply", "is_applied", is_flag=True, help="Do it; without this, say what it would do."
)
@click.option(
    "--person",
    metavar="NAME",
    help="Whose the rooms and values are (default: the owner, if there is one).",
)
@click.option(
    "--model",
    metavar="NAME",
    default=DEFAULT_MODEL,
    show_default=True,
    help="Model whose answers those of std::slop are; it is made if it is missing.",
)
@with_invocation
def import_source(
    invocation: Invocation,
    source: Path,
    kind: SourceKind | None,
    is_applied: bool,
    person: str | None,
    model: str,
) -> int:
    """Import SOURCE: a database of std::slop, a bundle of Covalt, a folder of SLBP.

    Shows what it would do, and changes nothing; with --apply it does it. SOURCE is not changed.
    What exists in the world is never replaced, and a second run adds what is new in SOURCE. Stop
    the program that uses SOURCE before.
    """
    import asyncio

    from sshwarma.imports.source import check_source, recognise_source

    exit_on_signals()
    settings = invocation.world_settings()
    if kind is None:
        kind = recognise_source(source)
    else:
        check_source(source, kind)
    job = _ImportJob(settings, source, kind, person, model if kind == "slop" else "")
    result = asyncio.run(job.run(is_applied=is_applied))
    if is_applied:
        invocation.print_world(settings)
    else:
        invocation.print_unnamed_world(settings)
    return invocation.show(result, *job.describe(result, invocation.words))


class _ImportJob:
    """One import: its source, and for whom it is."""

    def __init__(
        self, settings: Settings, source: Path, kind: str, person: str | None, model: str
    ) -> None:
        self._settings = settings
        self._source = source
        self._kind = kind
        self._person = person
        self._model = model
        self._report: ImportReport
        self._toolset: dict[str, Any] | None = None

    async def run(self, *, is_applied: bool) -> dict[str, Any]:
        """Read the source once, and say what is new; with `is_applied` store it then."""
        from sshwarma.cli.world_link import link_world

        async with link_world(self._settings) as operate:
            names = await operate("import_names", person=self._person, model=self._model)
            self._person = names["person"]
            if self._kind == "covalt":
                await self._run_covalt(operate, is_applied=is_applied)
            else:
                await self._run_steps(operate, is_applied=is_applied)
        return {
            "source": str(self._source),
            "kind": self._kind,
            "applied": is_applied,
            "world": str(self._settings.data_dir),
            "person": self._person,
            "model": self._model or None,
            "toolset": self._toolset,
            **self._report.as_json(),
        }

    async def _run_steps(self, operate: Operate, *, is_applied: bool) -> None:
        await self._send(operate, is_applied=False)
        if is_applied and self._report.new_count:
            counts = "; ".join(self._report.describe_counts())
            line = f"{self._source.absolute()} --kind {self._kind}: {counts}"
            await operate("import_begin", line=line, person=self._person)
            await self._send(operate, is_applied=True)

    async def _send(self, operate: Operate, *, is_applied: bool) -> None:
        """Send all steps of the source, and collect what they answer."""
        from sshwarma.imports.report import ImportReport
        from sshwarma.imports.source import read_slbp, read_slop

        self._report = ImportReport()
        readers: dict[str, Callable[[Path, ImportReport], Iterator[Step]]] = {
            "slop": read_slop,
            "slbp": read_slbp,
        }
        for step in readers[self._kind](self._source, self._report):
            answer = await operate(
                "import_step",
                step=step.as_json(),
                person=self._person,
                model=self._model,
                apply=is_applied,
            )
            self._report.merge(answer)

    async def _run_covalt(self, operate: Operate, *, is_applied: bool) -> None:
        from sshwarma.imports.covalt_source import IMPORT, read_covalt
        from sshwarma.imports.report import ImportReport

        self._report = ImportReport()
        covalt = read_covalt(self._source, self._report)
        described = covalt.describe()
        known = await operate("import_toolset_state", toolset=described)
        self._toolset = {**described, "state": known["state"], "version_before": known["version"]}
        manifest = covalt.bundle.manifest
        state = "new" if known["state"] == "new" else "known"
        for what, number in (
            ("toolsets", 1),
            ("tools", len(manifest.tools)),
            ("MCP servers", len(manifest.mcp_servers)),
            ("overrides", len(manifest.tool_overrides)),
            ("files", len(covalt.bundle.hashes)),
        ):
            if number:
                self._report.count(what, state, number)
        if known["state"] == "version":
            reason = f"{known['version']} is installed with other files, and stays; to upgrade: "
            self._report.leave_out("changes", manifest.id, f"{reason}{IMPORT} < FILE.zip")
        if is_applied and state == "new":
            self._toolset |= await self._install(operate, covalt)

    async def _install(self, operate: Operate, covalt: CovaltBundle) -> dict[str, Any]:
        """Install a toolset: the server reads it in a folder beside the database."""
        from sshwarma.admin.work_directory import make_work_directory

        owner = self._settings.data_dir.stat()
        with make_work_directory(self._settings.data_dir) as work:
            file = work / "toolset.zip"
            file.write_bytes(covalt.archive)
            if os.geteuid() == 0:
                for path in (work, file):
                    os.chown(path, owner.st_uid, owner.st_gid)
            done: dict[str, Any] = await operate(
                "import_toolset", file=str(file), person=self._person
            )
        return done

    def describe(self, result: dict[str, Any], words: tuple[str, ...]) -> list[str]:
        """Return the lines for people."""
        from sshwarma.imports.source import KIND_NAMES

        by = f", answers by {self._model}" if self._model else ""
        name = next(text for kind, text in KIND_NAMES.items() if kind == self._kind)
        done = "Imported" if result["applied"] else "Would import"
        if result["applied"] and not self._report.new_count:
            done = "Nothing is new: imported"
        lines = [f"{done} from {self._source}, {name}, for {self._person}{by}:"]
        lines += [f"  {line}" for line in self._report.describe_counts()] or ["  nothing"]
        lines += [f"  {source} is the room {room}" for source, room in self._report.rooms.items()]
        if self._toolset is not None:
            lines.append(f"  {_describe_toolset(self._toolset)}")
        if left_out := self._report.describe_left_out():
            lines += ["Not imported, or kept as it is:", *(f"  {line}" for line in left_out)]
        if not result["applied"]:
            lines.append("Nothing was changed. To do it, add --apply.")
        return lines


def _describe_toolset(toolset: dict[str, Any]) -> str:
    label = f"toolset {toolset['id']} {toolset['version']}"
    warnings = "".join(f"; warning: {text}" for text in toolset.get("warnings", ()))
    if "how" in toolset:
        return f"{label}: {toolset['how']}{warnings}"
    if toolset["state"] == "version":
        return f"{label} is not installed: {toolset['version_before']} is, and stays"
    if toolset["state"] == "known":
        return f"{label} is installed as it is"
    return f"{label} is new; its tools are looked at in a sandbox of a running server"
