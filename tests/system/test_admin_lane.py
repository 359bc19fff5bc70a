"""Operators on another machine: every command goes through a Proxy, as the person who signed in."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet import reactor as _reactor
from twisted.internet.utils import getProcessOutputAndValue
from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.compose.node import tls_endpoint
from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcCall, RpcService, streaming
from svc.join.lane import opened_lane
from svc.messages.relay import Lane
from svc.model.principal import Role
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.tls import ClientCertificates, server_context
from svc.rpc.client.channel import dial
from svc.rpc.server.server import RpcServerFactory
from svc.rpc.server.tls import TlsServerFactory
from svc.testing.gateway.gateway import Gateway, init_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, Ran, environment, svc_command, until
from svc.testing.gateway.settings import PROXY
from svc.wire.limits import WireLimits
from tests.support.proof import proves
from tests.system.admin_commands import ADMINISTRATORS, ON_THE_HOST, REMOTE
from tests.system.stage import address_of, eventually

RUN_BY = "make fault"

reactor: Any = _reactor

CONNECTIONS = "svc_authority_relay_connections_total"
OPEN = "svc_active_auth_relay_connections"


@frozen
class Office:
    """One gateway with two Proxies, the second without TLS; an operator, and a person who is none.

    Neither has anything of the gateway but what ``svc join`` left in their homes.
    """

    gateway: Gateway
    ada: GatewayPerson
    bob: GatewayPerson
    plain: str

    def dialed(self) -> float:
        """How often a Proxy dialed the Authority for the admin lane, or tried to."""
        return sum(
            self.gateway.metric(PROXY, CONNECTIONS, lane="admin", outcome=word)
            for word in ("open", "dial_failed")
        )

    def refused(self) -> float:
        """How often the Proxy refused the lane."""
        return self.gateway.metric(PROXY, CONNECTIONS, lane="admin", outcome="refused")

    def identity(self, directory: Path) -> TransportIdentity:
        """The identity that lies in a directory."""
        return TransportIdentity.load(
            IdentityStore(directory), time.time, self.gateway.files.cluster
        )


@cache
def office() -> Office:
    """The one of this process; the gateway ends with it."""
    gateway = init_gateway()
    gateway.make_authority()
    gateway.set_policy(ADMINISTRATORS)
    gateway.make_proxy()
    plain = gateway.add_proxy("proxy2", {"proxy.public_plaintext": True})
    ada = gateway.add_person("ada", "operators")
    bob = gateway.add_person("bob", "others")

    def told() -> bool:
        return ada.svc("authority", "status").status == 0

    until("the Proxy knows the operator", told)
    return Office(gateway=gateway, ada=ada, bob=bob, plain=plain)


class CommandTests(SynchronousTestCase):
    """From a directory that holds a person's certificate and no configuration of an Authority."""

    @proves("G-CLI-15", "G-HLT-07", "G-OPEN-83", "G-ROLE-16")
    def test_operator(self) -> None:
        """Every command that needs no file of the Authority works, and the others say so."""
        here, found = office(), dict[str, str]()
        before = here.dialed()
        for name, typed in REMOTE.items():
            words = typed.words.format(**found).split()
            ran = here.ada.svc("authority", *name.split(), *words, stdin=typed.stdin.encode())
            said = ran.stdout + ran.stderr
            self.assertEqual(ran.status, typed.status, f"{name}: {said}")
            self.assertIn(typed.says, said, name)
            if typed.keeps:
                found[typed.keeps] = str(ran.json[typed.keeps])
        self.assertGreaterEqual(here.dialed() - before, len(REMOTE))
        for name, rest in ON_THE_HOST.items():
            ran = here.ada.svc("authority", *name.split(), *rest.split(), stdin=b"")
            self.assertEqual(ran.status, 64, f"{name}: {ran.stderr}")
            self.assertIn("only on the Authority's host", ran.stderr, name)
        self.recorded(here)
        self.forgotten(here)

    def recorded(self, here: Office) -> None:
        """What was changed is on record as the person's doing, and the log verifies."""
        log = here.gateway.operator("audit", "show", "--last", "200", "--json").json
        ada = here.identity(here.ada.directory).principal.id
        by_ada = {one["event"] for one in log if one["actor"]["id"] == ada}
        wanted = {"person.add", "person.disable", "group.add", "token.create", "node.revoke"}
        self.assertLessEqual(wanted, by_ada)
        here.gateway.verify()

    def forgotten(self, here: Office) -> None:
        """A name is forgotten from a host that reaches only the Proxy; the lane's series move."""
        token = here.ada.svc("authority", "persons", "add", "zoe").checked().stdout
        self.assertTrue(token.startswith("svcj1_"))
        before = here.dialed()
        told = here.ada.svc("authority", "users", "forget-name", "zoe", "--records", "--json").json
        self.assertTrue(told["changed"])
        self.assertEqual(here.dialed() - before, 1)

    def test_person_without_rights(self) -> None:
        """The same commands by a person who may administer nothing: Authority is never dialed."""
        here = office()
        dialed, refused = here.dialed(), here.refused()

        def one(name: str) -> tuple[str, Ran]:
            words = REMOTE[name].words.format(id="x" * 26, proposal="x" * 32).split()
            stdin = REMOTE[name].stdin.encode()
            return name, here.bob.svc("authority", *name.split(), *words, stdin=stdin)

        with ThreadPoolExecutor(4) as workers:
            for name, ran in workers.map(one, REMOTE):
                self.assertEqual((ran.status, ran.stdout), (1, ""), name)
                self.assertIn("the policy lets you administer nothing", ran.stderr, name)
        self.assertEqual((here.dialed(), here.refused() - refused), (dialed, len(REMOTE)))

    def test_who_manages_people(self) -> None:
        """Whoever manages people adds and disables them, and gets no more rights by any of it."""
        here = office()
        dora = here.gateway.add_person("dora", "desk")
        until("the Proxy knows her", lambda: dora.svc("authority", "status").status == 0)

        def lifting(words: str) -> tuple[str, Ran]:
            return words, dora.svc("authority", *words.split())

        tried = (
            "groups members operators --add dora",
            "groups members operators --add bob",
            "persons add fay --group operators",
            "persons add ada",
            "accounts add ada",
            "identities add ada --subject s-9 --issuer https://id.example",
            "agents add helper --owner ada",
        )
        with ThreadPoolExecutor(4) as workers:
            for words, ran in workers.map(lifting, tried):
                self.assertEqual((ran.status, ran.stdout), (1, ""), words)
                self.assertRegex(ran.stderr, "after this change, and you may not", words)
                self.assertIn("(lifts_rights)", ran.stderr, words)
        dora.svc("authority", "persons", "add", "gus").checked()
        shown = here.gateway.operator("persons", "show", "dora", "--json").json
        self.assertEqual(shown["groups"], ["desk"])
        log = here.gateway.operator("audit", "show", "--event", "operator.refused", "--json").json
        own = [one["reason"] for one in log if one["actor"]["id"] == shown["id"]]
        self.assertEqual(own, ["lifts_rights"] * len(tried))

    def test_follow(self) -> None:
        """The log is followed through the lane: what happens is shown, and the lane stays open."""
        here = office()
        following = Child(
            name="follow",
            words=svc_command("authority", "audit", "show", "--follow", "--event", "group"),
            home=here.ada.home,
            log=here.ada.home / "follow.log",
            environ={},
        )
        following.start()
        self.addCleanup(following.end)
        until("the heads", lambda: "WHO" in following.text(), alive=[following])
        here.gateway.operator("groups", "add", "followed")
        until("the record", lambda: "group followed" in following.text(), alive=[following])
        here.gateway.await_metric(PROXY, OPEN, 1, lane="admin")
        following.end()
        here.gateway.await_metric(PROXY, OPEN, 0, lane="admin")

    def test_ways(self) -> None:
        """The way is chosen by what is there: options, a person's configuration, the host's own."""
        here = office()
        ada, home = here.ada.svc, str(here.ada.directory)
        public = here.gateway.public
        config = str(here.ada.directory / "client.toml")
        for words in (
            ("authority", "--proxy", "127.0.0.1:9", "--proxy", public, "status"),
            ("authority", "--dir", home, "status"),
            ("--config", config, "authority", "status"),
        ):
            ada(*words).checked()
        before = here.dialed()
        here.gateway.operator("status")  # over the control socket
        self.assertEqual(here.dialed(), before)
        nobody = GatewayPerson("nobody", here.gateway.directory / "home-nobody", "")
        nobody.home.mkdir(exist_ok=True)
        ran = nobody.svc("authority", "status")
        self.assertEqual(ran.status, 64)
        self.assertIn("sign in first (svc login)", ran.stderr)
        both = ada("--config", config, "authority", "--dir", home, "status")
        self.assertEqual((both.status, "give only one" in both.stderr), (64, True))


class LaneTests(TestCase):
    """What no command of ours does: the lane is opened in this process, with other identities."""

    timeout = 240

    async def lane(
        self, address: str, identity: TransportIdentity, *, plaintext: bool = False
    ) -> tuple[Any, Any]:
        """A channel to a Proxy, and the lane's stream; raises what the Proxy answers."""
        proxies = frozenset({Role.PROXY})
        endpoint = tls_endpoint(
            reactor, identity, address_of(address), proxies, plaintext=plaintext
        )
        channel = await dial(endpoint, reactor, authority="proxy", plaintext=plaintext)
        try:
            return channel, await opened_lane(channel, Lane.ADMIN, reactor, 10.0)
        except BaseException:
            await channel.close()
            raise

    async def refusal(self, *args: Any, **named: Any) -> SvcError:
        """How the lane is refused."""
        try:
            await self.lane(*args, **named)
        except SvcError as refused:
            return refused
        raise AssertionError("the lane opened")

    async def test_strangers(self) -> None:
        """A node's certificate, and a listener without TLS: Authority is never dialed."""
        here = office()
        dialed = here.dialed()
        node = here.identity(here.gateway.files.state(PROXY))
        refused = await self.refusal(here.gateway.public, node)
        self.assertEqual(
            (refused.fault, refused.reason), (Fault.UNAUTHENTICATED, "certificate_role")
        )
        ada = here.identity(here.ada.directory)
        refused = await self.refusal(here.plain, ada, plaintext=True)
        self.assertEqual(
            (refused.fault, refused.reason), (Fault.PRECONDITION, "plaintext_listener")
        )
        opened = here.gateway.metrics("proxy2")
        self.assertEqual(opened.get(f'{CONNECTIONS}{{lane="admin",outcome="open"}}', 0), 0)
        self.assertEqual(here.dialed(), dialed)

    @proves("G-MET-28", "G-MET-29")
    async def test_held(self) -> None:
        """An open lane shows in the gauge, and the counter moves; only the admin lane's."""
        here = office()
        before = here.dialed()
        renewals = here.gateway.metric(PROXY, CONNECTIONS, lane="renewal")
        channel, _ = await self.lane(here.gateway.public, here.identity(here.ada.directory))

        def held(count: int) -> bool:
            return here.gateway.metric(PROXY, OPEN, lane="admin") == count

        await eventually("the lane in the gauge", lambda: held(1))
        self.assertEqual(here.dialed() - before, 1)
        await channel.close()
        await eventually("the lane's end", lambda: held(0))
        self.assertEqual(here.gateway.metric(PROXY, CONNECTIONS, lane="renewal"), renewals)

    @proves("U-NOTE-30")
    async def test_old_proxy(self) -> None:
        """A Proxy that was built before the lane: the command names the cause, and fails."""
        here = office()
        identity = here.identity(here.gateway.files.state(PROXY))
        for old in (
            SvcError(
                "this Proxy does not serve this lane",
                reason="lane_not_served",
                fault=Fault.UNAVAILABLE,
            ),
            SvcError("relay open: unknown lane", reason="malformed", fault=Fault.INVALID),
            None,
        ):
            port = await self.serve(identity, old)
            status, said = await self.typed(here.ada, f"127.0.0.1:{port}", "zed")
            self.assertEqual(status, 1, said)
            self.assertIn("upgrade the Proxy", said)
            self.assertIn(f"127.0.0.1:{port}: ", said)

    async def serve(self, identity: TransportIdentity, refuses: SvcError | None) -> int:
        """A Proxy that refuses the lane so, or knows no lanes at all; its port."""

        async def opened(call: IRpcCall) -> None:
            assert refuses is not None
            raise refuses

        methods = {} if refuses is None else {"Open": streaming(opened)}
        server = RpcServerFactory(
            [RpcService("gate.v1.Relay", methods)],
            reactor,
            limits=WireLimits(),
            admit=lambda method, peer: None,
        )
        tls = server_context(identity, ClientCertificates.OPTIONAL)
        factory = TlsServerFactory(
            begin=tls.begin, inner=server, seconds=reactor.seconds, most_handshakes=8
        )
        port = reactor.listenTCP(0, factory, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        self.addCleanup(server.drain, 0.0)
        return int(port.getHost().port)

    async def typed(self, person: GatewayPerson, proxy: str, name: str) -> tuple[int, str]:
        """``users forget-name`` through a Proxy: status, and what it said."""
        words = svc_command("authority", "--proxy", proxy, "users", "forget-name", name)
        out, err, status = await getProcessOutputAndValue(
            words[0], words[1:], env=environment(person.home), path=str(person.home)
        )
        return status, (out + err).decode()
