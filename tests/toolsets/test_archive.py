"""The reader of archives: what it accepts, and what it refuses of hostile ones."""

from __future__ import annotations

import contextlib
import io
import subprocess
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.toolsets.archive import InvalidArchive, read_archive
from toolsets.archives import MANIFEST, TOP, Archive, Entry, accepted, make
from toolsets.hostile_archives import refused

ACCEPTED = accepted()
REFUSED = refused()


@pytest.mark.parametrize("label", ACCEPTED)
def test_archive_of_a_usual_program_is_read(label: str) -> None:
    files = read_archive(ACCEPTED[label])
    assert files["toolset.yaml"] == MANIFEST
    assert files["tools/a.py"] == b"x = 1\n" * 3
    assert not [path for path in files if path.startswith("__MACOSX") or path.endswith("/")]
    assert not [path for path in files if path.endswith(".DS_Store")]


def test_cases_are_many() -> None:
    assert len(ACCEPTED) >= 8
    assert len(REFUSED) >= 100


@pytest.mark.parametrize("label", REFUSED)
def test_hostile_archive_is_refused(label: str) -> None:
    data, words = REFUSED[label]
    with pytest.raises(InvalidArchive) as refusal:
        read_archive(data)
    text = str(refusal.value)
    assert words in text
    assert text.isprintable() and len(text) < 400


def test_paths_outside_the_usual_folders_are_kept() -> None:
    files = read_archive(make(Entry(b"lib/deep/x.bin", b"\0\1"), Entry("é.txt".encode(), b"1")))
    assert list(files) == ["toolset.yaml", "lib/deep/x.bin", "é.txt"]


@pytest.mark.process
def test_archive_of_git_is_read(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "toolset.yaml").write_bytes(MANIFEST)
    (tmp_path / "tools" / "a.py").write_bytes(b"x = 1\n" * 3)

    def git(*words: str) -> bytes:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
        return subprocess.run(
            ["git", *who, *words], cwd=tmp_path, check=True, capture_output=True
        ).stdout

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "x")
    for prefix in ("", "demo/"):
        files = read_archive(git("archive", "--format=zip", f"--prefix={prefix}", "HEAD"))
        assert files == {"toolset.yaml": MANIFEST, "tools/a.py": b"x = 1\n" * 3}


def test_only_one_common_folder_is_left_out() -> None:
    inner = Entry(b"demo/toolset.yaml", MANIFEST)
    assert list(read_archive(make(inner))) == ["toolset.yaml", "demo/toolset.yaml"]
    two = Archive((inner, Entry(b"other/x")))
    assert list(read_archive(two.write())) == ["demo/toolset.yaml", "other/x"]
    deep = Archive((Entry(b"a/b/toolset.yaml", MANIFEST),))
    assert list(read_archive(deep.write())) == ["a/b/toolset.yaml"]


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,3}\.x", fullmatch=True), st.binary(max_size=300)
    ),
    st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
)
def test_files_are_those_that_zipfile_wrote(files: dict[str, bytes], method: int) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("toolset.yaml", MANIFEST)
        for path, content in files.items():
            archive.writestr(path, content)
    assert read_archive(out.getvalue()) == {"toolset.yaml": MANIFEST, **files}


GOOD = Archive((TOP, Entry(b"tools/a.py", b"x = 1\n" * 3))).write()


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=4))
def test_changed_archive_is_refused_or_has_the_same_contents(
    changes: list[tuple[int, int]],
) -> None:
    data = bytearray(GOOD)
    for place, value in changes:
        data[place] = value
    try:
        files = read_archive(bytes(data))
    except InvalidArchive:
        return
    assert sorted(files.values()) == sorted(read_archive(GOOD).values())


@given(st.binary(max_size=400))
def test_no_bytes_raise_anything_but_a_refusal(data: bytes) -> None:
    for archive in (data, b"PK\x03\x04" + data, GOOD[: len(data)] + data + GOOD[len(data) :]):
        with contextlib.suppress(InvalidArchive):
            read_archive(archive)
