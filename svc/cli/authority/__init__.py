"""``svc authority``: a module a group of commands.  Begin with ``commands``."""
