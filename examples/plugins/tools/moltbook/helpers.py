"""What the tools of the plugin share. It has no DEFINITION, so it is no tool."""


def make_headline(text: str) -> str:
    """Return a text as a headline of Markdown."""
    return f"# {text.strip().capitalize()}"
