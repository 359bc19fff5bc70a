"""F3: whoever migrates is killed at each statement of each migration, on both backends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from twisted.trial.unittest import SynchronousTestCase

from tests.fault.mortal import Mortal
from tests.fault.tally import IS_LONG, Tally
from tests.store import test_migrate as on_files
from tests.store import test_postgres_migrate as on_databases
from tests.store.places import fresh_url, migrate, migrated_url
from tests.support.postgres import connected, empty_database, migrated_database
from tests.support.proof import proves

TALLY = Tally("F3")


class Killed(SynchronousTestCase):
    """A run that is killed leaves a store at a boundary."""

    def setUp(self) -> None:
        self.mortal = Mortal.started()
        self.addCleanup(self.mortal.end)

    def check(
        self,
        steps: Iterable[int],
        fresh: Callable[[], str],
        migrate: Callable[[str], object],
        whole: Callable[[str], object],
        clean: object,
    ) -> int:
        """Kill at these steps, and let another run go on each time; how many were killed."""
        for killed, step in enumerate(steps):
            url = fresh()
            if not self.mortal.migrate(url, step):
                return killed
            with TALLY.one():
                with TALLY.timed():
                    migrate(url)
                self.assertEqual(whole(url), clean, f"killed at step {step}")
        return -1

    @proves("U-MIG-14", "U-OPEN-10")
    def test_on_a_file(self) -> None:
        """The next run waits for nobody and ends with the schema of a clean store."""
        clean = on_files.schema_of(migrated_url(self))
        steps = count() if IS_LONG else (0, 3, 48, 98)
        killed = self.check(steps, lambda: fresh_url(self), migrate, on_files.schema_of, clean)
        self.assertTrue(not IS_LONG or killed > 90)

    @proves("U-MIG-14", "U-OPEN-10")
    def test_on_a_database(self) -> None:
        """The same, though the server notices by itself that the one who held its lock is gone."""
        clean = on_databases.dump(migrated_database(self))
        steps = count() if IS_LONG else (5, 38, 121)
        url = empty_database(self)

        def emptied() -> str:
            # In place: making a database again would take longer than to migrate it.
            with connected(url) as cursor:
                cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            return url

        killed = self.check(steps, emptied, on_databases.migrate, on_databases.dump, clean)
        self.assertTrue(not IS_LONG or killed > 90)
