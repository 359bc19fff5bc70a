"""SSH hosts: as bytes to their own sshd, or with SSH ended at the Connector (the SSH gate).

Which it is depends on the resource's onward mode.  Terms, dialer and local endpoint are the kind's
sides; everything else is the gate, which a Connector loads when the first session needs it.  It
begins in ``gate``: a client's SSH ends in ``server``, the Connector's own begins in ``login``, and
``channels`` joins the two under the session's rights.
"""
