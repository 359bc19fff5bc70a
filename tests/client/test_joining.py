"""Joining: a token for an identity, through a Proxy that sees nothing of it."""

from __future__ import annotations

import gc
import shutil
import tomllib
from pathlib import Path
from typing import Any

from attrs import evolve
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.protocol import Protocol
from twisted.logger import globalLogPublisher
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.test.iosim import FakeTransport, IOPump, connect
from twisted.trial.unittest import SynchronousTestCase

from svc.client.own_certificate import identity_watch
from svc.compose.person import PersonNotJoined, client_settings, find_config, load_person
from svc.config import Address, ConfigErrors, read_settings
from svc.config.keys import BUILT_IN_KINDS
from svc.errors import ConfigError, Denied, Fault, SvcError, Unavailable, UsageError
from svc.interfaces.rpc import IRpcCall, Peer, RpcService, streaming, unary
from svc.join.answer import Enrolled
from svc.join.enroll import (
    JoinRequest,
    enroll_direct,
    enroll_through_proxy,
    join_node,
    read_token,
)
from svc.join.person import (
    JoinPlace,
    client_toml,
    join_person,
    parse_addresses,
    prepare,
    write_config,
)
from svc.messages.control import AuthorityGreeting
from svc.model.audit.spool import verify_audit_key
from svc.model.certificate import CertificateRefused
from svc.model.clocks import ClockWrong
from svc.model.cluster.token import JoinToken, TokenGrant, TokenRefused, make_token
from svc.model.principal import Principal, Role
from svc.pki.enroll import CertificateIssuer
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.pki.tls import ClientCertificates, server_context
from svc.proto.gate.v1 import bootstrap_pb2 as pb
from svc.proxy.anonymous import AnonymousCalls
from svc.proxy.relay import LaneMeters, RelayLanes
from svc.rpc.server.server import RpcServerFactory
from svc.runtime.context import Runtime
from tests.pki.support import PERSON, World
from tests.support.nothing import nothing
from tests.support.proof import proves


class MemoryServer:
    """An endpoint whose server is in memory; keeps what the wire carried."""

    def __init__(self, factory: Any) -> None:
        self.factory = factory
        self.pumps: list[IOPump] = []
        self.wire: list[FakeTransport] = []
        self.is_down = False

    def connect(self, factory: Any) -> Deferred[Any]:
        if self.is_down:
            return fail(ConnectionRefusedError())
        client, server = factory.buildProtocol(None), self.factory.buildProtocol(None)
        near, far = FakeTransport(client, False), FakeTransport(server, True)
        self.wire.append(near)
        self.pumps.append(connect(server, far, client, near))
        return succeed(client)


class Seen:
    """Everything a relay's Authority side was given, as the Proxy passed it."""

    def __init__(self, inner: MemoryServer) -> None:
        self.inner = inner
        self.bytes = b""

    def connect(self, factory: Any) -> Deferred[Any]:
        seen = self

        class Watched:
            def buildProtocol(self, address: object) -> Any:
                protocol: Protocol = factory.buildProtocol(address)
                make = protocol.makeConnection

                def watch(transport: Any) -> None:
                    write = transport.write

                    def noted(data: bytes) -> None:
                        seen.bytes += data
                        write(data)

                    transport.write = noted
                    make(transport)

                protocol.makeConnection = watch  # type: ignore[method-assign]
                return protocol

        return self.inner.connect(Watched())


def nobody(peer: Peer) -> Principal:
    """Lets nobody administer."""
    raise Denied("nobody administers here", reason="denied")


class Authority:
    """An Authority's join listener, and a Proxy before it."""

    def __init__(self) -> None:
        self.world = World()
        self.clock = self.world.clock
        self.token = make_token(self.world.entropy)
        self.asked: list[pb.EnrollRequest] = []
        self.offset = 0.0  # of the joiner's clock
        self.refuse: SvcError | None = None
        self.grant = TokenGrant("t", Role.USER, subject_id=PERSON, name="ann")
        self.answer_root = self.world.keys.root_der
        bootstrap = RpcService(
            "gate.v1.Bootstrap", {"Enroll": unary(pb.EnrollRequest, self.enroll)}
        )
        self.join = self.listener(bootstrap, self.world.identity(Role.AUTHORITY), send_root=True)
        self.seen = Seen(self.join)
        lanes = RelayLanes(
            lanes=lambda: AuthorityGreeting(
                cluster=self.world.keys.cluster,
                authority_id="a" * 26,
                version="0.11.0",
                join_port=1,
                renewal_port=2,
            ),
            endpoint=lambda port: self.seen,  # type: ignore[arg-type,return-value]
            verifier=self.world.verifier,
            meters=LaneMeters(lambda lane, word: None, lambda lane, by: None),
            clock=self.clock,
            anonymous=AnonymousCalls(self.clock, refused=nothing),
            check_not_revoked=nothing,
            admit_administrator=nobody,
        )
        relay = RpcService("gate.v1.Relay", {"Open": streaming(lanes.open)})
        self.proxy = self.listener(relay, self.world.identity(Role.PROXY))

    def bootstrap(self) -> RpcService:
        return RpcService("gate.v1.Bootstrap", {"Enroll": unary(pb.EnrollRequest, self.enroll)})

    def listener(self, service: RpcService, identity: Any, **tls: Any) -> MemoryServer:
        context = server_context(identity, ClientCertificates.NONE, **tls)
        served = RpcServerFactory([service], self.clock, admit=nothing)
        return MemoryServer(TLSMemoryBIOFactory(context, False, served, self.clock))

    async def enroll(self, request: pb.EnrollRequest, call: IRpcCall) -> pb.EnrollResponse:
        self.asked.append(request)
        if self.refuse is not None:
            raise self.refuse
        issued = CertificateIssuer(self.world.keys).admit(self.grant, request.csr)
        return pb.EnrollResponse(
            cluster=issued.facts.principal.cluster,
            principal=issued.facts.principal.uri,
            chain=issued.chain,
            root=self.answer_root,
            name=self.grant.name,
        )

    def now(self) -> float:
        """Wall time by the joiner's clock."""
        return self.world.now() + self.offset

    def asking(self, **changed: Any) -> JoinRequest:
        asking = JoinRequest(self.world.keys.ca_pin, self.token, make_request(new_key()))
        return evolve(asking, **changed)

    def settle(self, coming: Any) -> list[Any]:
        got: list[Any] = []
        Deferred.fromCoroutine(coming).addBoth(got.append)
        self.turn()
        return got

    def turn(self) -> None:
        for _ in range(150):
            self.clock.advance(0)
            for pump in (*self.proxy.pumps, *self.join.pumps):
                pump.pump()

    def direct(self, **changed: Any) -> list[Any]:
        endpoint: Any = self.join
        asking = self.asking(**changed)
        return self.settle(enroll_direct(endpoint, self.clock, self.now, asking))

    def through(self, **changed: Any) -> list[Any]:
        endpoint: Any = self.proxy
        asking = self.asking(**changed)
        return self.settle(enroll_through_proxy(endpoint, self.clock, self.now, asking))


class EnrollTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.authority = Authority()

    def refusal(self, got: list[Any]) -> SvcError:
        error = got[0].value
        assert isinstance(error, SvcError), error
        return error

    def test_direct(self) -> None:
        """A joiner that reaches Authority gets a chain, the root and the cluster's name."""
        (enrolled,) = self.authority.direct()
        world = self.authority.world
        self.assertIsInstance(enrolled, Enrolled)
        self.assertEqual((enrolled.cluster, enrolled.name), (world.keys.cluster, "ann"))
        self.assertEqual((enrolled.principal.role, enrolled.root), (Role.USER, world.keys.root_der))

    def test_through_a_proxy(self) -> None:
        """The join lane gives the same, and the token passes it encrypted only."""
        (enrolled,) = self.authority.through()
        self.assertEqual(enrolled.name, "ann")
        (asked,) = self.authority.asked
        token = self.authority.token.text
        self.assertEqual(asked.token, token)
        self.assertGreater(len(self.authority.seen.bytes), 500)
        self.assertNotIn(token[-20:].encode(), self.authority.seen.bytes)

    def test_another_root(self) -> None:
        """Whoever is not under the pinned root is not told the token."""
        for got in (self.authority.direct(pin="0" * 64), self.authority.through(pin="0" * 64)):
            self.assertIsInstance(self.refusal(got), CertificateRefused)
            self.assertIn("ca_pin", self.refusal(got).text)
        self.assertEqual(self.authority.asked, [])

    def test_no_authority(self) -> None:
        """A node of the right cluster that is no Authority is not told the token."""
        authority = self.authority
        connector = authority.world.identity(Role.CONNECTOR)
        service = RpcService(
            "gate.v1.Bootstrap", {"Enroll": unary(pb.EnrollRequest, authority.enroll)}
        )
        authority.join.factory = authority.listener(service, connector, send_root=True).factory
        self.assertIsInstance(self.refusal(authority.direct()), CertificateRefused)
        self.assertIsInstance(self.refusal(authority.through()), CertificateRefused)
        self.assertEqual(authority.asked, [])

    def test_time_is_told(self) -> None:
        """A joiner tells its time with the token, so that Authority can compare it first."""
        self.authority.offset = -7
        self.authority.direct()
        (asked,) = self.authority.asked
        self.assertEqual(asked.sent_at_ms, int(self.authority.now() * 1000))

    def test_far_behind(self) -> None:
        """A clock before Authority's certificate is told as that, not as an attack on the pin."""
        self.authority.offset = -3600
        for refusal in (
            self.refusal(self.authority.direct()),
            self.refusal(self.authority.through()),
        ):
            self.assertEqual(refusal.reason, "clock_wrong")
            self.assertIn("at least 1 h 0 min behind", refusal.text)
            self.assertNotIn("ca_pin", refusal.text)
        self.assertEqual(self.authority.asked, [])

    def test_far_ahead(self) -> None:
        """A clock past the end of Authority's certificate is told as that, with the doubt left."""
        self.authority.offset = 2 * 86400
        refusal = self.refusal(self.authority.through())
        self.assertEqual(refusal.reason, "clock_wrong")
        for part in ("clock is ahead", "24 h 0 min", "tell the operator"):
            self.assertIn(part, refusal.text)
        self.assertEqual(self.authority.asked, [])

    def test_another_roles_time(self) -> None:
        """Somebody who is no Authority is refused as that, with whatever certificate."""
        authority = self.authority
        authority.offset = -3600
        connector = authority.world.identity(Role.CONNECTOR)
        served = authority.listener(authority.bootstrap(), connector, send_root=True)
        authority.join.factory = served.factory
        self.assertEqual(self.refusal(authority.direct()).reason, "certificate_role")
        self.assertEqual(self.refusal(authority.direct(pin="0" * 64)).reason, "certificate_chain")

    def test_another_cluster(self) -> None:
        """A joiner that knows its cluster joins no other one."""
        refusal = self.refusal(self.authority.direct(cluster="c2.example.test"))
        self.assertIsInstance(refusal, CertificateRefused)
        self.assertEqual(self.authority.asked, [])

    def test_refused(self) -> None:
        """Authority's refusal reaches the joiner in its own words."""
        self.authority.refuse = Denied("the token is not good", reason="token_refused")
        self.assertEqual(self.refusal(self.authority.through()).reason, "token_refused")

    def test_nobody_there(self) -> None:
        """A Proxy, or an Authority behind it, that does not answer is unavailable."""
        self.authority.join.is_down = True
        self.assertEqual(self.refusal(self.authority.through()).reason, "authority_unreachable")
        self.authority.proxy.is_down = True
        self.assertIsInstance(self.refusal(self.authority.through()), Unavailable)


class NodeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.authority = Authority()
        self.authority.grant = TokenGrant("t", Role.CONNECTOR, name="k1")
        self.state = Path(self.mktemp()).absolute()
        self.state.mkdir(mode=0o700)
        self.token = self.state / "token"
        self.token.write_text(self.authority.token.text + "\n")
        self.token.chmod(0o600)
        self.store = IdentityStore(self.state)
        world = self.authority.world
        self.runtime = Runtime(
            reactor=world.clock, now=world.now, entropy=world.entropy, environ={}
        )

    def join(self, role: Role = Role.CONNECTOR) -> list[Any]:
        settings = read_settings(
            f'cluster = "{self.authority.world.keys.cluster}"\n'
            f'state_dir = "{self.state}"\n'
            f'[join]\ntoken_file = "{self.token}"\nca_pin = "{self.authority.world.keys.ca_pin}"\n'
            '[endpoints]\nproxy = ["127.0.0.1:1"]\n',
            "connector",
        )
        clock, now, proxy = self.authority.clock, self.authority.world.now, self.authority.proxy

        def way(asking: JoinRequest) -> Any:
            endpoint: Any = proxy
            return enroll_through_proxy(endpoint, clock, now, asking)

        return self.authority.settle(join_node(self.runtime, settings, self.store, role, (way,)))

    def test_joins(self) -> None:
        """A node's token becomes an identity on disk, with its audit key registered."""
        (identity,) = self.join()
        self.assertEqual(identity.principal.role, Role.CONNECTOR)
        self.assertTrue(self.store.exists)
        audit = self.store.audit_key().public_key().public_bytes_raw()
        (asked,) = self.authority.asked
        self.assertEqual(asked.audit_public_key, audit)
        verify_audit_key(audit, asked.csr, asked.audit_proof)

    @proves("G-OPEN-08", "G-IDN-01")
    def test_steps(self) -> None:
        """A node makes its key, shows only the public half, and keeps the private one to itself."""
        self.join()
        (asked,) = self.authority.asked
        current = self.state / "identity" / "current"
        pem = (current / "key.pem").read_bytes()
        key = load_pem_private_key(pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self.assertIsInstance(key.curve, ec.SECP256R1)
        csr = x509.load_der_x509_csr(asked.csr)
        self.assertTrue(csr.is_signature_valid)
        self.assertEqual(csr.public_key(), key.public_key())
        number = key.private_numbers().private_value.to_bytes(32, "big")
        self.assertNotIn(number, asked.SerializeToString())
        # One step puts key and chain in force: what `current` names is whole, and for us alone.
        self.assertTrue(current.is_symlink())
        self.assertEqual((current / "key.pem").stat().st_mode & 0o777, 0o600)
        leaf = x509.load_der_x509_certificate(self.store.load().chain[0])
        self.assertEqual(leaf.public_key(), key.public_key())
        self.assertEqual(self.store.load_root(), self.authority.world.keys.root_der)
        # The token is with its file alone, no longer with whoever read it from there.
        gc.collect()
        text = self.authority.token.text
        tokens = [one for one in gc.get_objects() if isinstance(one, JoinToken)]
        self.assertEqual(
            [one for one in tokens if one is not self.authority.token and one.text == text], []
        )

    @proves("X-47")
    def test_identity_first(self) -> None:
        """Once there is an identity, the token is not even read."""
        self.join()
        self.token.unlink()
        (identity,) = self.join()
        self.assertEqual(identity.principal.role, Role.CONNECTOR)
        self.assertEqual(len(self.authority.asked), 1)

    def test_waits(self) -> None:
        """While nobody answers, it is tried again with the same key."""
        self.authority.join.is_down = True
        got = self.join()
        self.assertEqual(got, [])
        key = (self.state / "identity" / "pending.key").read_bytes()
        self.authority.join.is_down = False
        self.authority.clock.advance(1)
        self.authority.turn()
        self.assertEqual(len(got), 1)
        stored = self.state / "identity" / "current" / "key.pem"
        self.assertEqual(stored.read_bytes(), key)

    def test_waits_no_longer_than_half_a_minute(self) -> None:
        """However long nobody answers, a node joins soon after somebody does."""
        self.authority.join.is_down = True
        got = self.join()
        for _ in range(300):
            self.authority.clock.advance(1)
            self.authority.turn()
        self.authority.join.is_down = False
        for _ in range(2 * 30):
            self.authority.clock.advance(1)
            self.authority.turn()
        self.assertEqual(len(got), 1)

    def test_stays_away_as_told(self) -> None:
        """A node that is told when to come again does not come before."""
        self.authority.refuse = SvcError("no", fault=Fault.EXHAUSTED, retry_after=20.0)
        got = self.join()
        self.authority.refuse = None
        for _ in range(20):
            self.authority.clock.advance(1)
            self.authority.turn()
        self.assertEqual((got, len(self.authority.asked)), ([], 1))
        self.authority.clock.advance(1)
        self.authority.turn()
        self.assertEqual((len(got), len(self.authority.asked)), (1, 2))

    def test_waits_for_its_clock(self) -> None:
        """A node whose clock is wrong keeps its token, and joins when the clock was set."""
        self.authority.refuse = ClockWrong("this machine's clock is 90 s behind")
        got = self.join()
        self.assertEqual(got, [])
        self.authority.refuse = None
        self.authority.clock.advance(1)
        self.authority.turn()
        (identity,) = got
        self.assertEqual(identity.principal.role, Role.CONNECTOR)

    def test_refused(self) -> None:
        """A refused token ends it at once; nothing is kept as an identity."""
        self.authority.refuse = Denied("the token is not good", reason="token_refused")
        (failure,) = self.join()
        self.assertEqual(failure.value.reason, "token_refused")
        self.assertFalse(self.store.exists)
        self.assertEqual(self.authority.clock.getDelayedCalls(), [])

    def test_another_role(self) -> None:
        """A token of another role makes no identity."""
        (failure,) = self.join(Role.PROXY)
        self.assertEqual(failure.value.reason, "certificate_role")
        self.assertFalse(self.store.exists)

    def test_open_token_file(self) -> None:
        """A token file that others may read is refused, without a word of it."""
        self.token.chmod(0o644)
        (failure,) = self.join()
        self.assertIsInstance(failure.value, ConfigError)
        self.assertNotIn("svcj1", failure.value.text)
        self.token.chmod(0o600)
        self.token.write_text("not a token")
        self.assertRaises(TokenRefused, read_token, self.token)


class PersonCase(SynchronousTestCase):
    """A directory that a person joins in."""

    def setUp(self) -> None:
        self.authority = Authority()
        self.home = Path(self.mktemp()).absolute()
        self.home.mkdir(mode=0o700)
        self.directory = prepare(self.home / ".svc")
        self.store = IdentityStore(self.directory)
        self.shown: list[str] = []
        self.replaces = False
        world = self.authority.world
        self.runtime = Runtime(
            reactor=world.clock,
            now=world.now,
            entropy=world.entropy,
            environ={"HOME": str(self.home)},
        )

    def join(self) -> list[Any]:
        clock, now, proxy = self.authority.clock, self.authority.world.now, self.authority.proxy

        def enroll(asking: JoinRequest) -> Any:
            endpoint: Any = proxy
            return enroll_through_proxy(endpoint, clock, now, asking)

        token = self.authority.token
        return self.authority.settle(join_person(self.runtime, self.place, token, enroll))

    @property
    def place(self) -> JoinPlace:
        """Where the person joins."""
        return JoinPlace(
            directory=self.directory,
            proxies=(Address("127.0.0.1", 1),),
            pin=self.authority.world.keys.ca_pin,
            store=self.store,
            show=self.shown.append,
            replaces=self.replaces,
        )


class PersonTests(PersonCase):
    def test_joins(self) -> None:
        """A person's token becomes an identity and a configuration, all of it private."""
        (person,) = self.join()
        self.assertEqual((person.name, person.identity.principal.id), ("ann", PERSON))
        proxies = parse_addresses("--proxy", ["gate.example.test:443", "[::1]:7443"])
        path = write_config(self.directory, person.cluster, proxies)
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        settings = client_settings(None, {"HOME": str(self.home)})
        self.assertEqual(settings.endpoints.proxy, proxies)
        side = load_person(self.runtime, settings)
        self.assertEqual(side.identity.principal, person.identity.principal)
        self.assertEqual(sorted(side.kinds.by_name), list(BUILT_IN_KINDS))
        for found in self.home.rglob("*"):
            if not found.is_symlink():
                self.assertEqual(found.stat().st_mode & 0o077, 0, found)

    def test_again(self) -> None:
        """A second join that fails leaves the first identity; one that succeeds replaces it."""
        (first,) = self.join()
        self.authority.refuse = Denied("no", reason="token_refused")
        (failure,) = self.join()
        self.assertEqual(failure.value.reason, "token_refused")
        self.assertEqual(self.store.load().chain, first.identity.chain)
        self.authority.refuse = None
        (second,) = self.join()
        self.assertEqual(self.store.load().chain, second.identity.chain)
        self.assertNotEqual(second.identity.chain, first.identity.chain)

    def test_beside_another(self) -> None:
        """A join waits for another process that changes the identity, and asks for nothing yet."""
        world = self.authority.world
        first = world.issued(Role.USER, self.store.pending_key()).chain
        self.store.pin(world.keys.root_der)

        async def enroll(asking: JoinRequest) -> Any:
            began.append(asking)
            raise Unavailable("nobody there")

        began: list[JoinRequest] = []
        with self.store.hold():
            joining = Deferred.fromCoroutine(
                join_person(self.runtime, self.place, self.authority.token, enroll)
            )
            self.authority.clock.pump([1.0] * 30)
            self.assertNoResult(joining)
            self.assertEqual((began, len(self.shown)), ([], 1))
            self.store.write(self.store.pending_key(), first)
        self.authority.clock.pump([1.0])
        self.failureResultOf(joining, Unavailable)
        self.assertEqual((len(began), self.store.load().chain), (1, first))

    def test_never_let_go(self) -> None:
        """A join that waited in vain says what to do; its token is good still."""
        with self.store.hold():
            waiting = self.join()
            self.authority.clock.pump([1.0] * 60)
        (failure,) = waiting
        self.assertEqual(failure.value.reason, "identity_busy")
        self.assertIn("run `svc join` again", failure.value.text)
        (person,) = self.join()
        self.assertEqual(person.name, "ann")

    def test_running_resident_takes_it(self) -> None:
        """What runs uses the new identity of the same person without a restart."""
        (person,) = self.join()
        write_config(self.directory, person.cluster, (Address("127.0.0.1", 1),))
        side = load_person(self.runtime, client_settings(None, {"HOME": str(self.home)}))
        self.assertFalse(side.take_new_identity())
        (again,) = self.join()
        self.assertTrue(side.take_new_identity())
        self.assertEqual(side.identity.chain, again.identity.chain)
        look = identity_watch(side.take_new_identity, side.chain_on_disk, side.identity)
        warned: list[Any] = []
        observer: Any = warned.append
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        self.authority.settle(look())
        self.assertFalse([one for one in warned if "person" in one])
        self.authority.grant = evolve(self.authority.grant, subject_id="q" * 26)
        self.join()
        self.assertFalse(side.take_new_identity())
        self.authority.settle(look())
        self.authority.settle(look())
        self.assertEqual(
            [one["person"] for one in warned if "person" in one], [PERSON], "said once"
        )
        shutil.rmtree(self.directory / "identity")
        self.assertFalse(side.take_new_identity(), "after a sign-out there is none to take")
        self.authority.settle(look())

    def test_node_token(self) -> None:
        """A node's token makes nobody a person."""
        self.authority.grant = TokenGrant("t", Role.CONNECTOR, name="k1")
        (failure,) = self.join()
        self.assertEqual(failure.value.reason, "certificate_role")
        self.assertFalse(self.store.exists)

    def test_dishonest_answer(self) -> None:
        """An answer with another root than the pinned one is not kept."""
        self.authority.answer_root = World("c2.example.test").keys.root_der
        (failure,) = self.join()
        self.assertIsInstance(failure.value, CertificateRefused)
        self.assertFalse(self.store.exists)


class ConfigTests(SynchronousTestCase):
    def test_toml(self) -> None:
        """Whatever the directory is called, the configuration says it."""
        for name in ('quo"te', "back\\slash", "tab\t", "ünïcode", "del\x7f"):
            text = client_toml("c1.example.test", Path("/home") / name, (Address("::1", 5),))
            told = tomllib.loads(text)
            self.assertEqual(told["state_dir"], f"/home/{name}")
            self.assertEqual(told["endpoints"]["proxy"], ["[::1]:5"])

    def test_former_is_kept(self) -> None:
        """A configuration that says something else is kept beside the new one."""
        directory = Path(self.mktemp())
        directory.mkdir(mode=0o700)
        write_config(directory, "c1.example.test", (Address("a.test", 5),))
        write_config(directory, "c1.example.test", (Address("a.test", 5),))
        self.assertFalse((directory / "client.toml.before").exists())
        write_config(directory, "c1.example.test", (Address("b.test", 5),))
        self.assertIn("a.test", (directory / "client.toml.before").read_text())

    def test_bad_options(self) -> None:
        """A malformed address is a usage error that names its option."""
        refusal = self.assertRaises(UsageError, parse_addresses, "--proxy", ["nowhere"])
        self.assertIn("--proxy", refusal.text)
        self.assertEqual(refusal.exit_code, 64)

    def test_order(self) -> None:
        """``--config`` comes before ``SVC_CONFIG``, that before the person's own."""
        home = Path(self.mktemp()).absolute()
        (home / ".svc").mkdir(parents=True)
        own = home / ".svc" / "client.toml"
        environ = {"HOME": str(home)}
        refused = self.assertRaises(PersonNotJoined, find_config, None, environ)
        for way in ("svc login --proxy HOST:PORT --ca-pin PIN", "svc join"):
            self.assertIn(way, refused.text)
        own.write_text("")
        self.assertEqual(find_config(None, environ), str(own))
        self.assertEqual(find_config(None, {**environ, "SVC_CONFIG": "/b"}), "/b")
        self.assertEqual(find_config("/a", {**environ, "SVC_CONFIG": "/b"}), "/a")

    def test_the_file_is_named(self) -> None:
        """What is wrong in a file that nobody named is told with its path."""
        environ = {"HOME": str(Path(self.mktemp()).absolute()), "SVC_TUNNEL__KEEPALIVE_SECS": "no"}
        own = Path(environ["HOME"]) / ".svc" / "client.toml"
        own.parent.mkdir(parents=True)
        own.write_text("colour = 3\n")
        own.chmod(0o600)
        refused = self.assertRaises(ConfigErrors, client_settings, None, environ)
        (in_file, in_environment) = sorted(refused.text.split("\n"))
        self.assertTrue(in_file.startswith(f"{own}: colour: unknown key"), in_file)
        self.assertTrue(in_environment.startswith("SVC_TUNNEL__KEEPALIVE_SECS: "), in_environment)
        refused = self.assertRaises(ConfigErrors, client_settings, str(own), environ)
        self.assertIn("\ncolour: unknown key", f"\n{refused.text}")

    def test_open_directory(self) -> None:
        """A directory that others may look into is not used."""
        directory = Path(self.mktemp())
        directory.mkdir(mode=0o755)
        self.assertRaises(ConfigError, prepare, directory)
