"""The policy a Proxy decides by: signed, newer than all before, fresh, or not taken at all."""

from __future__ import annotations

import errno
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import formatEvent, globalLogPublisher
from twisted.python.failure import Failure

from svc.errors import Denied, SvcError
from svc.messages.session import OPEN_METHOD, encode_open, encode_request
from svc.messages.snapshot import SnapshotFrame, decode_snapshot
from svc.model.principal import Role
from svc.model.signing import Purpose, Signed
from svc.proxy.uplink.snapshot import Floor, FloorFile
from svc.rpc.frames import open_frame
from svc.runtime import durable
from tests.pki.support import World
from tests.proxy.pieces import ProxyTests, Talk
from tests.support.logged import logged
from tests.support.proof import proves


class FullDisk(FloorFile):
    """There is no room for it."""

    def write(self, floor: Floor) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(self.path))


class SnapshotTests(ProxyTests):
    def take(self, frame: SnapshotFrame) -> str:
        """What became of a frame: a reason word, or nothing where it was taken."""
        got: list[Any] = []
        Deferred.fromCoroutine(self.site.holder.take(frame)).addBoth(got.append)
        if isinstance(got[0], Failure):
            got[0].trap(SvcError)
            refusal: Any = got[0].value
            return str(refusal.reason)
        return ""

    def stale(self) -> bool:
        try:
            self.site.holder.engine()
        except SvcError as e:
            self.assertEqual(e.reason, "policy_stale")
            return True
        return False

    def test_taken(self) -> None:
        """A newer bundle is decided by from then on; of the same policy the engine is kept."""
        self.assertEqual(self.site.holder.engine().revision, 7)
        newer = self.authority._bundle(("db1",), 8)
        self.assertEqual(self.take(self.authority.frame(newer)), "")
        self.assertEqual(self.site.holder.engine().revision, 8)
        self.assertEqual([base is not None for base in self.site.compiled], [False, True])

    def test_claims_are_named(self) -> None:
        """A permit that reads what nothing enforces is named once, when its text is taken."""
        events = logged(self)
        claims = (
            '@id("deploy-only") permit (principal, action == Action::"dbConnect", resource) '
            'when { context has db_name && context.db_name == "deploy" };'
        )
        for revision in (8, 9):
            newer = evolve(
                self.authority._bundle(("db1",), revision), policy_version=8, policy_text=claims
            )
            self.assertEqual(self.take(self.authority.frame(newer)), "")
        told = [one["policies"] for one in events if one.get("reason") == "policy_unenforced_fact"]
        self.assertEqual(told, [["deploy-only"]])

    def test_news_beside_what_cannot_be_used(self) -> None:
        """Sessions to be ended that came with an unusable bundle are ended by the next frame."""
        holder, told = self.site.holder, list[int]()
        holder.on_change(lambda: told.append(1))
        compiled = holder.compile

        async def fails(*_: object) -> Any:
            raise SvcError("it cannot be compiled", reason="policy_refused")

        holder.compile = fails
        ends = {"5" * 32: "ended_by_operator"}
        newer = self.authority._bundle(("db1",), 8)
        self.assertEqual(self.take(self.authority.frame(newer, asked_ends=ends)), "policy_refused")
        holder.compile = compiled
        self.assertEqual(told, [])
        self.assertEqual(self.take(self.authority.frame(parts="nothing", asked_ends=ends)), "")
        self.assertEqual(told, [1])
        self.assertEqual(self.take(self.authority.frame(parts="nothing", asked_ends=ends)), "")
        self.assertEqual(told, [1])

    def test_delta(self) -> None:
        """A change is applied to the bundle that is held."""
        newer = self.authority._bundle(("db1", "db2", "db3"), 8)
        self.assertEqual(self.take(self.authority.frame(newer, parts="delta")), "")
        ids = {entity.uid.id for entity in self.site.holder.engine().entities}
        self.assertIn("db3", ids)

    def test_delta_that_does_not_fit(self) -> None:
        """A change that gives other bytes than were signed is refused, and all is asked for."""
        self.assertTrue(self.site.holder.digest)
        newer = self.authority._bundle(("db1", "db2", "db3"), 8)
        frame = self.authority.frame(newer, parts="delta", bundle_sha256=bytes(32))
        self.assertEqual(self.take(frame), "snapshot_digest")
        self.assertEqual(self.site.holder.digest, b"")
        self.assertEqual(self.site.holder.engine().revision, 7)
        self.assertEqual(self.take(self.authority.frame(newer)), "")
        self.assertTrue(self.site.holder.digest)

    def test_refused(self) -> None:
        """Another cluster's, an older, an altered, an expired one: each refused by its word."""
        frame = self.authority.frame
        older = self.authority._bundle(("db1",), 6)
        mixed = self.authority._bundle(("db1",), 6, version=4)
        now = int(self.site.cluster.world.now() * 1000)
        cases = {
            "snapshot_cluster": [frame(cluster="other.example.test")],
            "snapshot_older": [
                frame(older),
                frame(mixed),
                frame(self.authority._bundle(("db1",), 9, version=2)),
                frame(parts="nothing", serial=1),
            ],
            "snapshot_expired": [frame(issued_at_ms=now - 61_000)],
            "snapshot_ahead": [frame(issued_at_ms=now + 61_000)],
            "snapshot_digest": [
                frame(bundle_sha256=bytes(32)),
                frame(self.authority._bundle(("db1",), 8), entity_revision=9),
            ],
            "snapshot_unknown_bundle": [frame(parts="nothing", bundle_sha256=bytes(32))],
        }
        for reason, frames in cases.items():
            for each in frames:
                self.assertEqual(self.take(each), reason)
        self.assertEqual(self.site.holder.engine().revision, 7)
        self.assertEqual(self.take(self.authority.frame()), "")

    def test_not_authoritys(self) -> None:
        """What another root, another purpose or nobody signed is not looked into."""
        frame = self.authority.frame()
        payload = frame.signed.payload
        stranger = World(self.site.cluster.world.verifier.cluster)
        forged = [
            stranger.keys.signer(Purpose.SNAPSHOT)(payload),
            self.site.cluster.world.keys.signer(Purpose.GRANT)(payload),
            Signed(payload + b"\x00", frame.signed.signature, frame.signed.chain),
        ]
        for signed in forged:
            self.assertNotEqual(self.take(SnapshotFrame(signed, frame.bundle)), "")
        self.assertEqual(decode_snapshot(payload).entity_revision, 7)

    def test_floor_over_restart(self) -> None:
        """After a restart nothing older than before is taken, and the newest is."""
        old = self.authority.frame()
        newer = self.authority._bundle(("db1",), 8)
        self.assertEqual(self.take(self.authority.frame(newer)), "")
        self.site.holder = self.site.new_holder()
        self.assertTrue(self.stale())
        self.assertEqual(self.take(old), "snapshot_older")
        self.assertEqual(
            self.take(self.authority.frame(newer, parts="nothing")), "snapshot_unknown_bundle"
        )
        self.assertEqual(self.take(self.authority.frame(newer)), "")
        self.assertFalse(self.stale())

    def test_the_epoch_comes_before_the_serial(self) -> None:
        """Who took the lead is followed though its clock is behind; who lost it is not, ahead."""
        frame, bundle, at = self.authority.frame, self.authority.bundle, self.authority.serial
        self.assertEqual(self.take(frame(bundle, lease_epoch=4, serial=at + 900)), "")
        newer = frame(bundle, lease_epoch=5, serial=at - 20)
        self.assertEqual(self.take(newer), "")
        self.assertEqual(self.take(frame(bundle, lease_epoch=4, serial=at + 901)), "snapshot_older")
        self.assertEqual(self.take(frame(bundle, lease_epoch=5, serial=at - 21)), "snapshot_older")
        self.site.holder = self.site.new_holder()
        self.assertEqual(self.take(frame(bundle, lease_epoch=4, serial=at + 902)), "snapshot_older")
        self.assertEqual(self.take(newer), "")
        self.assertFalse(self.stale())
        older = self.authority._bundle(("db1",), 6)
        self.assertEqual(self.take(frame(older, lease_epoch=6, serial=at - 19)), "snapshot_older")

    def test_an_epoch_that_is_not_told(self) -> None:
        """An Authority of before tells no epoch: the serial orders, and the epoch known stays."""
        frame, bundle, at = self.authority.frame, self.authority.bundle, self.authority.serial
        self.assertEqual(self.take(frame(bundle, lease_epoch=4, serial=at + 50)), "")
        self.assertEqual(self.take(frame(bundle, serial=at + 49)), "snapshot_older")
        self.assertEqual(self.take(frame(bundle, serial=at + 51)), "")
        self.assertEqual(self.take(frame(bundle, lease_epoch=3, serial=at + 52)), "snapshot_older")

    def test_a_store_put_back(self) -> None:
        """Where the log goes on from an older store the epochs do so too."""
        frame, bundle, at = self.authority.frame, self.authority.bundle, self.authority.serial
        self.assertEqual(self.take(frame(bundle, lease_epoch=4, serial=at + 50)), "")
        self.site.holder.restored("a head")
        self.assertEqual(self.take(frame(bundle, lease_epoch=2, serial=at + 49)), "snapshot_older")
        self.assertEqual(self.take(frame(bundle, lease_epoch=2, serial=at + 51)), "")

    def test_put_back_once(self) -> None:
        """The same head puts the floor back once, also when it is told again after a restart."""
        frame, bundle, at = self.authority.frame, self.authority.bundle, self.authority.serial
        self.site.holder.restored("a head")
        self.assertEqual(self.take(frame(bundle, lease_epoch=4, serial=at + 50)), "")
        self.site.holder.floor_file.write(self.site.holder._floor)
        self.site.holder = self.site.new_holder()
        self.site.holder.restored("a head")
        self.assertEqual(self.take(frame(bundle, lease_epoch=2, serial=at + 51)), "snapshot_older")
        self.site.holder.restored("another head")
        self.assertEqual(self.take(frame(bundle, lease_epoch=2, serial=at + 51)), "")

    def test_an_epoch_past_all(self) -> None:
        """An epoch that no head could state is no epoch: it would keep all others out."""
        odd = self.authority.frame(self.authority.bundle, lease_epoch=1 << 53)
        self.assertEqual(self.take(odd), "malformed")

    def test_an_older_floor(self) -> None:
        """A floor that an earlier build left tells no epoch."""
        self.site.floor.write_text('{"policy_version": 3, "entity_revision": 7, "serial": 50}')
        self.site.holder = self.site.new_holder()
        bundle = self.authority.bundle
        self.assertEqual(self.take(self.authority.frame(bundle, serial=49)), "snapshot_older")
        newer = self.authority.frame(bundle, lease_epoch=2, serial=51)
        self.assertEqual(self.take(newer), "")

    def test_revocations_are_part_of_the_floor(self) -> None:
        """After a restart a snapshot from before a revocation is not taken again."""
        before = self.authority.frame()
        self.authority.beat(self.site.cluster.person.facts.principal.uri)
        self.site.turn()
        self.site.holder = self.site.new_holder()
        self.assertEqual(self.take(before), "snapshot_older")

    def test_floor_unreadable(self) -> None:
        """A floor that cannot be read stops the start instead of forgetting it."""
        self.site.floor.write_text("{")
        error = self.assertRaises(SvcError, self.site.new_holder)
        self.assertEqual(error.reason, "snapshot_floor")

    def test_floor_unwritable(self) -> None:
        """While the floor cannot be kept nothing opens, though the snapshot is a good one."""
        events = logged(self)
        beside = durable.beside_of(self.site.floor)
        beside.mkdir()
        newer = self.authority._bundle(("db1",), 8)
        self.assertEqual(self.take(self.authority.frame(newer)), "")
        self.assertEqual(self.refusal(), "snapshot_floor")
        self.assertEqual(self.take(self.authority.frame(newer, parts="nothing")), "")
        self.assertEqual(self.refusal(), "snapshot_floor")
        self.assertEqual(self.told(events, "cannot be stored"), [str(self.site.floor)])
        beside.rmdir()
        self.assertEqual(self.take(self.authority.frame(newer, parts="nothing")), "")
        self.assertEqual(self.refusal(), "")
        self.assertEqual(len(self.told(events, "can be stored again")), 1)
        self.site.holder = self.site.new_holder()
        self.assertEqual(self.take(self.authority.frame(self.authority.bundle)), "snapshot_older")

    def test_what_a_full_disk_does_not_hold_up(self) -> None:
        """What takes away is done at once; the link stays, and nobody opens anything."""
        for reason, change in (("revoked", self.revoke), ("policy_changed", self.forbid)):
            _, client, carry = self.carried()
            floor = self.site.floor.read_bytes()
            self.site.holder.floor_file = FullDisk(self.site.floor)
            change()
            self.site.turn()
            self.assertEqual((client.reason, carry.is_over), (reason, True))
            self.assertEqual([one.reason for one in self.authority.ended], [reason])
            self.assertEqual(self.site.floor.read_bytes(), floor)
            other = self.site.cluster.world.identity(Role.USER, id="q" * 26)
            talk = self.site.open(person=other)
            assert talk.error is not None
            self.assertEqual(talk.reason, "audit_spool_full")
            self.assertIn("the disk of the Proxy is full", talk.error.text)
            self.site.pass_time(90)
            self.assertEqual((self.site.link.is_connected, self.site.dials), (True, 1))
            self.assertFalse(self.stale())
            self.again()

    def test_nothing_is_given_back_with_a_full_disk(self) -> None:
        """Who is revoked no more stays so until the floor is kept; an older frame is not taken."""
        older = self.authority.frame(parts="nothing")
        self.revoke()
        self.site.turn()
        self.site.holder.floor_file = FullDisk(self.site.floor)
        self.assertEqual(self.take(self.authority.frame(parts="nothing")), "")
        self.assertTrue(self.is_revoked())
        self.assertEqual(self.take(older), "snapshot_older")
        self.site.holder.floor_file = FloorFile(self.site.floor)
        self.assertEqual(self.take(self.authority.frame(parts="nothing")), "")
        self.assertFalse(self.is_revoked())

    def test_decided_while_the_disk_fills(self) -> None:
        """Nor does a session open that was let in a moment before its policy could not be kept."""
        self.site.node()
        talk = Talk(self.site.connect(self.site.cluster.person).channel.stream(OPEN_METHOD))
        self.site.turn()
        self.site.holder.floor_file = FullDisk(self.site.floor)
        self.assertEqual(self.take(self.authority.frame(self.authority._bundle(("db1",), 8))), "")
        request = encode_request(self.site.cluster.request())
        signed = self.site.cluster.person.sign(Purpose.SESSION_REQUEST, request)
        talk.say(open_frame(encode_open(request, signed.signature)))
        self.site.turn()
        self.assertEqual((talk.reason, self.authority.asked), ("audit_spool_full", []))

    def revoke(self) -> None:
        self.authority.beat(self.site.cluster.person.facts.principal.uri)

    def forbid(self) -> None:
        nobody = '@id("nobody") forbid (principal, action, resource);'
        bundle = self.authority._bundle(("db1",), 9, version=4, text=nobody)
        self.authority.publish(self.authority.frame(bundle))
        self.authority.bundle = bundle

    def is_revoked(self) -> bool:
        try:
            self.site.holder.check_not_revoked(self.site.cluster.person.facts.principal)
        except Denied:
            return True
        return False

    def refusal(self) -> str:
        """Why no session opens now; nothing where one may."""
        try:
            self.site.reports.check()
        except SvcError as e:
            self.assertNotIn("/", e.text)
            return e.reason
        return ""

    def told(self, events: list[dict[str, Any]], words: str) -> list[str]:
        """The files of the events whose text has these words."""
        return [one.get("file", "") for one in events if words in (formatEvent(one) or "")]

    def test_age(self) -> None:
        """Sixty seconds after the last heartbeat nothing is decided, and one heartbeat heals it."""
        self.authority.beat()
        self.site.turn()
        self.site.clock.advance(59)
        self.assertFalse(self.stale())
        self.site.clock.advance(1)
        self.assertTrue(self.stale())
        self.assertEqual(self.take(self.authority.frame(parts="nothing")), "")
        self.assertFalse(self.stale())

    def test_age_on_arrival(self) -> None:
        """What was on its way for 59 seconds is good for one more; no detour makes it younger."""
        self.site.clock.advance(100)
        issued = int(self.site.cluster.world.now() * 1000)
        self.site.clock.advance(59)
        frame = self.authority.frame(parts="nothing", issued_at_ms=issued)
        self.assertEqual(self.take(frame), "")
        self.assertFalse(self.stale())
        self.site.clock.advance(1)
        self.assertTrue(self.stale())

    def test_late_is_said(self) -> None:
        """Snapshots that are old when they come are told in the log, once until they are not."""
        events: list[Any] = []
        observer: Any = events.append
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        told = []
        for waited in (0, 11, 20, 1, 30):
            self.site.clock.advance(60)
            issued = int((self.site.cluster.world.now() - waited) * 1000)
            self.take(self.authority.frame(parts="nothing", issued_at_ms=issued))
            told.append(len([one for one in events if "clocks" in (formatEvent(one) or "")]))
        self.assertEqual(told, [0, 1, 1, 1, 2])

    def test_late_one_takes_no_time_away(self) -> None:
        """A newer signature is of no earlier moment than the one before, whatever a clock says."""
        self.assertEqual(self.take(self.authority.frame(parts="nothing")), "")
        world = self.site.cluster.world
        issued = int(world.now() * 1000)
        self.patch(world, "now", lambda real=world.now: real() + 50)
        self.assertEqual(self.take(self.authority.frame(parts="nothing", issued_at_ms=issued)), "")
        self.site.clock.advance(59)
        self.assertFalse(self.stale())
        self.site.clock.advance(1)
        self.assertTrue(self.stale())

    def test_clock_that_lags(self) -> None:
        """A snapshot that seems to come from the future is good for its time and no longer."""
        later = int(self.site.cluster.world.now() * 1000) + 30_000
        self.assertEqual(self.take(self.authority.frame(issued_at_ms=later)), "")
        self.site.clock.advance(59)
        self.assertFalse(self.stale())
        self.site.clock.advance(1)
        self.assertTrue(self.stale())

    def test_the_same_again(self) -> None:
        """A frame heard twice makes nothing younger."""
        frame = self.authority.frame(parts="nothing")
        self.assertEqual(self.take(frame), "")
        self.site.clock.advance(50)
        self.assertEqual(self.take(frame), "")
        self.site.clock.advance(10)
        self.assertTrue(self.stale())

    def test_never_longer_than_a_minute(self) -> None:
        """No snapshot is good for longer, whatever it says of itself."""
        self.assertEqual(self.take(self.authority.frame(valid_secs=86400)), "")
        self.site.clock.advance(61)
        self.assertTrue(self.stale())

    def test_wall_clock_steps(self) -> None:
        """A step of the wall clock makes a snapshot neither older nor younger."""
        world = self.site.cluster.world
        real = world.now
        self.patch(world, "now", lambda: real() + 3600)
        self.assertFalse(self.stale())
        self.site.clock.advance(61)
        self.patch(world, "now", lambda: real() - 3600)
        self.assertTrue(self.stale())

    @proves("X-27")
    def test_health_does_not_depend(self) -> None:
        """Without any policy or Authority the public surface still says that it serves."""
        self.site.lose_authority()
        self.site.pass_time(70)
        self.assertTrue(self.stale())
        self.assertEqual(self.site.health._answer().status, 1)
