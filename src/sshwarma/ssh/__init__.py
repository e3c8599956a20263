"""The ssh door: server, keys, admission, shell and exec."""
