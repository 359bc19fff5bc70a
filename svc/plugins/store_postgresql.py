"""The drop-in ``store_postgresql``: stores of ``postgresql://user@host/database``."""

import time

from svc.store.postgres.factory import PostgresFactory

store_postgresql = PostgresFactory(time.monotonic)
