"""What an API server gets: the Connector's credential and the person's name, and nobody else's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError, SvcError
from svc.interfaces.kinds import IPersonalDialer
from svc.kinds.kube.dialer import DIALER
from svc.kinds.kube.impersonation import without_identity
from svc.kinds.kube.terms import TERMS

PERSON = "p" * 26
PATH = "connector.resources[0]"
GET = b"GET /api/v1/pods HTTP/1.1\r\nHost: x:81\r\n"


class DialerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.token = Path(self.mktemp()).resolve()
        self.token.write_text("secret.token\n", "ascii")
        self.token.chmod(0o600)

    def table(self, **more: Any) -> dict[str, object]:
        """A good table, with some of it changed."""
        usual = {"address": "127.0.0.1:81", "tls": "off", "token_file": str(self.token)}
        return {**usual, "groups": ["svc:people", "dev"], **more}

    def sent(self, *fields: bytes, **more: Any) -> list[bytes]:
        """The lines that the server gets of one request with these fields."""
        reactor: Any = MemoryReactorClock()
        target = DIALER.parse("k", self.table(**more), PATH)
        endpoint = DIALER.of(PERSON).endpoint(reactor, target, {})
        connecting = endpoint.connect(Factory.forProtocol(Protocol))
        protocol = reactor.tcpClients[0][2].buildProtocol(None)
        transport = StringTransport()
        protocol.makeConnection(transport)
        person: Any = self.successResultOf(connecting)
        person.transport.write(GET + b"".join(each + b"\r\n" for each in fields) + b"\r\n")
        written: list[bytes] = transport.value().split(b"\r\n")
        return written

    def test_in_the_persons_name(self) -> None:
        """The Connector's token, the person's id behind a prefix, and the groups configured."""
        self.assertEqual(
            self.sent(b"Accept: application/json"),
            [
                b"GET /api/v1/pods HTTP/1.1",
                b"Host: 127.0.0.1:81",
                b"Accept: application/json",
                b"Authorization: Bearer secret.token",
                b"Impersonate-User: svc:" + PERSON.encode(),
                b"Impersonate-Group: svc:people",
                b"Impersonate-Group: dev",
                b"",
                b"",
            ],
        )

    def test_who_it_is(self) -> None:
        """Uid, further groups and extra of a person, as the Connector's table has them."""
        sent = self.sent(
            b"Impersonate-Extra-example.com%2Fgateway: forged",
            uid=True,
            person_groups={PERSON: ["svc:oncall", "dev"], "q" * 26: ["svc:others"]},
            extra={"example.com/gateway": ["shop", "two"]},
        )
        self.assertEqual(
            [line for line in sent if line.startswith(b"Impersonate")],
            [
                b"Impersonate-User: svc:" + PERSON.encode(),
                b"Impersonate-Uid: " + PERSON.encode(),
                b"Impersonate-Group: svc:people",
                b"Impersonate-Group: dev",
                b"Impersonate-Group: svc:oncall",
                b"Impersonate-Extra-example.com%2Fgateway: shop",
                b"Impersonate-Extra-example.com%2Fgateway: two",
            ],
        )

    def test_nobody_else(self) -> None:
        """Whatever else says who asks is dropped, in every spelling."""
        usual = self.sent()
        for field in (
            b"Authorization: Bearer mine",
            b"AUTHORIZATION: Basic x",
            b"Impersonate-User: system:admin",
            b"impersonate-group: system:masters",
            b"Impersonate-Uid: 1",
            b"Impersonate-Extra-scopes: view",
            b"Impersonate_User: system:admin",
            b"Impersonate_Group: system:masters",
            b"X-Remote-User: admin",
            b"x-remote-group: system:masters",
            b"X-Remote-Extra-a: 1",
            b"X_Remote_User: admin",
            b"Cookie: a=b",
            b"Upgrade: SPDY/3.1",
            b"Connection: Authorization, Impersonate-User",
            b"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.bXk",
        ):
            self.assertEqual(self.sent(field), usual, field)

    def test_subprotocols(self) -> None:
        """Of the protocols that a WebSocket offers, one that hides a token is left out."""
        offered = b"v5.channel.k8s.io, Base64URL.bearer.authorization.k8s.io.bXk,v4.channel.k8s.io"
        self.assertEqual(
            without_identity(((b"Sec-Websocket-Protocol", offered),)),
            ((b"Sec-Websocket-Protocol", b"v5.channel.k8s.io, v4.channel.k8s.io"),),
        )

    @given(st.lists(st.sampled_from([b"iMPERSONATE-x", b"X-Remote-y", b"authorization", b"A-b"])))
    def test_any_fields(self, names: list[bytes]) -> None:
        """Others stay, in their order."""
        fields = tuple((name, b"%d" % at) for at, name in enumerate(names))
        self.assertEqual(without_identity(fields), tuple(one for one in fields if one[0] == b"A-b"))

    def test_no_token(self) -> None:
        """Without its own credential the Connector dials nobody."""
        for said in (None, b"", b"two words", b"a\r\nImpersonate-User: x"):
            if said is None:
                self.token.unlink()
            else:
                self.token.write_bytes(said)
                self.token.chmod(0o600)
            reactor: Any = MemoryReactorClock()
            target = DIALER.parse("k", self.table(), PATH)
            endpoint = DIALER.of(PERSON).endpoint(reactor, target, {})
            failure = self.failureResultOf(endpoint.connect(Factory.forProtocol(Protocol)))
            self.assertEqual(failure.value.reason, "no_credential")
            self.assertNotIn("words", str(failure.value))
            self.assertEqual(reactor.tcpClients, [])

    def refused(self, **more: Any) -> str:
        """Why it dials nobody with the token as it is; it has waited for nothing."""
        reactor: Any = MemoryReactorClock()
        target = DIALER.parse("k", self.table(**more), PATH)
        endpoint = DIALER.of(PERSON).endpoint(reactor, target, {})
        failure = self.failureResultOf(endpoint.connect(Factory.forProtocol(Protocol)))
        self.assertEqual((failure.value.reason, reactor.tcpClients), ("no_credential", []))
        return str(failure.value)

    def test_a_token_of_others(self) -> None:
        """One that others can read, or that is no file, is no credential."""
        for mode in (0o640, 0o604, 0o620):
            self.token.chmod(mode)
            self.assertIn("other users may read it", self.refused())
        self.token.unlink()
        self.token.mkdir()
        self.assertIn("not a regular file", self.refused())
        self.token.rmdir()
        os.mkfifo(self.token, 0o600)
        self.assertIn("not a regular file", self.refused())

    def test_a_mounted_token(self) -> None:
        """One that an orchestrator mounts may be read by others: root's, and written by nobody."""
        self.token.chmod(0o644)
        if os.geteuid():
            self.assertIn("another user", self.refused(token_is_mounted=True))
            return
        table = self.table(token_is_mounted=True)
        reactor: Any = MemoryReactorClock()
        endpoint = DIALER.of(PERSON).endpoint(reactor, DIALER.parse("k", table, PATH), {})
        endpoint.connect(Factory.forProtocol(Protocol))
        self.assertEqual(len(reactor.tcpClients), 1)
        self.token.chmod(0o664)
        self.assertIn("other users may write it", self.refused(token_is_mounted=True))
        self.token.chmod(0o644)
        os.chown(self.token, 65534, 65534)
        self.assertIn("another user", self.refused(token_is_mounted=True))
        self.token.chmod(0o600)
        self.assertIn("another user", self.refused())

    def test_nobody(self) -> None:
        """It dials for a person, and not without one."""
        self.assertTrue(IPersonalDialer.providedBy(DIALER))
        reactor: Any = MemoryReactorClock()
        target = DIALER.parse("k", self.table(), PATH)
        self.assertRaises(SvcError, DIALER.endpoint, reactor, target, {})

    def test_tables(self) -> None:
        """What would impersonate the cluster's own, or show the token, is refused."""
        for key, value in (
            ("groups", ["system:masters"]),
            ("groups", ["System:masters"]),
            ("groups", "people"),
            ("groups", ["a\r\nb"]),
            ("groups", [["a"]]),
            ("groups", ["a"] * 33),
            ("user_prefix", "system:"),
            ("user_prefix", ""),
            ("user_prefix", "a b"),
            ("token_file", ""),
            ("token_file", "cluster-token"),
            ("token_is_mounted", "yes"),
            ("tls", "none"),
            ("uid", "yes"),
            ("person_groups", ["a"]),
            ("person_groups", {"ada": ["dev"]}),
            ("extra", ["a"]),
            ("extra", {"Upper": ["a"]}),
            ("extra", {"a b": ["a"]}),
            ("extra", {"a": "b"}),
            ("extra", {"a": ["b\r\nImpersonate-Group: c"]}),
            ("extra", {"authentication.kubernetes.io/credential-id": ["a"]}),
            ("extra", {"scopes.authorization.k8s.io/x": ["a"]}),
            ("identity", True),
        ):
            refusal = self.assertRaises(
                ConfigError, DIALER.parse, "k", self.table(**{key: value}), PATH
            )
            self.assertEqual(refusal.where, f"{PATH}.{key}")
        theirs = self.table(person_groups={PERSON: ["system:masters"]})
        refusal = self.assertRaises(ConfigError, DIALER.parse, "k", theirs, PATH)
        self.assertEqual(refusal.where, f"{PATH}.person_groups.{PERSON}")
        refusal = self.assertRaises(
            ConfigError, DIALER.parse, "k", self.table(address="10.0.0.1:81"), PATH
        )
        self.assertEqual(refusal.where, f"{PATH}.tls")
        table = {"address": "10.0.0.1", "token_file": "/t"}
        self.assertEqual(DIALER.parse("k", table, PATH).options["tls"], "verify")

    def test_operations(self) -> None:
        """An operation that the grant leaves out is refused in the API server's own form."""
        asked = {
            b"GET /api/v1/namespaces/a/pods/p": "get",
            b"GET /api/v1/namespaces/a/pods": "list",
            b"GET /api/v1/namespaces/a/pods?watch=true": "watch",
            b"POST /api/v1/namespaces/a/pods": "create",
            b"DELETE /api/v1/namespaces/a/pods": "deletecollection",
            b"GET /version": "get",
            b"POST /version": "other",
            b"POST /api/v1/namespaces/a/pods/p/exec?command=id": "k8sExec",
            b"GET /api/v1/namespaces/a/services/s/proxy/": "k8sEscape",
        }
        for line, name in asked.items():
            for granted in (TERMS.operations.keys() - {name}, {name}):
                written, answer = self.sent_under(frozenset(granted), line)
                self.assertEqual(bool(written), name in granted, line)
                if name not in granted:
                    head, _, body = answer.partition(b"\r\n\r\n")
                    self.assertIn(b"403 Forbidden", head)
                    status = json.loads(body)
                    self.assertEqual((status["kind"], status["code"]), ("Status", 403))
                    self.assertIn("connect again", status["message"])

    def sent_under(self, granted: frozenset[str], line: bytes) -> tuple[bytes, bytes]:
        """What the server gets, and the person hears, of a request on a limited connection."""
        reactor: Any = MemoryReactorClock()
        target = DIALER.parse("k", self.table(), PATH)
        endpoint = DIALER.of(PERSON).limited(granted).endpoint(reactor, target, {})
        heard = bytearray()

        class Hearing(Protocol):
            def dataReceived(self, data: bytes) -> None:
                heard.extend(data)

        connecting = endpoint.connect(Factory.forProtocol(Hearing))
        protocol = reactor.tcpClients[0][2].buildProtocol(None)
        transport = StringTransport()
        protocol.makeConnection(transport)
        person: Any = self.successResultOf(connecting)
        person.transport.write(line + b" HTTP/1.1\r\nHost: k\r\n\r\n")
        return transport.value(), bytes(heard)
