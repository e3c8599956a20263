"""Blobs: contents stored once, whole, and swept when nothing refers to them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.workspaces.blobs import BlobStore, DamagedBlob
from sshwarma.world.errors import Unavailable

LONG_AGO = 10_000


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def make_old(blobs: BlobStore, sha256: str) -> None:
    file = blobs.path_of(sha256)
    os.utime(file, (file.stat().st_mtime - LONG_AGO,) * 2)


def list_files(blobs: BlobStore) -> list[Path]:
    return [file for file in blobs.directory.rglob("*") if file.is_file()]


def test_equal_contents_are_stored_once(blobs: BlobStore) -> None:
    first, second = blobs.store(b"same"), blobs.store(b"same")
    assert first == second
    assert list_files(blobs) == [blobs.directory / first[:2] / first]
    assert blobs.read(first) == b"same"
    blobs.sync()


@given(parts=st.lists(st.binary(max_size=40), max_size=6))
def test_upload_in_parts_is_the_whole(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    blobs = BlobStore(tmp_path_factory.mktemp("blobs"))
    upload = blobs.begin_upload()
    for part in parts:
        upload.write(part)
    sha256 = upload.finish()
    upload.close()
    assert blobs.read(sha256) == b"".join(parts)
    assert upload.size == len(b"".join(parts))


def test_upload_that_is_not_finished_leaves_nothing(blobs: BlobStore) -> None:
    upload = blobs.begin_upload()
    upload.write(b"half")
    upload.close()
    assert list_files(blobs) == []


@pytest.mark.parametrize("on_disk", [b"", b"text", b"text and more text"])
def test_upload_of_another_size_than_was_written_is_refused(
    blobs: BlobStore, on_disk: bytes
) -> None:
    upload = blobs.begin_upload()
    upload.write(b"more text")
    next(iter(list_files(blobs))).write_bytes(on_disk)
    with pytest.raises(Unavailable, match="could not be stored: Input/output error"):
        upload.finish()
    upload.close()
    assert not list_files(blobs)


def test_uploads_of_a_server_that_was_killed_are_deleted(blobs: BlobStore) -> None:
    upload = blobs.begin_upload()
    upload.write(b"half")
    blobs.store(b"whole")
    blobs.delete_uploads()
    assert len(list_files(blobs)) == 1
    upload.close()


@pytest.mark.parametrize("change", ["other content", None])
def test_damage_is_found_when_a_blob_is_read(blobs: BlobStore, change: str | None) -> None:
    sha256 = blobs.store(b"content")
    if change is None:
        blobs.path_of(sha256).unlink()
    else:
        blobs.path_of(sha256).write_text(change)
    for read in (blobs.read, blobs.check):
        with pytest.raises(DamagedBlob, match=sha256[:12]):
            read(sha256)
    assert blobs.find_damaged([sha256]) == [sha256]


@pytest.mark.parametrize("change", ["other content", None])
def test_damaged_blob_is_replaced_when_it_is_stored_again(
    blobs: BlobStore, change: str | None
) -> None:
    sha256 = blobs.store(b"content")
    if change is None:
        blobs.path_of(sha256).unlink()
    else:
        blobs.path_of(sha256).write_text(change)
    assert blobs.store(b"content") == sha256
    assert blobs.read(sha256) == b"content"
    assert len(list_files(blobs)) == 1


def test_sweep_deletes_what_is_old_and_not_used(blobs: BlobStore) -> None:
    used, unused, new = blobs.store(b"used"), blobs.store(b"unused"), blobs.store(b"new")
    make_old(blobs, used)
    make_old(blobs, unused)
    assert blobs.sweep({used}) == len(b"unused")
    assert {sha256 for sha256, _, _ in blobs.list_stored()} == {used, new}


def test_files_of_others_are_no_blobs(blobs: BlobStore) -> None:
    sha256 = blobs.store(b"unused")
    make_old(blobs, sha256)
    other = blobs.path_of(sha256).with_name(".nfs0001")
    other.touch()
    assert blobs.sweep(()) == len(b"unused")
    assert other.exists() and list(blobs.list_stored()) == []


def test_provisional_blob_goes_unless_it_is_kept_or_stored_again(blobs: BlobStore) -> None:
    before = blobs.store(b"before")
    made = [blobs.store(data, is_provisional=True) for data in (b"before", b"new", b"shared")]
    assert blobs.store(b"shared") == made[2]
    blobs.settle(made, is_kept=False)
    assert {sha256 for sha256, _, _ in blobs.list_stored()} == {before, made[2]}
    kept = blobs.store(b"kept", is_provisional=True)
    blobs.settle([kept], is_kept=True)
    blobs.settle([kept], is_kept=False)
    assert blobs.read(kept) == b"kept"


def test_blob_that_is_stored_again_is_new(blobs: BlobStore) -> None:
    sha256 = blobs.store(b"again")
    make_old(blobs, sha256)
    blobs.store(b"again")
    assert blobs.sweep(()) == 0
    assert blobs.read(sha256) == b"again"


def test_full_disk_is_a_sentence(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = blobs.begin_upload()
    opened = upload._file

    class Full:
        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            opened.close()

    monkeypatch.setattr(upload, "_file", Full())
    with pytest.raises(Unavailable, match="The disk is full"):
        upload.write(b"x")
    upload.close()
    assert list_files(blobs) == []
