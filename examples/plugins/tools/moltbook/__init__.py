"""A plugin: its tools are called moltbook:some_tool, or moltbook_some_tool."""

TOOL_NAMESPACE = "moltbook"
