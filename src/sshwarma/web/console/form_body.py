"""The body of a form: its fields, and a file that is stored as it arrives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from sshwarma.common.finish import finish
from sshwarma.common.limits import CONSOLE_UPLOAD_SECONDS, MAX_ARCHIVE_BYTES, MAX_FORM_FIELDS
from sshwarma.common.messages import with_limit
from sshwarma.web.console.frames import wants_part
from sshwarma.web.request_body import content_type, read_body
from sshwarma.workspaces.blobs import Upload
from sshwarma.world.errors import Invalid, TooLarge

MULTIPART: Final = "multipart/form-data"

UPLOAD_FIELD: Final = "upload"
"""The name of the field of a form that has a file."""


@dataclass(slots=True)
class FormBody:
    """The fields of a form, by name; a name may have several values.

    Attributes:
        upload: the file, if the form has one that is not empty.
        file_name: the name of the file in the browser; "" without one.
        is_exact: whether line ends are those of the text: browsers send CR LF for any, scripts
            do not.
    """

    fields: dict[str, list[str]] = field(default_factory=dict)
    upload: Upload | None = None
    file_name: str = ""
    is_exact: bool = False

    def text(self, name: str) -> str:
        """Return the first value of a field; "" without it."""
        return self.fields.get(name, [""])[0]

    def close(self) -> None:
        """Drop the file, unless it was stored."""
        if self.upload is not None:
            self.upload.close()


async def read_form(
    request: Request,
    limit: int,
    begin_upload: Callable[[], Upload] | None = None,
    file_limit: int = MAX_ARCHIVE_BYTES,
) -> FormBody:
    """Read a form of at most `limit` bytes, besides its file.

    Args:
        request: the request, with a body of either type that browsers send.
        limit: bytes of its fields.
        begin_upload: begins to store a file; None if the form may have none.
        file_limit: bytes of the file.

    Raises:
        Invalid: if it is malformed.
        TooLarge: if it has more bytes or fields, or its file more than `file_limit`.
        TimedOut: as of `read_body`.
    """
    if content_type(request) != MULTIPART:
        body = b"".join([part async for part in read_body(request, limit)])
        try:
            text = body.decode(errors="replace")
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
        except ValueError as error:
            raise _too_many_fields() from error
        form = FormBody(is_exact=wants_part(request))
        for name, value in pairs:
            form.fields.setdefault(name, []).append(value)
        return form
    reader = _MultipartReader(request, limit, begin_upload)
    try:
        async for chunk in read_body(request, limit + file_limit, CONSOLE_UPLOAD_SECONDS):
            await finish(asyncio.to_thread(reader.take, chunk))
        return reader.finish()
    except BaseException:
        reader.form.close()
        raise


class _MultipartReader:
    """Reads a body with a file, part by part."""

    def __init__(
        self, request: Request, limit: int, begin_upload: Callable[[], Upload] | None
    ) -> None:
        self.form = FormBody()
        self._limit = limit
        self._begin_upload = begin_upload
        self._size = self._count = 0
        self._header = [bytearray(), bytearray()]
        self._name = ""
        self._is_file = self._is_ended = False
        self._value = bytearray()
        _, options = parse_options_header(request.headers.get("content-type"))
        callbacks: Any = {
            "on_part_begin": self._begin_part,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_part_data": self._add,
            "on_part_end": self._end_part,
            "on_end": self._end,
        }
        with _refusing():
            self._parser = MultipartParser(options[b"boundary"], callbacks)

    def take(self, chunk: bytes) -> None:
        """Take a part of the body. Blocks, because the file is written."""
        with _refusing():
            self._parser.write(chunk)

    def finish(self) -> FormBody:
        """Return the form.

        Raises:
            Invalid: if the body has no end.
        """
        if not self._is_ended:
            raise Invalid("The form has no end.")
        return self.form

    def _begin_part(self) -> None:
        self._count += 1
        if self._count > MAX_FORM_FIELDS:
            raise _too_many_fields()
        self._header = [bytearray(), bytearray()]
        self._name, self._is_file, self._value = "", False, bytearray()

    def _end_header(self) -> None:
        name, value = self._header
        self._header = [bytearray(), bytearray()]
        if name.lower() != b"content-disposition":
            return
        _, options = parse_options_header(bytes(value))
        self._name = options.get(b"name", b"").decode(errors="replace")
        self._is_file = self._name == UPLOAD_FIELD
        if not self._is_file:
            return
        if self._begin_upload is None or self.form.upload is not None:
            raise Invalid("This form takes no file." if self._begin_upload is None else "One file.")
        self.form.file_name = options.get(b"filename", b"").decode(errors="replace")
        if self.form.file_name:  # browsers send an empty part if none was chosen
            self.form.upload = self._begin_upload()

    def _add(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            if self.form.upload is not None:
                self.form.upload.write(data[start:end])
            return
        self._size += end - start
        if self._size > self._limit:
            raise TooLarge(f"The fields of the form must have at most {self._limit:,} bytes.")
        self._value += data[start:end]

    def _end_part(self) -> None:
        if not self._is_file:
            value = self._value.decode(errors="replace")
            self.form.fields.setdefault(self._name, []).append(value)

    def _end(self) -> None:
        self._is_ended = True


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Raise Invalid for a malformed body."""
    try:
        yield
    except (FormParserError, KeyError) as error:
        raise Invalid("The body of the form is malformed.") from error


def _too_many_fields() -> TooLarge:
    return TooLarge(f"{with_limit('Too many fields in the form', MAX_FORM_FIELDS)}.")
