"""A store without room says so: whose disk it is to the caller, which file to the operator."""

from __future__ import annotations

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.errors import StoreFull
from svc.interfaces.store import StoreNeeds
from svc.plugins.store_postgresql import store_postgresql
from svc.testing.contracts.store import plain_chain_hash
from tests.store.places import migrated_url, path_of, run_child
from tests.support.postgres import connected, migrated_database

_LIMITED = """
import resource, sys
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import react
from twisted.logger import globalLogPublisher
from svc.errors import SvcError
from svc.store.sqlite.factory import SqliteFactory
from tests.store.places import real_needs

files, said = set(), []
globalLogPublisher.addObserver(lambda event: files.add(event.get("file")))

async def main():
    store = SqliteFactory().open(sys.argv[1], real_needs())
    add = lambda n: store.run("append", lambda tx: tx.audit.append(b'{"n":"%s"}' % (b"x" * n)).seq)
    await add(10)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), hard))
    for size in (10, 200_000, 20_000_000):
        try:
            await add(size)
        except SvcError as refused:
            said.append(f"{refused.reason} {refused.text}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    print(*said, f"{await add(10)} {sys.argv[3] in files}", sep="\\n")
    await store.close()

react(lambda _: ensureDeferred(main()))
"""

_SAID = "store_full the disk of {} is full, so nothing was written; its operator must free space"


class FullFileTests(SynchronousTestCase):
    """A file under a limit of its size."""

    def test_said(self) -> None:
        """Each caller is told whose disk is full, and that nothing was written; the log says where.

        The last record does not fit into the database's memory, so it fails before its commit.
        """
        for room in ("0", "4096"):
            url = migrated_url(self)
            done = run_child(_LIMITED, url, room, str(path_of(url)))
            said = [_SAID.format("the Authority")] * 3
            self.assertEqual(done.stdout.splitlines(), [*said, "2 True"], done.stderr)


class FullDatabaseTests(TestCase):
    """A PostgreSQL server that says it has no room."""

    async def test_said(self) -> None:
        """The caller is told so in a statement and in a commit, and the next one succeeds."""
        url = migrated_database(self)
        call = reactor.callFromThread  # type: ignore[attr-defined]
        store = store_postgresql.open(
            url,
            StoreNeeds(
                clock=reactor, now=lambda: 0.0, call_from_thread=call, chain_hash=plain_chain_hash
            ),
        )
        self.addCleanup(lambda: Deferred.fromCoroutine(store.close()))
        raising = "RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'no room'"
        with connected(url) as cursor:
            cursor.execute(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN {raising}; END $$"
            )
        for sort, when in (("", ""), ("CONSTRAINT", "INITIALLY DEFERRED")):
            with connected(url) as cursor:
                cursor.execute(
                    f"CREATE {sort} TRIGGER full_disk AFTER INSERT ON person_groups {when}"
                    " FOR EACH ROW EXECUTE FUNCTION full_disk()"
                )
            with self.assertRaises(StoreFull) as caught:
                await store.run("add", lambda tx: tx.people.add_group("more", 0.0))
            said = f"{caught.exception.reason} {caught.exception.text}"
            self.assertEqual(said, _SAID.format("the Authority's database"))
            with connected(url) as cursor:
                cursor.execute("DROP TRIGGER full_disk ON person_groups")
        await store.run("add", lambda tx: tx.people.add_group("more", 0.0))
