"""An Authority whose people sign in, and the provider that it asks: all in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from attrs import define, evolve, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.iweb import IAgent, IBodyProducer
from zope.interface import implementer

from svc.authority.signin.admission import SignInAdmission
from svc.authority.signin.assertion import TakenAssertions
from svc.authority.signin.attempts import Attempts, Flow
from svc.authority.signin.device import DeviceSignIns
from svc.authority.signin.entrance import Entrance, SignInRules
from svc.authority.signin.http import ProviderHttp
from svc.authority.signin.platforms import AgentAssertions, Platforms
from svc.authority.signin.provider import Provider
from svc.authority.signin.renewal import SignInRenewals
from svc.authority.signin.service import SignInService
from svc.model.signing import Purpose, sign
from svc.pki.credentials import CredentialSeal
from svc.pki.enroll import CertificateIssuer
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.proto.gate.v1 import sign_in_pb2 as pb
from tests.authority.house import Call, House
from tests.authority.signin.tokens import CLIENT, GOOD, ISSUER, half_hash, key_set, signed
from tests.pki.support import CLUSTER

METADATA: Mapping[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/auth",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/jwks",
    "device_authorization_endpoint": f"{ISSUER}/device",
    "revocation_endpoint": f"{ISSUER}/revoke",
    "code_challenge_methods_supported": ["S256"],
    "id_token_signing_alg_values_supported": ["RS256", "ES256"],
}
DEVICE: Mapping[str, Any] = {
    "device_code": "d" * 40,
    "user_code": "ABCD-EFGH",
    "verification_uri": f"{ISSUER}/device",
    "interval": 5,
    "expires_in": 600,
}
WELL_KNOWN = "/.well-known/openid-configuration"


@define
class MemoryAnswer:
    """An answer whose body is given at once."""

    code: int
    body: bytes
    transport: Any = None

    def deliverBody(self, protocol: Any) -> None:
        """Give it."""
        self.transport = _Cut(protocol)
        protocol.makeConnection(self.transport)
        for start in range(0, len(self.body), 65536):
            if not self.transport.is_cut:
                protocol.dataReceived(self.body[start : start + 65536])
        if not self.transport.is_cut:
            protocol.connectionLost(Failure(ResponseDone()))


class _Cut(StringTransport):
    def __init__(self, protocol: Any) -> None:
        super().__init__()
        self.protocol, self.is_cut = protocol, False

    def abortConnection(self) -> None:
        """Cut."""
        self.is_cut = True
        self.protocol.connectionLost(Failure(ConnectionDone()))


@implementer(IAgent)
@define(eq=False)
class MemoryProvider:
    """Answers by path; what was asked is kept.

    Attributes:
        answers: By path; a list is used up, its last one stays.
        is_silent: No answer comes.
        breaks: What a request breaks by, if it does.
    """

    answers: dict[str, list[tuple[int, Any]]] = field(factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(factory=list)
    is_silent: bool = False
    breaks: Exception | None = None

    def __attrs_post_init__(self) -> None:
        self.answer(WELL_KNOWN, METADATA)
        self.answer("/jwks", key_set())
        self.answer("/device", DEVICE)
        self.answer("/revoke", {})

    def answer(self, path: str, *bodies: Any, status: int = 200) -> None:
        """Answer a path with these, in order, from now on."""
        self.answers[path] = [(status, body) for body in bodies]

    def request(
        self,
        method: bytes,
        uri: bytes,
        headers: object = None,
        bodyProducer: IBodyProducer | None = None,
    ) -> Deferred[Any]:
        """Called as an agent."""
        path = urlsplit(uri.decode()).path
        consumer = StringTransport()
        if bodyProducer is not None:
            form = bodyProducer._inputFile.read()  # type: ignore[attr-defined]
            consumer.write(form)
        sent = {name: value for name, (value,) in parse_qs(consumer.value().decode()).items()}
        self.asked.append((path, sent))
        if self.is_silent:
            return Deferred()
        if self.breaks is not None:
            return fail(self.breaks)
        listed = self.answers[path]
        status, body = listed.pop(0) if len(listed) > 1 else listed[0]
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return succeed(MemoryAnswer(status, data))

    def count(self, path: str) -> int:
        """How often a path was asked."""
        return sum(1 for asked, _ in self.asked if asked == path)


class SignInHouse:
    """The service over the house's store.

    Args:
        rules: Changes of the rules.
        admission: Changes of who is let in.
    """

    def __init__(
        self, rules: Mapping[str, Any] | None = None, admission: Mapping[str, Any] | None = None
    ) -> None:
        self.house = house = House()
        self.agent = MemoryProvider()
        issuer = CertificateIssuer(house.world.keys, person_lifetime=3600.0)
        self.provider = Provider(
            issuer=ISSUER,
            client_id=CLIENT,
            http=ProviderHttp(self.agent, house.clock),
            clock=house.clock,
            now=house.now,
        )
        self.admission = SignInAdmission(
            cluster=CLUSTER,
            issuer=issuer,
            recorder=house.recorder,
            seal=CredentialSeal(house.entropy, b"k" * 32),
            now=house.now,
            entropy=house.entropy,
            **{
                "create_persons": True,
                "name_claim": "email",
                "renew_secs": 86400.0,
                **(admission or {}),
            },
        )
        base = SignInRules(
            cluster=CLUSTER,
            flows=frozenset(Flow),
            scopes=("openid", "offline_access"),
            extra_params={},
            groups_claim="groups",
            profile=b"",
        )
        self.entrance = Entrance(
            provider=self.provider,
            rules=evolve(base, **(rules or {})),
            admission=self.admission,
            issuer=issuer,
            state_cache=house.state_cache,
            store=house.store,
            recorder=house.recorder,
            refusals=house.refusals,
        )
        attempts, taken = Attempts(house.clock, house.entropy), TakenAssertions(house.now)
        self.service = SignInService(
            entrance=self.entrance,
            attempts=attempts,
            devices=DeviceSignIns(self.entrance, attempts, house.clock),
            renewals=SignInRenewals(self.entrance, house.world.verifier, house.now),
            taken=taken,
            agents=self.agent_assertions(taken),
            sign_profile=house.world.keys.signer(Purpose.SIGN_IN_PROFILE),
            now=house.now,
            clock=house.clock,
        )
        self.service.taken.begin()

    def agent_assertions(self, taken: TakenAssertions) -> AgentAssertions:
        """Enrolls agents by tokens of platforms, which the same agent reaches."""
        http = ProviderHttp(self.agent, self.house.clock)
        return AgentAssertions(
            entrance=self.entrance,
            platforms=Platforms(http, self.house.now),
            taken=taken,
            now=self.house.now,
        )

    def claims(self, nonce: str | None = None, **changes: Any) -> dict[str, Any]:
        """Claims that are good now."""
        now = self.house.now()
        found = {**GOOD, "iat": now, "exp": now + 300, "nonce": nonce}
        found |= {"email": "ada@example.org", "email_verified": True, "groups": ["dev"]}
        return {name: value for name, value in {**found, **changes}.items() if value is not None}

    def tokens(self, **claims: Any) -> dict[str, Any]:
        """An answer of the token endpoint."""
        hashed = {"at_hash": half_hash("access"), **claims}
        token = signed({"alg": "RS256", "kid": "r1"}, self.claims(**hashed))
        return {"id_token": token, "access_token": "access", "refresh_token": "refresh1"}

    async def begin(self, key: Any = None, flow: str = "code") -> tuple[Any, dict[str, str]]:
        """Begin; the answer, and the parameters of the address that the browser opens."""
        request = pb.SignInBeginRequest(csr=make_request(key or new_key()), flow=flow, port=1024)
        begun = await self.service._begin(request, Call())
        asked = parse_qs(urlsplit(begun.url).query)
        return begun, {name: value for name, (value,) in asked.items()}

    async def sign_in(self, key: Any = None, **claims: Any) -> Any:
        """Sign in with a code, to the end."""
        begun, asked = await self.begin(key)
        self.agent.answer("/token", self.tokens(nonce=asked["nonce"], **claims))
        return await self.complete(begun, f"state={begun.state}&code=c1")

    async def complete(self, begun: Any, query: str) -> Any:
        """Bring the redirect back."""
        request = pb.SignInCompleteRequest(attempt=begun.attempt, query=query)
        return await self.service._complete(request, Call())

    async def poll(self, begun: Any) -> Any:
        """Ask whether the person has signed in on the other device."""
        return await self.service._poll(pb.SignInPollRequest(attempt=begun.attempt), Call())

    async def assertion(self, token: str, csr: bytes = b"") -> Any:
        """Sign a machine in; by a key of its own where *csr* is of none."""
        request = pb.SignInAssertRequest(csr=csr or make_request(new_key()), id_token=token)
        return await self.service._assert(request, Call())

    def renewal(self, key: Any, chain: Any, new: Any = None) -> dict[str, Any]:
        """A renewal's request by *key*; without *new* that the sign-in ends."""
        payload = pb.SignInRenewal(
            cluster=CLUSTER,
            csr=b"" if new is None else make_request(new),
            sent_at_ms=int(self.house.now() * 1000),
        ).SerializeToString()
        signature = sign(key, Purpose.SIGN_IN_RENEWAL, payload)
        return {"payload": payload, "signature": signature, "chain": list(chain)}

    async def renew(self, key: Any, chain: Any, new: Any) -> Any:
        """Renew."""
        request = pb.SignInRenewRequest(**self.renewal(key, chain, new))
        return await self.service._renew(request, Call())

    async def end(self, key: Any, chain: Any) -> Any:
        """Log out."""
        return await self.service._end(pb.SignInEndRequest(**self.renewal(key, chain)), Call())
