"""Reloads the configuration of a running role (ADR 79).

``keys`` has the keys that take effect without a restart, each with what applies it; ``reloading``
reads the file again, and changes all or nothing; ``socket`` serves ``svc reload`` on a socket of
the process.  Begin with ``reloading``.
"""
