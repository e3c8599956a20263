"""Import of what people have in other programs into a world.

A source is read by the command, in its own process, and what it has is sent to the world in steps.
Each step is one change. It finds what earlier ones have stored by ids that are made from those of
the source, so that a step may be repeated.
"""
