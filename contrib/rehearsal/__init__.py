"""Rehearses an upgrade: a gateway of real processes goes to a release's program, and back.

Begin with ``steps``.  What the page ``docs/how-to/upgrade.md`` tells an operator to do is done
here in the same order, with stock clients, on this machine alone.
"""
