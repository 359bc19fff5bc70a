"""``svc demo``: a whole gateway in one process, shown at work.

Everything is what ``svc all`` and ``svc up`` run, over real loopback sockets;
only the three targets and the story are made for it.
"""
