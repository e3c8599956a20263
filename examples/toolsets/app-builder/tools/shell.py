"""Commands in the workspace."""

import subprocess
from pathlib import Path


def run_command(workspace: Path, command: str) -> dict:
    """Run a command of the shell."""
    done = subprocess.run(
        command, shell=True, cwd=workspace, capture_output=True, text=True, check=False
    )
    output = done.stdout + done.stderr
    return {"command": command, "output": output, "exit_code": done.returncode}
