"""The network helper ``svc-client-net``: ports below 1024 for residents, which may not bind them.

A resident makes a socket and hands it over; the helper binds it and closes its copy, so the socket
stays the person's.  Each user has a network of loopback addresses, for good, and the helper binds
nothing else for that user.  ``service`` and ``binding`` are the helper's side, ``networks`` its
memory, ``low_ports`` the resident's side, ``words`` what both say.
"""
