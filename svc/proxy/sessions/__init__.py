"""Sessions at a Proxy: asked for, decided, opened through a tunnel, carried, watched, ended.

Begin with ``open``.  Nothing here reads the bytes of an opaque session.
"""
