"""Contents of files as HTML: text, Markdown, pictures; of others, their size."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from sshwarma.terminal.image_decoder import UnshowableImage, check_image_size
from sshwarma.terminal.markdown_results import render_indented
from sshwarma.terminal.text import block, line
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.file_views import FileDownload, FileText, draw_file_lines
from sshwarma.web.console.frames import render_block
from sshwarma.web.console.picture_drawings import PictureDrawings
from sshwarma.world.caller import Caller

PICTURE_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""Ends of names of files that are shown as pictures, if they are any."""

MARKDOWN_SUFFIXES: Final = (".md", ".markdown")


@dataclass(frozen=True, slots=True)
class FileDrawing:
    """A content as HTML; `is_markdown` is whether it could be drawn so."""

    html: Markup
    is_markdown: bool = False


class FileDrawings:
    """Draws contents of files."""

    def __init__(self, pictures: PictureDrawings) -> None:
        self._pictures = pictures

    async def draw(
        self, caller: Caller, text: FileText, at: str | None, *, raw: bool
    ) -> FileDrawing:
        """Draw a file that was read.

        Args:
            caller: who looks at it.
            text: the file.
            at: its version; None for the present one.
            raw: whether Markdown is shown as it is written.
        """
        name = text.path.lower()
        if text.kind != "text":
            if name.endswith(PICTURE_SUFFIXES):
                return FileDrawing(await self._draw_picture(caller, text, at))
            said = "A binary file." if text.kind == "binary" else "Too large to show here."
            return FileDrawing(_draw_note(f"{said} Download it to look at it."))
        is_whole = text.offset == 1 and not text.left
        is_markdown = is_whole and name.endswith(MARKDOWN_SUFFIXES)
        if is_markdown and not raw:
            html = await asyncio.to_thread(_draw_markdown, text.text)
        elif text.lines:
            html = await asyncio.to_thread(_draw_text, text)
        else:
            html = _draw_note("The file is empty.")
        return FileDrawing(html, is_markdown)

    async def _draw_picture(self, caller: Caller, text: FileText, at: str | None) -> Markup:
        """Draw a picture, or say why it cannot be shown."""
        drawn = self._pictures.find(text.sha256)
        if drawn is not None:
            return drawn
        arguments = {"path": text.path} | ({"at": at} if at else {})
        try:
            check_image_size(text.size)
            caller = replace(caller, wants_bytes=True)
            found: FileDownload = await invoke(caller, "file get", arguments)
            data = await asyncio.to_thread(found.blob.read_bytes)
            return await self._pictures.draw(text.sha256, data)
        except UnshowableImage as reason:
            return _draw_note(f"{reason} Download it to look at it.")


def _draw_text(text: FileText) -> Markup:
    return render_block(block(*draw_file_lines(text, indent=0)))


def _draw_markdown(text: str) -> Markup:
    return render_block(block(*render_indented("", text)))


def _draw_note(text: str) -> Markup:
    return render_block(block(line(("dim", text))))
