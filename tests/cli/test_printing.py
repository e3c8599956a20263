"""Commands print through one function, which makes control characters visible."""

from __future__ import annotations

import ast
from pathlib import Path

import sshwarma.cli

DIRECTORY = Path(sshwarma.cli.__file__).parent
ENCODERS = ("json.dumps", "tomli_w.dumps")
"""What they return has no control character but newlines."""

ALLOWED = {
    ("printed_lines.py", "escape_lines(text)"),
    ("server_process.py", "_ready_line(app, as_json=as_json)"),
    ("main.py", "f'sshwarma {sshwarma.__version__}'"),
}


def find_prints(file: Path) -> list[str]:
    """Return the first argument of each call that prints."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "click.echo"):
            found.append(ast.unparse(node.args[0]))
    return found


def test_text_is_printed_by_print_lines_alone() -> None:
    """A name, a label or an answer of a socket may have any character."""
    found = {
        (file.name, printed)
        for file in DIRECTORY.glob("*.py")
        for printed in find_prints(file)
        if not printed.startswith(ENCODERS)
    }
    assert found == ALLOWED
