"""Images decoded in processes: formats, and files that mean harm."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import textwrap
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image

from sshwarma.common.limits import (
    MAX_IMAGE_BYTES,
    MAX_IMAGE_PIXELS,
    MAX_PICTURE_COLUMNS,
    MAX_PICTURE_PIXELS,
    MAX_PICTURE_ROWS,
    MAX_RUNNING_IMAGES,
    MAX_WAITING_IMAGES,
)
from sshwarma.common.processes import find_library_folder
from sshwarma.terminal import image_decoder
from sshwarma.terminal.image_decoder import ImageDecoder, UnshowableImage
from sshwarma.terminal.picture import Pixels
from support.images import BLUE, RED, WHITE, encode_image, make_png_header, paint_flag
from support.waiting import until

pytestmark = [pytest.mark.process]

SOURCE = Path(image_decoder.__file__).parents[2]


@pytest_asyncio.fixture
async def decoder() -> AsyncIterator[ImageDecoder]:
    made = ImageDecoder()
    yield made
    await made.close()


async def refuse(decoder: ImageDecoder, data: bytes) -> str:
    """Why an image is not shown."""
    with pytest.raises(UnshowableImage) as refused:
        await decoder.decode(data, 12)
    reason = str(refused.value)
    assert reason.startswith("This image cannot be shown: ") and reason.endswith(".")
    return reason.removeprefix("This image cannot be shown: ").removesuffix(".")


def colour(pixels: Pixels, x: int, y: int) -> tuple[int, ...]:
    at = y * pixels.width + x
    if pixels.palette:
        index = pixels.data[at]
        return tuple(pixels.palette[3 * index : 3 * index + 3])
    return tuple(pixels.data[3 * at : 3 * at + 3])


@pytest.mark.parametrize(
    ("kind", "options"),
    [("PNG", {}), ("GIF", {}), ("WEBP", {"lossless": True}), ("JPEG", {"quality": 100})],
)
async def test_image_of_each_format_is_decoded(
    decoder: ImageDecoder, kind: str, options: dict[str, object]
) -> None:
    picture = await decoder.decode(encode_image(paint_flag(), kind, **options), 12)
    assert (picture.width, picture.height, picture.rows) == (40, 20, 12)
    assert (picture.small.width, picture.small.height) == (40, 20)
    for pixels in (picture.small, picture.large):
        for found, painted in ((colour(pixels, 3, 2), RED), (colour(pixels, 3, 17), BLUE)):
            assert all(abs(a - b) < 8 for a, b in zip(found, painted, strict=True))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16", "CMYK"])
async def test_image_of_each_mode_is_decoded(decoder: ImageDecoder, mode: str) -> None:
    image = Image.new(mode, (8, 8), None)
    data = encode_image(image, "JPEG" if mode == "CMYK" else "PNG")
    assert (await decoder.decode(data, 12)).small.width == 8


async def test_grey_of_16_bits_keeps_its_range(decoder: ImageDecoder) -> None:
    image = Image.new("I;16", (4, 4), 32768)
    picture = await decoder.decode(encode_image(image), 12)
    assert colour(picture.small, 0, 0) == (128, 128, 128)


async def test_transparent_pixels_are_white(decoder: ImageDecoder) -> None:
    image = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    image.paste((*RED, 255), (0, 0, 8, 4))
    picture = await decoder.decode(encode_image(image), 12)
    assert (colour(picture.small, 0, 0), colour(picture.small, 0, 7)) == (RED, WHITE)


async def test_photo_is_turned_upright(decoder: ImageDecoder) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = await decoder.decode(encode_image(paint_flag(40, 10), exif=exif), 12)
    assert (picture.width, picture.height) == (10, 40)
    large = picture.large
    assert (colour(large, 0, 5), colour(large, large.width - 1, 5)) == (BLUE, RED)


async def test_large_image_is_scaled_down_in_proportion(decoder: ImageDecoder) -> None:
    picture = await decoder.decode(encode_image(paint_flag(3000, 2000)), MAX_PICTURE_ROWS)
    assert (picture.width, picture.height) == (3000, 2000)
    large, small = picture.large, picture.small
    assert large.width * large.height <= MAX_PICTURE_PIXELS
    assert abs(large.width / large.height - 1.5) < 0.02
    assert (small.width, small.height) == (96, 64)
    assert small.width <= MAX_PICTURE_COLUMNS
    assert (colour(small, 0, 0), colour(small, 95, 63)) == (RED, BLUE)


async def test_only_the_first_frame_of_an_animation_is_decoded(decoder: ImageDecoder) -> None:
    frames = [Image.new("L", (400, 400), at % 200 + 1) for at in range(400)]
    data = encode_image(frames[0], "GIF", save_all=True, append_images=frames[1:])
    with Image.open(io.BytesIO(data)) as animation:
        assert getattr(animation, "n_frames", 1) == 400
    picture = await decoder.decode(data, 12)
    assert (picture.width, picture.height) == (400, 400)
    assert len({colour(picture.small, x, x) for x in range(20)}) == 1


async def test_png_bomb_is_refused_by_its_header(decoder: ImageDecoder) -> None:
    reason = await refuse(decoder, make_png_header(50_000, 50_000))
    assert reason == f"it has 50,000 x 50,000 pixels, over {MAX_IMAGE_PIXELS:,}"


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "JPEG"])
async def test_header_of_many_pixels_is_refused(decoder: ImageDecoder, kind: str) -> None:
    data = bytearray(encode_image(paint_flag(), kind))
    if kind == "GIF":
        struct.pack_into("<HH", data, 6, 16_000, 16_000)
    elif kind == "WEBP":
        struct.pack_into("<HH", data, 26, 16_000, 16_000)
    else:
        struct.pack_into(">HH", data, data.index(b"\xff\xc0") + 5, 16_000, 16_000)
    assert "16,000 x 16,000 pixels" in await refuse(decoder, bytes(data))


@pytest.mark.parametrize("size", [(16_383, 16_383), (20_000, 9)])
async def test_size_of_an_extended_webp_is_read_before_it_is_opened(
    decoder: ImageDecoder, size: tuple[int, int]
) -> None:
    width, height = (part - 1 for part in size)
    body = b"\0\0\0\0" + width.to_bytes(3, "little") + height.to_bytes(3, "little")
    data = b"RIFF" + struct.pack("<I", 30) + b"WEBPVP8X" + struct.pack("<I", 10) + body
    expected = "damaged" if size[0] * size[1] <= MAX_IMAGE_PIXELS else "16,383 x 16,383 pixels"
    assert expected in await refuse(decoder, data)


async def test_text_that_unpacks_to_gigabytes_is_refused(decoder: ImageDecoder) -> None:
    chunks = make_png_header(8, 8)
    packer, count = zlib.compressobj(9), 2048
    head = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    end = b"\x03\x00" + struct.pack(">I", ((count << 20) % 65_521) << 16 | 1)  # Adler-32 of zeros
    text = b"note\0\0" + head + again * (count - 1) + end
    bomb = struct.pack(">I", len(text)) + b"zTXt" + text
    bomb += struct.pack(">I", zlib.crc32(b"zTXt" + text))
    assert await refuse(decoder, chunks[:33] + bomb + chunks[33:])


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP", "JPEG"])
@pytest.mark.parametrize("part", [0.03, 0.3, 0.9])
async def test_truncated_file_is_refused(decoder: ImageDecoder, kind: str, part: float) -> None:
    data = encode_image(Image.effect_noise((90, 90), 80).convert("RGB"), kind)
    reason = await refuse(decoder, data[: max(16, int(len(data) * part))])
    assert reason in ("it is damaged or incomplete", "it is not a PNG, JPEG, GIF or WebP file")


async def test_file_over_the_limit_of_bytes_starts_no_process(
    decoder: ImageDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(image_decoder, "start_isolated")
    reason = await refuse(decoder, make_png_header(8, 8) + bytes(9 << 20))
    assert reason.endswith(f"bytes, over {MAX_IMAGE_BYTES:,}")


@pytest.mark.parametrize(
    "data",
    [b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"", b"%PDF-1.7", b"BM" + bytes(60),
     b"II*\0" + bytes(60), b"%!PS-Adobe-3.0 EPSF-3.0\n", b"P6 1 1 255 abc"],
)  # fmt: skip
async def test_other_formats_are_refused(decoder: ImageDecoder, data: bytes) -> None:
    assert await refuse(decoder, data) == "it is not a PNG, JPEG, GIF or WebP file"


async def test_slow_image_times_out(decoder: ImageDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_decoder, "_PROGRAM", "import time; time.sleep(99)")
    monkeypatch.setattr(image_decoder, "IMAGE_TIMEOUT_SECONDS", 0.5)
    assert await refuse(decoder, b"x") == "its decoding timed out after 0.5 s"
    assert not decoder._running


ANSWERS = {
    "silence": "",
    "noise": "print('x' * 100)",
    "no-size": 'print(\'{"size": [0, 1], "palette": 3, "large": [1, 1], "small": [1, 2]}\')',
    "too-little": 'print(\'{"size": [9, 9], "palette": 3, "large": [9, 9], "small": [9, 9]}\')',
    "huge": 'print(\'{"size": [9, 9], "palette": 3, "large": [1e9, 1e9], "small": [9, 9]}\')',
    "giant": 'print(\'{"size": [1\' + "0" * 4000 + \', 9], "palette": 3, "large": [1, 1]}\')',
    "endless": "import sys\nwhile True: sys.stdout.write('x' * 65536)",
    "crash": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "deep": "print('[' * 100000)",
    "list": "print('[]')",
}


@pytest.mark.parametrize("program", ANSWERS.values(), ids=ANSWERS)
async def test_answer_of_a_taken_over_process_is_not_trusted(
    decoder: ImageDecoder, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(image_decoder, "_PROGRAM", f"import sys; sys.stdin.read()\n{program}")
    assert await refuse(decoder, b"x") == "its decoder failed"


async def test_reason_of_a_taken_over_process_is_not_repeated(
    decoder: ImageDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = json.dumps({"failure": "\x1b]0;owned\x07", "width": "\x1b[2J", "height": 1})
    monkeypatch.setattr(
        image_decoder, "_PROGRAM", f"import sys; sys.stdin.read(); print({answer!r})"
    )
    assert await refuse(decoder, b"x") == "it is damaged or incomplete"


async def test_few_images_are_decoded_at_once_and_few_wait(
    decoder: ImageDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_decoder, "_PROGRAM", "import time; time.sleep(99)")
    tasks = [
        asyncio.create_task(decoder.decode(b"x", 12))
        for _ in range(MAX_RUNNING_IMAGES + MAX_WAITING_IMAGES)
    ]
    await until(lambda: len(decoder._running) == MAX_RUNNING_IMAGES)
    assert await refuse(decoder, b"x") == f"{MAX_WAITING_IMAGES} other images are waiting"
    assert len(decoder._running) == MAX_RUNNING_IMAGES
    await decoder.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, UnshowableImage) for result in results)
    assert not decoder._running


async def test_cancelled_decoding_ends_its_process(
    decoder: ImageDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_decoder, "_PROGRAM", "import time; time.sleep(99)")
    task = asyncio.create_task(decoder.decode(b"x", 12))
    await until(lambda: decoder._running)
    (process,) = decoder._running
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert process.returncode == -signal.SIGKILL


async def test_missing_pillow_is_a_reason(
    decoder: ImageDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_library_folder.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert await refuse(decoder, b"x") == "Pillow is not installed"


def run_worker(tmp_path: Path, code: str) -> str:
    """What code prints in a process like that of the worker, after its imports."""
    program = image_decoder._PROGRAM.replace("main()", "").rstrip("; ") + "\n"
    done = subprocess.run(
        [*(sys.executable, "-I", "-S", "-c", program + textwrap.dedent(code)),
         *(str(SOURCE), find_library_folder("PIL"))],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )  # fmt: skip
    return done.stdout


def test_worker_imports_little_of_the_program(tmp_path: Path) -> None:
    names = run_worker(
        tmp_path, "print(*(name for name in sys.modules if name.startswith('sshwarma.')))"
    )
    assert set(names.split()) == {
        "sshwarma.common",
        "sshwarma.common.confine",
        "sshwarma.common.limits",
        "sshwarma.common.units",
        "sshwarma.terminal",
        "sshwarma.terminal.image_worker",
        "sshwarma.terminal.picture",
    }


def test_worker_can_open_no_file(tmp_path: Path) -> None:
    tried = run_worker(
        tmp_path,
        """
        from sshwarma.common.confine import confine_process
        confine_process(1 << 28)
        for path in ("/etc/passwd", "made"):
            try:
                open(path, "w" if path == "made" else "r")
            except OSError as error:
                print(error.strerror)
        try:
            bytearray(1 << 29)
        except MemoryError:
            print("no memory")
        """,
    )
    assert tried.splitlines() == ["Too many open files", "Too many open files", "no memory"]
    assert not list(tmp_path.iterdir())


async def test_worker_ends_with_a_killed_server(tmp_path: Path) -> None:
    """The process that started it is killed while a file is being decoded."""
    program = """
    import asyncio, sys
    from sshwarma.terminal import image_decoder
    # The worker sleeps as a slow decoder would, after it has dropped its rights.
    image_decoder._PROGRAM = image_decoder._PROGRAM.replace(
        "main()", "from sshwarma.terminal import image_worker as w;"
        " w._decode = lambda data, request: __import__('time').sleep(99); main()")
    image_decoder.IMAGE_TIMEOUT_SECONDS = 60.0
    async def run():
        decoder = image_decoder.ImageDecoder()
        task = asyncio.create_task(decoder.decode(b"x", 12))
        while not decoder._running:
            await asyncio.sleep(0.01)
        (process,) = decoder._running
        print(process.pid, flush=True)
        await task
    asyncio.run(run())
    """
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(program)),
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": os.pathsep.join([str(SOURCE), *sys.path])},
        cwd=tmp_path,
    )
    assert server.stdout
    pid = int(await server.stdout.readline())
    limits, command = Path(f"/proc/{pid}/limits"), Path(f"/proc/{pid}/cmdline")
    await until(lambda: re.search(r"Max open files +3 ", limits.read_text()))
    server.kill()
    await server.wait()
    await until(lambda: not command.exists() or not command.read_bytes())
