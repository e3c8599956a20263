"""Write posts into a file of the room; count them in the session memory."""

from pathlib import Path

from tools.moltbook.helpers import make_headline

DEFINITION = {
    "type": "function",
    "function": {
        "name": "some_tool",
        "description": "Write a post into posts.md, and say which number it has.",
        "parameters": {
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "Title of the post."},
                "text": {"type": "string", "description": "The post itself, in Markdown."},
            },
            "required": ["title", "text"],
        },
    },
}

LEAVE_OUT = "SHORT"
TOOL_SHORT_AMOUNT = 200


def execute(args: dict, session_data: dict) -> str:
    """Append the post to posts.md."""
    memory = session_data["memory"]
    number = int(memory.get("moltbook_posts", "0")) + 1
    memory["moltbook_posts"] = str(number)
    with Path("posts.md").open("a") as posts:
        posts.write(f"{make_headline(args['title'])}\n\n{args['text']}\n\n")
    return f"This is post {number}."


def needs_approval(args: dict) -> bool:
    """Say that nobody is asked before a call."""
    return False
