"""``svc login`` behind its options: signs a person in and stores the identity.

The key is made here and never leaves; Authority knows it from the first message
on (rule R35).  Everything that is said to Authority passes a Proxy as
ciphertext only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from socket import gethostname
from typing import Any, TypeVar

from attrs import evolve, frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from svc import __version__
from svc.client.own_name import OwnName
from svc.client.signin import RenewedSignIn, SignInFile
from svc.config import Address
from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.join.channel import PinnedCluster, ask_authority
from svc.join.held import held
from svc.join.loopback import LoopbackRedirect, ended_words
from svc.join.person import check_pin, write_config
from svc.join.profiles import KeptProfile, ToldProfile
from svc.model.certificate import CertificateRefused
from svc.model.principal import CALLERS
from svc.model.signing import Purpose, Signed
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import make_request
from svc.pki.join import adopt_identity
from svc.pki.verify import ChainVerifier, ca_pin, root_cluster
from svc.proto.gate.v1 import sign_in_pb2 as pb
from svc.runtime.context import Runtime
from svc.runtime.services import bounded
from svc.telemetry.escape import escaped

PROFILE_METHOD = "/gate.v1.SignIn/Profile"
BEGIN_METHOD = "/gate.v1.SignIn/Begin"
COMPLETE_METHOD = "/gate.v1.SignIn/Complete"
POLL_METHOD = "/gate.v1.SignIn/Poll"
ASSERT_METHOD = "/gate.v1.SignIn/Assert"
RENEW_METHOD = "/gate.v1.SignIn/Renew"
END_METHOD = "/gate.v1.SignIn/End"
_CALL_SECS = 25.0
_AFTER_SECS = 5.0
_POLL_AGAIN = (Fault.UNAVAILABLE, Fault.DEADLINE, Fault.EXHAUSTED)

Show = Callable[[str], object]
"""Shows a line to the person, at once."""

OpenBrowser = Callable[[str], object]
"""Opens a URL; where there is none, the person does."""

_T = TypeVar("_T")


@frozen
class SignInPlace:
    """Where and to what somebody signs in.

    Attributes:
        pin: SHA-256 of the cluster root in hex.
        authority: Authority's join listener, to sign in without a Proxy.
        writes_config: Whether ``client.toml`` is to be written for these Proxies.
    """

    directory: Path
    proxies: tuple[Address, ...]
    authority: Address | None
    pin: str
    writes_config: bool

    async def ask(self, runtime: Runtime, ask: Callable[[IRpcChannel], Any]) -> Any:
        """What *ask* gets from Authority, within a deadline.

        Raises:
            SvcError: as ask_authority.
        """
        pinned = PinnedCluster(check_pin(self.pin), "", runtime.now)
        asked = ask_authority(runtime, pinned, self.proxies, self.authority, ask)
        return await bounded(
            runtime.reactor, 2 * _CALL_SECS, Deferred.fromCoroutine(asked), "signing in"
        )


@frozen
class SignedInPerson:
    """What ``svc login`` came to."""

    cluster: str
    name: str
    groups: tuple[str, ...]
    not_after: float
    renew_until: float


@frozen
class BrowserVisit:
    """Where a browser goes for an attempt.

    Attributes:
        state: What it brings back.
    """

    url: str
    state: str
    expires_in: float
    attempt: str


@frozen
class MachineSignIn:
    """One sign-in from this machine."""

    runtime: Runtime
    place: SignInPlace
    show: Show

    async def by_browser(self, open_browser: OpenBrowser | None) -> SignedInPerson:
        """Sign in with a browser on this machine.

        Args:
            open_browser: Opens a URL; None: the person does.

        Raises:
            SvcError: refused, denied or not reached; nothing was replaced.
        """
        store = IdentityStore(self.place.directory)
        key = store.pending_key()

        async def begin(port: int) -> BrowserVisit:
            begun = await self._begin(make_request(key), "code", port)
            opened = "if no browser opens, open" if open_browser is not None else "open"
            self.show(f"Sign in at {escaped(begun.issuer)}; {opened} this address:")
            return BrowserVisit(
                url=begun.url,
                state=begun.state,
                expires_in=float(begun.expires_in),
                attempt=begun.attempt,
            )

        async def end(visit: BrowserVisit, query: str) -> SignedInPerson:
            asked = pb.SignInCompleteRequest(attempt=visit.attempt, query=query)
            answer = await self.unary(COMPLETE_METHOD, asked, pb.SignInResponse)
            return await self.adopt(store, key, answer)

        return await self.visited(begin, end, open_browser, lambda done: done.name)

    async def visited(
        self,
        begin: Callable[[int], Awaitable[BrowserVisit]],
        end: Callable[[BrowserVisit, str], Awaitable[_T]],
        open_browser: OpenBrowser | None,
        name_of: Callable[[_T], str],
    ) -> _T:
        """Have a browser go somewhere, and take what it brings back to 127.0.0.1.

        Args:
            begin: Given the port; says to the person what is opened.
            end: Given the query.
            name_of: Whom the browser is told of at the end.

        Raises:
            SvcError: refused, denied, not reached, or nobody came back in time.
        """
        loopback = LoopbackRedirect(self.runtime.reactor)
        refusal: SvcError | None = None
        name = ""
        try:
            visit = await begin(await loopback.listen())
            loopback.expect(visit.state)
            self.show(escaped(visit.url))
            if open_browser is not None:
                open_browser(visit.url)
            query = await bounded(
                self.runtime.reactor, visit.expires_in, loopback.query, "the sign-in"
            )
            done = await end(visit, query)
            name = name_of(done)
            return done
        except SvcError as failed:
            refusal = failed
            raise
        finally:
            await loopback.close(ended_words(refusal, name))

    async def by_device(self) -> SignedInPerson:
        """Sign in with a code that is typed on another device.

        Raises:
            SvcError: refused, denied, expired or not reached; nothing was replaced.
        """
        store, clock = IdentityStore(self.place.directory), self.runtime.reactor
        key = store.pending_key()
        begun = await self._begin(make_request(key), "device")
        self.show(f"Sign in at {escaped(begun.issuer)} for this machine ({gethostname()}).")
        self.show(f"Open {escaped(begun.url)} and type the code {escaped(begun.user_code)}")
        if begun.complete_url:
            self.show(f"or open {escaped(begun.complete_url)}")
        self.show("Do so only if you have just run `svc login` here yourself.")
        asked = pb.SignInPollRequest(attempt=begun.attempt)
        ends, wait = clock.seconds() + begun.expires_in + _AFTER_SECS, float(begun.interval)
        while clock.seconds() < ends:
            await deferLater(clock, wait)
            try:
                answer = await self.unary(POLL_METHOD, asked, pb.SignInPollResponse)
            except SvcError as failed:
                if failed.fault not in _POLL_AGAIN:
                    raise
                continue
            if answer.HasField("signed_in"):
                return await self.adopt(store, key, answer.signed_in)
            wait = float(answer.wait)
        raise SvcError(
            "nobody signed in with the code in time; run `svc login` again",
            reason="device_expired",
            fault=Fault.DEADLINE,
        )

    async def by_token(self, id_token: str) -> SignedInPerson:
        """Sign in with an ID token that the machine's platform gave it for this cluster.

        Raises:
            SvcError: refused or not reached; nothing was replaced.
        """
        store = IdentityStore(self.place.directory)
        key = store.pending_key()
        asked = pb.SignInAssertRequest(
            csr=make_request(key),
            id_token=id_token,
            version=__version__,
            sent_at_ms=int(self.runtime.now() * 1000),
        )
        answer = await self.unary(ASSERT_METHOD, asked, pb.SignInResponse)
        return await self.adopt(store, key, answer)

    async def unary(self, method: str, asked: Any, answer: type[Any]) -> Any:
        """One call in a connection of its own."""
        return await self._ask(
            lambda channel: channel.unary(method, asked, answer, timeout=_CALL_SECS)
        )

    async def _begin(self, csr: bytes, flow: str, port: int = 0) -> pb.SignInBeginResponse:
        asked = pb.SignInBeginRequest(
            csr=csr,
            flow=flow,
            port=port,
            version=__version__,
            sent_at_ms=int(self.runtime.now() * 1000),
        )

        async def begin(channel: IRpcChannel) -> pb.SignInBeginResponse:
            profile = await self.profile(channel)
            told, kept = ToldProfile.of("the Authority", profile), KeptProfile(self.place.directory)
            if told.issuer:
                kept.check(told)
            begun = await channel.unary(
                BEGIN_METHOD, asked, pb.SignInBeginResponse, timeout=_CALL_SECS
            )
            if begun.issuer != profile.issuer:
                raise SvcError(
                    "the Authority begins a sign-in at another provider than its profile names",
                    reason="provider_issuer",
                    fault=Fault.DENIED,
                )
            kept.keep(told)
            return begun

        found: pb.SignInBeginResponse = await self._ask(begin)
        return found

    async def profile(self, channel: IRpcChannel) -> pb.SignInProfile:
        """The signed profile; the signature is Authority's whoever passed it on."""
        answer = await channel.unary(
            PROFILE_METHOD, pb.SignInProfileRequest(), pb.SignInProfileResponse, timeout=_CALL_SECS
        )
        root = channel.peer.chain[-1]
        if ca_pin(root) != self.place.pin:
            raise CertificateRefused("the server presents a different root from the pinned one")
        verifier = ChainVerifier(root_cluster(root), root, self.runtime.now)
        signed = Signed(answer.profile, answer.signature, tuple(answer.chain))
        verifier.verify_signed(signed, Purpose.SIGN_IN_PROFILE)
        profile = pb.SignInProfile.FromString(answer.profile)
        if profile.cluster != verifier.cluster:
            raise CertificateRefused("the profile is of another cluster")
        return profile

    async def told_profiles(self) -> list[ToldProfile]:
        """The profile as each Proxy passes it on, and as it is kept here.

        Raises:
            SvcError: a Proxy was not reached, or passes on none that is whole.
        """
        found = []
        for proxy in self.place.proxies:
            place = evolve(self.place, proxies=(proxy,), authority=None)
            profile = await place.ask(self.runtime, self.profile)
            found.append(ToldProfile.of(str(proxy), profile))
        kept = KeptProfile(self.place.directory).read()
        return found if kept is None else [*found, kept]

    async def _ask(self, ask: Callable[[IRpcChannel], Any]) -> Any:
        return await self.place.ask(self.runtime, ask)

    async def adopt(
        self, store: IdentityStore, key: Any, answer: pb.SignInResponse
    ) -> SignedInPerson:
        """Store the certificate that Authority answered with, for the key that it is for.

        Only this much of a sign-in keeps others from the identity: a person may take long before.
        """
        with await held(self.runtime.reactor, store, self.show, "svc login"):
            return self._adopt(store, key, answer)

    def _adopt(self, store: IdentityStore, key: Any, answer: pb.SignInResponse) -> SignedInPerson:
        identity: TransportIdentity = adopt_identity(
            store,
            key,
            cluster=root_cluster(answer.root),
            pin=self.place.pin,
            root=answer.root,
            chain=tuple(answer.chain),
            roles=CALLERS,
            now=self.runtime.now,
        )
        cluster = identity.principal.cluster
        SignInFile(self.place.directory).write(float(answer.renew_until))
        OwnName(self.place.directory).write(identity.principal.id, answer.name)
        if self.place.writes_config:
            write_config(self.place.directory, cluster, self.place.proxies)
        return SignedInPerson(
            cluster=cluster,
            name=answer.name[:253],
            groups=tuple(answer.groups),
            not_after=identity.facts.not_after,
            renew_until=float(answer.renew_until),
        )


async def renew_sign_in(
    runtime: Runtime, place: SignInPlace, identity: TransportIdentity, csr: bytes
) -> RenewedSignIn:
    """The next certificate of a sign-in that the provider still confirms.

    Raises:
        SvcError: it does not, or somebody is not reached.
    """
    asked = _signed(runtime, identity, csr)
    request = pb.SignInRenewRequest(
        payload=asked.payload, signature=asked.signature, chain=asked.chain
    )
    answer = await place.ask(
        runtime,
        lambda channel: channel.unary(RENEW_METHOD, request, pb.SignInResponse, timeout=_CALL_SECS),
    )
    return RenewedSignIn(tuple(answer.chain), float(answer.renew_until))


async def end_sign_in(runtime: Runtime, place: SignInPlace, identity: TransportIdentity) -> None:
    """Have Authority end the sign-in that our certificate came by.

    Raises:
        SvcError: it came by none, or Authority is not reached.
    """
    asked = _signed(runtime, identity, b"")
    request = pb.SignInEndRequest(
        payload=asked.payload, signature=asked.signature, chain=asked.chain
    )
    await place.ask(
        runtime,
        lambda channel: channel.unary(
            END_METHOD, request, pb.SignInEndResponse, timeout=_CALL_SECS
        ),
    )


def _signed(runtime: Runtime, identity: TransportIdentity, csr: bytes) -> Signed:
    asked = pb.SignInRenewal(
        cluster=identity.principal.cluster, csr=csr, sent_at_ms=int(runtime.now() * 1000)
    )
    return identity.sign(Purpose.SIGN_IN_RENEWAL, asked.SerializeToString())
