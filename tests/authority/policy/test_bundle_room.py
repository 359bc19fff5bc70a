"""What Proxies are sent stays within what they take, whoever makes it more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.policy.bundle_room import BundleRoom, bundle_size
from svc.authority.state.recorder import operator
from svc.compose.authority.policy import bundle_room
from svc.errors import Fault, SvcError
from svc.policy.bundle import decode_bundle
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.authority.discovery.support import catalog_admin
from tests.authority.house import KINDS, House, refusal_of, value_of
from tests.support.logged import logged

ME = operator(0)
LABELS = {"tier": "x" * 200}


class RoomTests(SynchronousTestCase):
    """An Authority whose Proxies take little more than there is."""

    def setUp(self) -> None:
        self.house = House()
        self.house.refresh()
        _, size = self.house.publishing.size
        self.room = BundleRoom(
            made=lambda: self.house.publishing.size,
            known=lambda: self.house.state_cache.state,
            most=size + 2_000,
        )
        self.house.recorder.on_rows_changed(self.room.require_after)
        self.catalog = catalog_admin(self.house.writer(), self.house.registrations, KINDS)

    def add(self, id: str, **more: Any) -> Any:
        return self.catalog.add(pb.AddResourceRequest(id=id, kind="tcp", **more), ME)

    def filled(self, *, published: bool = True) -> int:
        """Resources until one is refused; how many there are."""
        for at in range(50):
            left = self.room.left()
            made = self.add(f"r{at}", labels=LABELS)
            if left < 320:
                refused = refusal_of(made)
                self.assertEqual((refused.reason, refused.fault), ("bundle_full", Fault.EXHAUSTED))
                self.assertIn("nothing was changed", refused.text)
                self.assertNotIn(f"r{at}", self.house.state_cache.state.catalog)
                return at
            value_of(made)
            if published:
                self.house.refresh()
        raise AssertionError("nothing was refused")

    def test_refused_at_the_write(self) -> None:
        """The row that would not fit is refused, and no record of it is left."""
        count = self.filled()
        self.assertGreater(count, 3)
        self.assertLessEqual(self.house.publishing.size[1], self.room.most)
        added = [one["resource_id"] for one in self.house.records("resource.add")]
        self.assertNotIn(f"r{count}", added)

    def test_before_it_is_published(self) -> None:
        """What was written since the last bundle counts: one is made only now and then."""
        self.assertEqual(self.filled(published=False), self.again(self.filled))
        self.house.refresh()
        self.assertLessEqual(self.house.publishing.size[1], self.room.most)

    def test_undone(self) -> None:
        """What a transaction adds that is undone, or run again, takes no room."""
        count = self.again(lambda: self.filled(published=False))
        self.setUp()
        undoing = [True]

        def undo(*_: object) -> None:
            if undoing:
                raise SvcError("undone", reason="undone")

        self.house.recorder.on_rows_changed(undo)
        for _ in range(5):
            self.assertEqual(refusal_of(self.add("r0", labels=LABELS)).reason, "undone")
        undoing.clear()
        self.assertEqual(self.filled(published=False), count)

    def again(self, filled: Any) -> int:
        self.setUp()
        count: int = filled()
        return count

    def test_what_makes_it_less(self) -> None:
        """Whatever removes something, or changes it to less, is done in a bundle that is full."""
        count = self.filled()
        self.room.most -= 1_000
        value_of(self.catalog.remove(pb.RemoveResourceRequest(id="r0"), ME))
        value_of(self.catalog.assign(pb.AssignResourceRequest(id=f"r{count - 1}"), ME))
        self.house.refresh()
        people, groups = self.house.people(), self.house.groups()
        value_of(people.disable(pb.ChangePersonRequest(person="eve"), ME))
        self.house.refresh()
        refused = refusal_of(people.enable(pb.ChangePersonRequest(person="eve"), ME))
        self.assertEqual(refused.reason, "bundle_full")
        refused = refusal_of(groups.add_group(pb.AddGroupRequest(name="night"), ME))
        self.assertEqual(refused.reason, "bundle_full")

    def test_wired(self) -> None:
        """The Authority's own is asked at each record of what policies look at."""
        parts: Any = SimpleNamespace(recorder=self.house.recorder)
        room = bundle_room(parts, self.house.state_cache, self.house.publishing)
        self.assertGreater(room.left(), 31 << 20)
        room.most = 1
        self.assertEqual(refusal_of(self.add("r1")).reason, "bundle_full")

    def test_so_many(self) -> None:
        """More entities than an engine takes are refused as well."""
        value_of(self.add("r0"))
        taken = self.count()
        self.room.most, self.room.most_entities = 1 << 20, taken + 1
        self.assertEqual(self.room.left_for(200), 200)
        value_of(self.add("r1"))
        self.assertEqual(self.room.left_for(200), 0)
        refused = refusal_of(self.add("r2"))
        said = f"{taken + 2} entities of the {taken + 1} that a Proxy is sent"
        self.assertIn(said, refused.text)
        given = pb.AssignResourceRequest(id="r1", node=self.house.connector.id)
        value_of(self.catalog.assign(given, ME))
        value_of(self.catalog.remove(pb.RemoveResourceRequest(id="r0"), ME))
        value_of(self.add("r2"))

    def count(self) -> int:
        """Entities that there are, the cluster's own among them."""
        self.house.refresh()
        engine = self.house.policy.engine
        assert engine is not None
        return len(engine.entities)

    def test_estimated(self) -> None:
        """What the rows are thought to take is what they take, but for a little."""
        value_of(self.add("r1", labels=LABELS))
        self.house.refresh()
        published = self.house.publisher.published
        assert published is not None
        rest = decode_bundle(published.bundle)
        taken = sum(len(one.text) + 1 for one in rest.entities) + len(rest.policy_text.encode())
        self.assertLess(abs(bundle_size(self.house.state_cache.state) - taken), 200)


class PublishTests(SynchronousTestCase):
    """Rows of an earlier version, or of somebody with SQL, make more."""

    def setUp(self) -> None:
        self.house = House()
        self.house.refresh()
        self.events = logged(self)

    def grown(self, group: str) -> bytes:
        """The digest of what Proxies are sent after the policy looks at more."""
        self.house.add_group(group)
        self.house.refresh()
        published = self.house.publisher.published
        assert published is not None
        return published.digest

    def told(self) -> list[tuple[str, bool]]:
        return [(one["reason"], one["sent"]) for one in self.events if one.get("reason")]

    def test_more_than_there_should_be(self) -> None:
        """Proxies are sent it, and the Authority logs it once."""
        before, self.house.publishing.most = self.house.publishing.size[1], 1
        digest = self.grown("more-of-it")
        self.assertGreater(self.house.publishing.size[1], before)
        self.assertNotEqual(self.grown("and-more"), digest)
        self.assertEqual(self.told(), [("bundle_full", True)])

    def test_more_than_can_be_sent(self) -> None:
        """Proxies keep what they have, which stays fresh, and the next that fits is sent."""
        before = self.house.publisher.published
        assert before is not None
        self.house.publishing.most = self.house.publishing.most_sent = 1
        self.assertEqual(self.grown("more-of-it"), before.digest)
        self.house.publisher.beat()
        frame = self.house.publisher.frame(before.digest)
        assert frame is not None
        self.assertEqual((frame.bundle, frame.delta), (b"", b""))
        self.assertEqual(self.told(), [("bundle_full", False)])
        self.assertGreater(self.house.publishing.size[1], len(before.bundle))
        self.house.publishing.most = self.house.publishing.most_sent = 1 << 20
        self.assertNotEqual(self.grown("and-more"), before.digest)
        frame = self.house.publisher.frame(before.digest)
        assert frame is not None
        self.assertIn(b"more-of-it", frame.delta)
