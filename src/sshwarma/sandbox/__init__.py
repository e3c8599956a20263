"""The sandbox for programs of others: no network, no other files, limits.

It knows nothing of the world. The decisions and what was measured are in docs/decisions/040.
"""
