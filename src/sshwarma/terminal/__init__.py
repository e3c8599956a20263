"""The screen: text, keys, line editor, completion menu, frames. Knows no world and no ssh."""
