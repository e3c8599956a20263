"""Which language a file is in, by its name, for highlighting."""

from __future__ import annotations

from typing import Final

_BY_SUFFIX: Final = {
    "bash": "bash", "c": "c", "cc": "cpp", "clj": "clojure", "cpp": "cpp", "cs": "csharp",
    "css": "css", "dart": "dart", "diff": "diff", "ex": "elixir", "exs": "elixir", "elm": "elm",
    "erl": "erlang", "go": "go", "graphql": "graphql", "h": "c", "hpp": "cpp", "hs": "haskell",
    "htm": "html", "html": "html", "ini": "ini", "cfg": "ini", "java": "java", "js": "javascript",
    "mjs": "javascript", "json": "json", "jsonc": "jsonc", "jsx": "jsx", "kt": "kotlin",
    "less": "less", "lua": "lua", "mk": "make", "ml": "ocaml", "nim": "nim", "nix": "nix",
    "patch": "patch", "php": "php", "pl": "perl", "proto": "protobuf", "ps1": "powershell",
    "py": "python", "pyi": "python", "r": "r", "rb": "ruby", "rs": "rust", "scala": "scala",
    "scss": "scss", "sh": "bash", "sql": "sql", "svg": "svg", "swift": "swift", "tex": "tex",
    "tf": "terraform", "toml": "toml", "ts": "typescript", "tsx": "tsx", "vim": "vim",
    "xml": "xml", "yaml": "yaml", "yml": "yaml", "zig": "zig", "zsh": "zsh",
}  # fmt: skip

_BY_NAME: Final = {
    "dockerfile": "docker", "containerfile": "docker", "makefile": "make",
    "cmakelists.txt": "cmake", "nginx.conf": "nginx",
}  # fmt: skip


def guess_language(path: str) -> str:
    """Return the language of a file by its name, as a fence names it; or ""."""
    name = path.rpartition("/")[2].lower()
    return _BY_NAME.get(name) or _BY_SUFFIX.get(name.rpartition(".")[2], "")
