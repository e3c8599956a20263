"""An MCP server whose tools return images. Run as a program: JSON-RPC over stdio."""

from __future__ import annotations

import base64
import io

from mcp.server.mcpserver import MCPServer
from mcp_types import ImageContent
from PIL import Image

server = MCPServer("painter")


def encode_png(image: Image.Image) -> ImageContent:
    file = io.BytesIO()
    image.save(file, "PNG")
    return show(file.getvalue())


def show(data: bytes, mime_type: str = "image/png") -> ImageContent:
    return ImageContent(data=base64.b64encode(data).decode(), mime_type=mime_type)


@server.tool()
def flag() -> ImageContent:
    """Paint 40 x 20 pixels: red above, blue below, green on the right."""
    image = Image.new("RGB", (40, 20), (255, 0, 0))
    image.paste((0, 0, 255), (0, 10, 40, 20))
    image.paste((0, 255, 0), (30, 0, 40, 20))
    return encode_png(image)


@server.tool()
def wheel(size: int = 600) -> ImageContent:
    """Paint a large image of many colours."""
    hue = Image.linear_gradient("L").resize((size, size))
    image = Image.merge("HSV", (hue, hue.rotate(90), Image.new("L", (size, size), 230)))
    return encode_png(image.convert("RGB"))


@server.tool()
def album(count: int = 3) -> list[ImageContent]:
    """Paint several images."""
    return [encode_png(Image.new("RGB", (16, 16), (9 * at, 0, 0))) for at in range(count)]


@server.tool()
def broken() -> ImageContent:
    """Return a damaged image."""
    return show(b"\x89PNG\r\n\x1a\n and no more")


@server.tool()
def drawing() -> ImageContent:
    """Return a drawing in SVG that says it is a PNG file."""
    return show(b"<svg xmlns='http://www.w3.org/2000/svg'><text>\x1b[31mred</text></svg>")


if __name__ == "__main__":
    server.run()
