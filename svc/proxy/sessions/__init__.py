"""Sessions at a Proxy: requested, decided, opened through a tunnel, carried, watched, ended.

Nothing here reads the bytes of an opaque session.  Begin with ``open``.
"""
