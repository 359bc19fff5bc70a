"""`audit outbox`: what waits for the log, as an operator sees and settles it."""

from __future__ import annotations

import json

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric import ed25519
from twisted.trial.unittest import TestCase

from svc.audit.log.record import Sealer
from svc.audit.spool.rows import RowMaker
from svc.model.audit.ledger import GENESIS
from svc.model.audit.outbox import Hold, Offered
from svc.model.audit.spool import SpoolPlace, SpoolRow
from tests.cli.authority.logs import EVIL, LoggedPlace
from tests.cli.terminal import NOW, Authority
from tests.pki.support import Counted
from tests.support.proof import proves

ORIGIN, SPOOL = "p" * 26, "ab" * 16
KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))


def a_row() -> SpoolRow:
    """The first row of a spool."""
    maker = RowMaker(
        origin=ORIGIN, key=KEY, sealer=Sealer(Counted()), now=lambda: NOW, entropy=Counted()
    )
    return maker.row(maker.opening(SPOOL, ()), SpoolPlace(SPOOL, 1, GENESIS))


class OutboxTests(TestCase):
    """A queue with a good row, a held one, and one that is nothing."""

    async def queued(self) -> LoggedPlace:
        """The store of an Authority that stopped."""
        row = a_row()
        bad = SpoolRow(
            canonical=b'{"event":"' + EVIL.encode() + b'"}',
            personal=(),
            key_id=EVIL,
            signature=b"s",
        )
        rows = [
            Offered(row=row, origin=ORIGIN, spool_id=SPOOL, n=1),
            Offered(row=evolve(row, signature=b""), origin=ORIGIN, spool_id=SPOOL, n=1),
            Offered(row=bad, origin="?", spool_id="?", n=0),
        ]
        place = LoggedPlace(self)
        store = place.open()
        await store.run("queue", lambda tx: tx.outbox.add(rows, NOW))
        await store.run("hold", lambda tx: tx.outbox.hold(2, Hold.UNSIGNED, NOW + 1))
        await store.close()
        return place

    @proves("G-OPEN-14")
    async def test_list(self) -> None:
        """Rows are listed with every role stopped, escaped, and told apart by why they wait."""
        place = await self.queued()
        lines = place.run("audit", "outbox", "list").stdout.splitlines()
        self.assertEqual(lines[0].split()[:3], ["ID", "REASON", "ORIGIN"])
        self.assertEqual(
            [line.split()[:2] for line in lines[1:]], [["1", "-"], ["2", "unsigned"], ["3", "-"]]
        )
        held = json.loads(place.run("audit", "outbox", "list", "--held", "--json").stdout)
        self.assertEqual([(row["id"], row["reason"]) for row in held], [(2, "unsigned")])
        self.assertEqual((held[0]["origin"], held[0]["n"]), (ORIGIN, 1))
        self.assertEqual(held[0]["event"], "spool.open")
        later = place.run("audit", "outbox", "list", "--after", "2", "--json").stdout
        self.assertEqual([row["id"] for row in json.loads(later)], [3])
        none = place.run("audit", "outbox", "list", "--after", "9")
        self.assertEqual((none.stdout, none.stderr), ("", "no rows\n"))

    @proves("G-OPEN-14")
    async def test_settle(self) -> None:
        """Releasing and discarding are asked of the Authority, with a reason."""
        place, authority = LoggedPlace(self), Authority()
        row = Offered(row=evolve(a_row(), signature=b""), origin=ORIGIN, spool_id=SPOOL, n=1)

        def queue(tx: object) -> None:
            tx.outbox.add([row, row], NOW)  # type: ignore[attr-defined]
            tx.outbox.hold(1, Hold.UNSIGNED, NOW)  # type: ignore[attr-defined]

        authority.change(queue)

        def run(*words: str) -> tuple[int, str, str]:
            found = place.run("audit", "outbox", *words, admin=authority)
            return found.status, found.stdout, found.stderr

        self.assertEqual(run("discard", "1")[0], 64)
        status, _, said = run("release", "1", "--reason", "why not")
        self.assertEqual(status, 1)
        self.assertIn("row 1 is unsigned", said)
        self.assertIn("(row_not_releasable)", said)
        status, told, _ = run("discard", "1", "--reason", "a test")
        self.assertEqual(status, 0)
        self.assertRegex(told, r"\Adiscarded row 1, record sha256 [0-9a-f]{64}\n\Z")
        self.assertIn("(not_found)", run("discard", "1", "--reason", "again")[2])
        self.assertIn("(row_not_held)", run("release", "2", "--reason", "again")[2])
