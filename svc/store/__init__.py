"""The store: SQLite and PostgreSQL behind ``svc.interfaces.store``; the only room with SQL.

It does not know which rows are in force; :mod:`svc.authority.state` does.  Begin with ``sql`` for a
table, and with ``sqlite.factory`` for a backend.
"""
