"""The drop-in ``store_sqlite``: stores of ``sqlite:///absolute/path.db``."""

from svc.store.sqlite.factory import SqliteFactory

store_sqlite = SqliteFactory()
