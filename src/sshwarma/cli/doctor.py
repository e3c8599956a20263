"""`sshwarma doctor`: checks of an installation."""

from __future__ import annotations

import json

import click

from sshwarma.cli.invocation import Invocation, print_lines, with_invocation
from sshwarma.common.exit_status import EXIT_FAILED, EXIT_OK, EXIT_USAGE


@click.command()
@with_invocation
def doctor(invocation: Invocation) -> int:
    """Check settings, database, ports, keys and programs.

    The exit status is 1 if one fails. What is marked `warn` may be meant, and does not fail.
    """
    from sshwarma.admin import doctor as checks
    from sshwarma.admin.check_result import CheckResult, warn
    from sshwarma.settings import InvalidSettingsError

    if invocation.as_json:
        try:
            invocation.read_settings()
        except InvalidSettingsError as error:
            invalid = [CheckResult("settings", False, text) for text in error.problems]
            print(json.dumps([vars(finding) for finding in invalid], indent=2))
            return EXIT_USAGE
    settings, unclear = invocation.nearest_settings()
    findings = list(checks.run_checks(settings, invocation.config))
    if unclear:
        findings.insert(0, warn("world", unclear, "name the world to check"))
    if invocation.as_json:
        print(json.dumps([vars(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            print_lines([f"{finding.mark:4}  {finding.name}: {finding.detail}"])
            if finding.remedy:
                print_lines([f"      {finding.remedy}"])
    return EXIT_OK if all(finding.ok for finding in findings) else EXIT_FAILED
