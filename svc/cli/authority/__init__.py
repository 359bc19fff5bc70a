"""``svc authority``: one module for each group of commands.  Begin with ``commands``.

A command sends its request to the control socket or works in :mod:`svc.ops`; it decides nothing.
"""
