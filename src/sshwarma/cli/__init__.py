"""The `sshwarma` command line."""
