"""Sessions at a Proxy: requested, decided, opened through a tunnel, carried, watched, ended.

Nothing here reads the bytes of an opaque session.  It is one shelf: each module is one thing that
happens to a session.  Begin with ``open``.
"""
