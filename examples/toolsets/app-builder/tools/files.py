"""Files of the workspace."""

from pathlib import Path


def write_file(workspace: Path, path: str, content: str) -> dict:
    """Write a file, and make the folders that it is in."""
    target = workspace / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content)
    return {"written": path, "size": len(content)}


def read_file(workspace: Path, path: str) -> dict:
    """Read a file."""
    content = (workspace / path).read_text()
    return {"path": path, "content": content, "size": len(content)}
