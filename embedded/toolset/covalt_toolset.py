"""Another name of `sshwarma_toolset`, which toolsets written for other hosts import."""

from sshwarma_toolset import (
    ToolContext,
    ToolMetadata,
    clear_context,
    get_context,
    set_context,
    tool,
)

__all__ = [
    "ToolContext",
    "ToolMetadata",
    "clear_context",
    "get_context",
    "set_context",
    "tool",
]
