"""Terminal: text, keys, line editor, completion, frames; without world and ssh."""
