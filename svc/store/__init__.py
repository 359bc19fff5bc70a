"""The store: SQLite behind ``svc.interfaces.store``; the only room with SQL."""
