"""`sshwarma doctor`: checks of an installation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sshwarma.cli.invocation import Invocation, with_invocation
from sshwarma.cli.printed_lines import print_json, print_lines
from sshwarma.common.exit_status import EXIT_FAILED, EXIT_OK, EXIT_USAGE

if TYPE_CHECKING:
    from sshwarma.admin.check_result import CheckResult


@click.command()
@with_invocation
def doctor(invocation: Invocation) -> int:
    """Check settings, database, ports, keys and programs.

    The exit status is 1 if one fails, and 2 if the settings are not valid; then what does not need
    the wrong ones is checked. What is marked `warn` may be meant, and does not fail.
    """
    findings, is_valid = _run_checks(invocation)
    if invocation.as_json:
        print_json([vars(finding) for finding in findings])
    else:
        for finding in findings:
            print_lines([f"{finding.mark:4}  {finding.name}: {finding.detail}"])
            if finding.remedy:
                print_lines([f"      {finding.remedy}"])
    if not is_valid:
        return EXIT_USAGE
    return EXIT_OK if all(finding.ok for finding in findings) else EXIT_FAILED


def _run_checks(invocation: Invocation) -> tuple[list[CheckResult], bool]:
    """Return what the checks find, and whether the settings are valid.

    Those that need no setting which is wrong are made in any case: who repairs a server wants to
    know the state of its database at once.
    """
    from sshwarma.admin import doctor as checks
    from sshwarma.admin.check_result import warn

    part = invocation.valid_settings()
    if part.settings is None:
        unknown = warn("data directory", "not checked, because it is not known", "give --data-dir")
        return [*checks.report_problems(part.problems), unknown], False
    settings, unclear = invocation.nearest_settings(part.settings)
    findings = checks.run_checks(
        settings, invocation.config, problems=part.problems, left_out=part.left_out
    )
    if unclear:
        findings.insert(0, warn("world", unclear, "name the world to check"))
    return findings, not part.problems
