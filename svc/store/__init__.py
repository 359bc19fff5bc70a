"""The store: SQLite and PostgreSQL behind ``svc.interfaces.store``; the only room with SQL."""
