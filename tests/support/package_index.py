"""A package index on this machine, with packages that are made by hand."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TAG = "py3-none-any"


def make_wheel(name: str, version: str, modules: dict[str, str], *needs: str) -> bytes:
    """Return a wheel with modules by file name, which needs other packages."""
    info = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {need}" for need in needs]
    files = {
        **modules,
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {TAG}\n",
    }
    record = "".join(
        f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in files.items()
    )
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)  # of 1980: the same bytes again
    return stream.getvalue()


def make_source(name: str, version: str, marker: str) -> bytes:
    """Return a source archive whose build would write a file."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for path, text in (
            ("setup.py", f"open({marker!r}, 'w').write('built')\n"),
            ("PKG-INFO", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"),
        ):
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return stream.getvalue()


def _digest(text: str) -> str:
    found = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(found).rstrip(b"=").decode()


class PackageIndex:
    """The files of an index by name, and its address."""

    def __init__(self) -> None:
        """Begin with no package."""
        self.files: dict[str, bytes] = {}
        self.address = ""

    def add_wheel(self, name: str, version: str, modules: dict[str, str], *needs: str) -> None:
        """Offer a wheel; one of the same name and version is replaced."""
        wheel = make_wheel(name, version, modules, *needs)
        self.files[f"{name}-{version}-{TAG}.whl"] = wheel

    def answer(self, path: str) -> bytes | None:
        """Return what is at a path of the index."""
        if path.startswith("/files/"):
            return self.files.get(path.removeprefix("/files/"))
        name = path.removeprefix("/simple/").strip("/").replace("-", "_")
        found = [file for file in self.files if file.startswith(f"{name}-")]
        links = (f'<a href="/files/{file}#sha256={self._hash(file)}">{file}</a>' for file in found)
        return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode() or None

    def _hash(self, file: str) -> str:
        return hashlib.sha256(self.files[file]).hexdigest()


@contextmanager
def serving_packages() -> Iterator[PackageIndex]:
    """Serve an index on loopback."""
    index = PackageIndex()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            found = index.answer(self.path)
            self.send_response(404 if found is None else 200)
            is_page = not self.path.startswith("/files/")
            self.send_header("Content-Type", "text/html" if is_page else "application/octet-stream")
            self.send_header("Content-Length", str(len(found or b"")))
            self.end_headers()
            if with_body:
                self.wfile.write(found or b"")

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    index.address = f"http://127.0.0.1:{server.server_address[1]}/simple"
    try:
        yield index
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
