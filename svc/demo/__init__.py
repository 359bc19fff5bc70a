"""``svc demo``: a whole gateway in one process that shows what it does.

It runs what ``svc all`` and ``svc up`` run, over real loopback sockets; only the targets and
the story are its own.  No other room imports it, except the command line.  Begin with ``show``.
"""
