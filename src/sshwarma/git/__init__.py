"""Files of rooms as repositories: clone, fetch and push, without a git program."""
