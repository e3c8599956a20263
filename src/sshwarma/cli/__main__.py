"""`python -m sshwarma.cli`."""

from sshwarma.cli.main import program

program()
