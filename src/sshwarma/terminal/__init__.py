"""The terminal: text, keys, line editor, completion menu, frames; independent of world and ssh."""
