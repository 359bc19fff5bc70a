"""Keys that end: a running Authority signs with newer ones, and all that it signed is good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.anchor import AnchorDirectory
from svc.audit.checkpoint.signer import HeadWriter
from svc.audit.log.verify import verified_ranges, verify
from svc.audit.state.in_force import StateLedger
from svc.authority.enroll.rotation import URGENT_SECS, SigningKeyRotation
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.guarded_store import StoredChain
from svc.compose.authority.state import anchor_key, origin_key
from svc.errors import SvcError
from svc.model.audit.record import chain_hash
from svc.model.certificate import CertificateRefused
from svc.model.signing import Purpose
from svc.pki.audit_signatures import head_verifier, origin_verifier
from svc.pki.keyring import create_cluster, load_keys, newer_purpose, renew_purpose
from svc.pki.profile import DAY, PURPOSE_LIFETIME, PURPOSES
from svc.pki.root import PurposeKey
from svc.pki.verify import ChainVerifier
from svc.runtime.services import BackgroundTasks
from svc.runtime.threads import inline
from svc.store.sqlite.memory import memory_store
from tests.authority.house import House, refusal_of, value_of
from tests.pki.support import CLUSTER
from tests.support.nothing import nothing, nothing_later
from tests.support.proof import proves


class PurposeTests(SynchronousTestCase):
    """An Authority over a store in memory, with its keys and its anchor on the disk."""

    def setUp(self) -> None:
        self.house = house = House(policy="")
        self.directory = Path(self.mktemp())
        create_cluster(self.directory, CLUSTER, house.now, house.entropy)
        self.keys = load_keys(self.directory, house.now, house.entropy)
        root = self.keys.root_der
        house.store.store = memory_store(chain_hash)
        house.ledger = house.recorder.ledger = StateLedger(origin_verifier(root, CLUSTER))
        house.recorder.key = origin_key(self.keys)
        self.verifier = ChainVerifier(CLUSTER, root, house.now)
        self.verify_head = head_verifier(root, CLUSTER)
        self.anchor = AnchorDirectory(Path(self.mktemp()).absolute())
        self.heads = HeadWriter(
            chain=StoredChain(house.store),
            keeper=self.anchor,
            key=anchor_key(self.keys),
            verify_head=self.verify_head,
            cluster=CLUSTER,
            log_id=CLUSTER,
            leader="a" * 26,
            clock=house.clock,
            now=house.now,
            tasks=BackgroundTasks(),
            lease_epoch=lambda: 1,
            share=nothing_later,
            on_signed=nothing,
            ours=nothing,
            on_takeover=nothing,
            on_unsigned=nothing,
        )
        value_of(self.heads.start())
        self.is_paused = False
        self.ends: dict[str, float] = {}
        self.stale: dict[str, bool] = {}
        self.taken: list[str] = []
        self.followed = self.follower(self.load)

    def follower(self, load: Callable[[PurposeKey], PurposeKey | None]) -> SigningKeyRotation:
        return SigningKeyRotation(
            keys=self.keys,
            issuers=dict,
            load=load,
            now=self.house.now,
            in_thread=inline,
            taken=self.took,
            is_stale=self.stale.__setitem__,
            ends_in=self.ends.__setitem__,
            is_paused=lambda: self.is_paused,
        )

    def load(self, used: PurposeKey) -> PurposeKey | None:
        return newer_purpose(
            self.directory, used, self.keys.root, self.house.now, self.house.entropy
        )

    def took(self, word: str) -> None:
        self.taken.append(word)
        self.house.recorder.key = origin_key(self.keys)
        self.heads.key = anchor_key(self.keys)

    def renew(self, word: str) -> None:
        """What the operator's command does."""
        renew_purpose(self.directory, word, self.house.now, self.house.entropy)

    def follow(self) -> None:
        value_of(self.followed.follow())

    def work(self, name: str) -> None:
        """A change on record, a head over it, a snapshot and a grant that their readers believe."""
        self.house.add_group(name)
        value_of(self.heads.write())
        for purpose in (Purpose.SNAPSHOT, Purpose.GRANT):
            self.verifier.verify_signed(self.keys.signer(purpose)(b"what is signed"), purpose)
        newest = self.heads.newest
        assert newest is not None
        self.verifier.verify_signed(newest.signed, Purpose.AUDIT_HEAD)

    def check_log(self) -> int:
        """Whoever comes later finds every head and every record of state good; how many heads."""
        rows = value_of(self.house.store.read("rows", lambda tx: tx.audit.rows(1, 10_000)))
        found = verify(verified_ranges([rows]), self.anchor.heads(), self.verify_head)
        self.assertEqual(found.anchored, len(rows))
        ledger = StateLedger(origin_verifier(self.keys.root_der, CLUSTER))
        state_cache = ClusterStateCache(self.house.store, ledger, self.house.now, advanced=nothing)
        self.assertEqual(value_of(state_cache.reload()).unsigned, ())
        return sum(1 for _ in self.anchor.heads())

    def test_200_days(self) -> None:
        """An operator who does as the log says keeps it going: three keys of each are used up."""
        days = range(0, 200, 4)
        for day in days:
            with capturedLogs() as said:
                self.follow()
            self.assertGreater(min(self.ends.values()), URGENT_SECS)
            for one in said:
                if one["log_level"].name == "warn":
                    self.renew(one["key"])
            self.work(f"day{day}")
            self.follow()
            self.work(f"later{day}")
            self.house.clock.advance(4 * DAY)
        self.assertEqual(sorted(self.taken), sorted([*PURPOSES] * 3))
        self.assertEqual(self.check_log(), 2 * len(days))

    @proves("U-PHA-03", "U-OPEN-18")
    def test_paused(self) -> None:
        """While rotation is paused a newer key is not loaded, and ends are told all the same."""
        self.is_paused = True
        self.house.clock.advance(80 * DAY)
        self.renew("grant")
        with capturedLogs() as said:
            self.follow()
        self.assertEqual(self.taken, [])
        self.assertIn("grant", {one.get("key") for one in said})
        self.is_paused = False
        self.follow()
        self.assertEqual(self.taken, ["grant"])

    def test_never_renewed(self) -> None:
        """Past its end a key signs nothing that could never be verified, until there is another."""
        self.follow()
        self.work("before")
        self.house.clock.advance(PURPOSE_LIFETIME)
        with capturedLogs() as said:
            self.follow()
        self.assertEqual({one["log_level"].name for one in said}, {"error"})
        self.assertEqual({one["key"] for one in said}, set(PURPOSES))
        self.assertLessEqual(max(self.ends.values()), 0)
        refused = self.assertRaises(SvcError, self.house.add_group, "void")
        self.assertEqual(refused.reason, "audit_key_expired")
        signed = self.keys.signer(Purpose.SNAPSHOT)(b"void")
        with self.assertRaises(CertificateRefused):
            self.verifier.verify_signed(signed, Purpose.SNAPSHOT)
        for word in PURPOSES:
            self.renew(word)
        self.follow()
        self.work("after")
        self.assertEqual(self.check_log(), 2)

    def test_head_is_put_off(self) -> None:
        """A head that its key may not sign any more is refused, and signed by the next one."""
        self.work("before")
        self.house.clock.advance(PURPOSE_LIFETIME)
        self.renew("audit-origin")
        self.follow()
        self.house.add_group("covered later")
        self.assertEqual(refusal_of(self.heads.write()).reason, "audit_key_expired")
        self.assertEqual(self.check_state_only(), ())
        self.renew("anchor")
        self.follow()
        value_of(self.heads.write())
        self.assertEqual(self.check_log(), 2)

    def check_state_only(self) -> Any:
        ledger = StateLedger(origin_verifier(self.keys.root_der, CLUSTER))
        state_cache = ClusterStateCache(self.house.store, ledger, self.house.now, advanced=nothing)
        return value_of(state_cache.reload()).unsigned

    def test_not_taken(self) -> None:
        """A pair that was cut, or that others may read, is said once; the old one goes on."""
        self.follow()
        old = self.keys.purposes["grant"]
        self.renew("grant")
        good = (self.directory / "grant.key").read_bytes()
        self.renew("grant")
        (self.directory / "grant.key").write_bytes(good)
        with capturedLogs() as said:
            self.follow()
            self.follow()
        self.assertEqual([one["key"] for one in said], ["grant"])
        self.assertIs(self.keys.purposes["grant"], old)
        (self.directory / "grant.key").chmod(0o644)
        with capturedLogs() as said:
            self.follow()
        self.assertEqual(len(said), 1)
        (self.directory / "grant.key").chmod(0o600)
        self.renew("grant")
        self.follow()
        self.assertEqual(self.taken, ["grant"])

    def test_another_cluster(self) -> None:
        """Keys of another cluster of this name, copied over those here, are not taken."""
        foreign = Path(self.mktemp())
        self.house.clock.advance(DAY)
        create_cluster(foreign, CLUSTER, self.house.now, self.house.entropy)
        for path in foreign.iterdir():
            (self.directory / path.name).write_bytes(path.read_bytes())
        with capturedLogs() as said:
            self.follow()
            self.follow()
        self.assertEqual(
            [(one["log_format"], one["key"]) for one in said],
            [("a key in keys/ was not accepted", word) for word in PURPOSES],
        )
        self.assertEqual(self.stale, dict.fromkeys(PURPOSES, True))
        self.assertEqual(self.taken, [])
        self.work("goes on")

    def test_clock_set_back(self) -> None:
        """Before its beginning a key signs nothing, and the one before goes on until then."""
        self.follow()
        self.work("before")
        for word in ("anchor", "audit-origin"):
            self.house.clock.advance(10 * DAY)
            old = self.keys.purposes[word]
            self.renew(word)
            self.follow()
            self.work(f"by the newer {word}")
            self.house.clock.rightNow -= 5 * DAY
            if word == "anchor":
                self.house.add_group("covered later")
                refused = refusal_of(self.heads.write())
            else:
                refused = self.assertRaises(SvcError, self.house.add_group, "void")
            self.assertEqual(refused.reason, "audit_key_not_begun")
            with capturedLogs() as said:
                self.follow()
                self.follow()
            self.assertEqual([one["log_level"].name for one in said], ["warn", "error"])
            self.assertIs(self.keys.purposes[word], old)
            self.work(f"by the former {word}")
            self.house.clock.advance(5 * DAY)
            self.follow()
            self.work(f"by the newer {word} again")
        self.assertEqual(self.taken, ["anchor"] * 3 + ["audit-origin"] * 3)
        self.check_log()

    def test_renewed_with_the_clock_set_back(self) -> None:
        """Where no key before is known, one made by the clock as it now is is taken."""
        self.house.clock.advance(10 * DAY)
        self.renew("anchor")
        self.follow()
        self.followed = self.follower(self.load)
        self.house.clock.rightNow -= 5 * DAY
        self.house.add_group("covered later")
        self.follow()
        self.assertEqual(refusal_of(self.heads.write()).reason, "audit_key_not_begun")
        self.renew("anchor")
        self.follow()
        self.work("after")
        self.check_log()

    def test_older(self) -> None:
        """A key that ends before the one in use is not gone back to."""
        files = {name: (self.directory / f"anchor.{name}").read_bytes() for name in ("key", "pem")}
        self.house.clock.advance(DAY)
        self.renew("anchor")
        self.follow()
        for name, data in files.items():
            (self.directory / f"anchor.{name}").write_bytes(data)
        self.follow()
        self.assertEqual(self.taken, ["anchor"])
