"""Which line of a failed program's output is its reason."""

from __future__ import annotations

import pytest

from sshwarma.mcp.client.failure_line import choose_failure_line
from sshwarma.mcp.client.log_buffer import LogBuffer

OFFLINE = (
    "npm error request to https://registry.npmjs.org/x failed: cache mode is 'only-if-cached' but"
    " no cached response is available."
)
NPM = f"""npm warn config something
npm error code ENOTCACHED
{OFFLINE}
npm notice
npm notice New minor version of npm available! 11.19.1 -> 11.21.2
npm error Log files were not written due to an error writing to the directory: /nowhere/_logs
npm error You can rerun the command with `--loglevel=verbose` to see the logs in your terminal
"""
NPM_404 = """npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/x - Not found
npm error 404  'x@*' is not in this registry.
npm error A complete log of this run can be found in: /nowhere/_logs/debug-0.log
"""
NODE = """node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/no/such.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2
"""
PYTHON = """Traceback (most recent call last):
  File "<string>", line 1, in <module>
ModuleNotFoundError: No module named 'nothing'
"""
USAGE = "Error: no directory was given\nusage: files DIRECTORY...\n"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (NPM, OFFLINE),
        (NPM_404, "npm error 404 Not Found - GET https://registry.npmjs.org/x - Not found"),
        (NODE, "Error: Cannot find module '/no/such.js'"),
        (PYTHON, "ModuleNotFoundError: No module named 'nothing'"),
        (USAGE, "Error: no directory was given"),
        ("starting\noh no\n\n", "oh no"),
        ("oh no, without an end of line", "oh no, without an end of line"),
        ("}\n", "}"),
        ("", ""),
    ],
)
def test_reason_is_the_line_that_says_what_failed(output: str, reason: str) -> None:
    assert choose_failure_line(output.splitlines()) == reason
    log = LogBuffer()
    log.feed(b"Error: of the process before\n")
    log.start_section()
    log.append("Error: a note of ours")
    log.feed(output.encode())
    assert log.failure_line == reason
