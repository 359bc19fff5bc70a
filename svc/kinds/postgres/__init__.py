"""The kind ``postgres``: PostgreSQL's protocol, each statement decided by its effects.

Its four sides are ``terms``, ``dialer``, ``gate`` and ``local``; each program imports its own, so
that only a Proxy loads the SQL parser.  Begin with ``gate``, then ``pipeline``.

It is one shelf: both ends and the gate read one protocol and one language.
"""
