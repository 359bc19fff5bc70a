"""A join that is stopped after Authority's answer: the same command completes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.client.own_name import OwnName
from svc.compose.person import PersonNotJoined, client_settings, load_person
from svc.config import Address, read_settings
from svc.errors import ConfigError, Denied
from svc.join.enroll import JoinRequest, enroll_through_proxy, join_node
from svc.join.person import JoinPlace, join_person, prepare, write_config
from svc.model.certificate import CertificateRefused
from svc.model.cluster.token import TokenGrant, make_token
from svc.model.principal import Role
from svc.pki.identity_store import IdentityStore
from svc.runtime.context import Runtime
from tests.client.test_joining import Authority
from tests.pki.support import PERSON

PROXIES = (Address("127.0.0.1", 1),)


class Stopped(BaseException):
    """The machine stopped here."""


class InterruptedCase(SynchronousTestCase):
    """A directory whose owner is stopped at one step of a join."""

    def setUp(self) -> None:
        self.authority = Authority()
        self.home = Path(self.mktemp()).absolute()
        self.home.mkdir(mode=0o700)
        self.directory = prepare(self.home / ".svc")
        self.steps: list[str] = []
        self.stop_at = -1

    def crash_point(self, name: str) -> None:
        self.steps.append(name)
        if len(self.steps) - 1 == self.stop_at:
            raise Stopped(name)

    def store(self) -> IdentityStore:
        """As a process that has just started opens it."""
        return IdentityStore(self.directory, crash_point=self.crash_point)

    def runtime(self) -> Runtime:
        """Of a process."""
        world = self.authority.world
        environ = {"HOME": str(self.home)}
        return Runtime(reactor=world.clock, now=world.now, entropy=world.entropy, environ=environ)

    def way(self, asking: JoinRequest) -> Any:
        """Through the Proxy."""
        endpoint: Any = self.authority.proxy
        authority = self.authority
        return enroll_through_proxy(endpoint, authority.clock, authority.world.now, asking)

    def outcome(self, coming: Any) -> Any:
        """What it comes to; a stop counts as that."""

        async def ends() -> Any:
            try:
                return await coming
            except Stopped as stopped:
                return stopped

        (found,) = self.authority.settle(ends())
        return found

    def spent(self) -> None:
        """The token has been used."""
        self.authority.refuse = Denied("the token was used", reason="token_refused")

    def each_stop(self, join: Callable[[], Any]) -> list[Any]:
        """Stop at each step of a join in turn; what joining by the same token comes to then."""
        joined: list[Any] = []
        step = 0
        while True:
            self.setUp()
            self.stop_at = step
            outcome = join()
            if not isinstance(outcome, Stopped):
                return joined
            self.spent()
            self.stop_at, step = -1, step + 1
            joined.append((str(outcome), join()))


class PersonTests(InterruptedCase):
    """Of a person, or an agent."""

    def join(self) -> Any:
        authority = self.authority
        place = JoinPlace(
            directory=self.directory,
            proxies=PROXIES,
            pin=authority.world.keys.ca_pin,
            store=self.store(),
            show=self.fail,
            replaces=True,
        )
        return self.outcome(join_person(self.runtime(), place, authority.token, self.way))

    def side(self) -> Any:
        """What ``svc up`` would run with."""
        return load_person(self.runtime(), client_settings(None, {"HOME": str(self.home)}))

    def test_every_stop(self) -> None:
        """Wherever it was stopped, the same token joins, though Authority takes it no more."""
        found = self.each_stop(self.join)
        names = [step for step, _ in found]
        for step in ("answered", "pinned", "placed", "linked", "swapped", "asked"):
            self.assertIn(step, names)
        for step, person in found:
            self.assertEqual((person.name, person.identity.principal.id), ("ann", PERSON), step)

    def test_complete(self) -> None:
        """What is completed is whole: identity, name and configuration; nothing is kept on."""
        for stop_at in (0, 1, 6, 9):
            self.setUp()
            self.stop_at = stop_at
            self.assertIsInstance(self.join(), Stopped)
            self.spent()
            self.stop_at = -1
            person = self.join()
            side = self.side()
            self.assertEqual(side.identity.chain, person.identity.chain)
            self.assertEqual(OwnName(self.directory).read(PERSON), "ann")
            self.assertFalse(side.store.keeps_answer)
            self.assertEqual(self.join().value.reason, "token_refused", "it is not used twice")

    def test_told(self) -> None:
        """Meanwhile commands say what to do, also over an identity of another cluster."""
        self.join()
        self.authority = Authority()
        self.authority.world.entropy(1)  # Both worlds would give the same serial number.
        self.stop_at = len(self.steps) + 1
        self.assertEqual(str(self.join()), "pinned")
        refused = self.assertRaises(ConfigError, self.side)
        self.assertIn("run the same command again to complete it", refused.text)
        self.spent()
        self.join()
        self.side()

        self.setUp()
        write_config(self.directory, self.authority.world.keys.cluster, PROXIES)
        self.stop_at = 1
        self.assertEqual(str(self.join()), "pinned")
        told = self.assertRaises(PersonNotJoined, self.side)
        self.assertIn("run the same command again to complete it", told.text)

    def test_another_token(self) -> None:
        """The answer to one token is not taken for another's."""
        self.stop_at = 0
        self.join()
        self.stop_at = -1
        self.authority.token = make_token(self.authority.world.entropy)
        self.authority.grant = evolve(self.authority.grant, subject_id="q" * 26, name="eve")
        self.assertEqual(self.join().name, "eve")
        self.assertEqual(len(self.authority.asked), 2)

    def test_damaged(self) -> None:
        """A kept answer that is no answer is not used; one that is refused is not kept."""
        self.stop_at = 0
        self.join()
        self.stop_at = -1
        path = self.directory / "identity" / "answer"
        whole = path.read_bytes()
        path.write_bytes(whole[:-40])
        self.assertEqual(self.join().name, "ann")
        self.assertEqual(len(self.authority.asked), 2)
        path.write_bytes(whole)
        path.chmod(0o600)
        self.authority.world.clock.advance(10 * 86400)
        self.assertIsInstance(self.join().value, CertificateRefused)
        self.assertFalse(path.exists())


class NodeTests(InterruptedCase):
    """Of a Connector, whose process is started again."""

    def setUp(self) -> None:
        super().setUp()
        self.authority.grant = TokenGrant("t", Role.CONNECTOR, name="k1")
        self.token = self.home / "token"
        self.token.write_text(self.authority.token.text + "\n")
        self.token.chmod(0o600)

    def join(self) -> Any:
        keys = self.authority.world.keys
        settings = read_settings(
            f'cluster = "{keys.cluster}"\nstate_dir = "{self.directory}"\n'
            f'[join]\ntoken_file = "{self.token}"\nca_pin = "{keys.ca_pin}"\n'
            '[endpoints]\nproxy = ["127.0.0.1:1"]\n',
            "connector",
        )
        store = self.store()
        return self.outcome(join_node(self.runtime(), settings, store, Role.CONNECTOR, (self.way,)))

    def test_every_stop(self) -> None:
        """Wherever it was stopped, it starts with the identity that it was given."""
        found = self.each_stop(self.join)
        self.assertGreater(len(found), 8)
        for step, identity in found:
            self.assertEqual(identity.principal.role, Role.CONNECTOR, step)
            self.assertFalse(self.store().keeps_answer)
