"""``svc login`` behind its options: signs a person in and stores the identity.

The key is made here and never leaves; Authority knows it from the first message
on (rule R35).  Everything that is said to Authority passes a Proxy as
ciphertext only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from svc import __version__
from svc.config import Address
from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.join.channel import PinnedCluster, ask_authority
from svc.join.loopback import LoopbackRedirect, ended_words
from svc.join.person import check_pin, write_config
from svc.model.certificate import CertificateRefused
from svc.model.principal import Role
from svc.model.signing import Purpose, Signed
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import der, make_request
from svc.pki.join import adopt_identity
from svc.pki.verify import ChainVerifier, ca_pin, root_cluster
from svc.proto.gate.v1 import sign_in_pb2 as pb
from svc.runtime.context import Runtime
from svc.runtime.services import bounded
from svc.telemetry.escape import escaped

PROFILE_METHOD = "/gate.v1.SignIn/Profile"
BEGIN_METHOD = "/gate.v1.SignIn/Begin"
COMPLETE_METHOD = "/gate.v1.SignIn/Complete"
_CALL_SECS = 25.0

Show = Callable[[str], object]
"""Shows a line to the person, at once."""


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


@frozen
class SignedInPerson:
    """What ``svc login`` came to."""

    cluster: str
    name: str
    groups: tuple[str, ...]
    not_after: float
    renew_until: float


@frozen
class MachineSignIn:
    """One sign-in from this machine."""

    runtime: Runtime
    place: SignInPlace
    show: Show

    async def by_browser(self, open_browser: Callable[[str], object] | None) -> SignedInPerson:
        """Sign in with a browser on this machine.

        Args:
            open_browser: Opens a URL; None: the person does.

        Raises:
            SvcError: refused, denied or not reached; nothing was replaced.
        """
        store = IdentityStore(self.place.directory)
        key = store.pending_key()
        loopback = LoopbackRedirect(self.runtime.reactor)
        refusal: SvcError | None = None
        name = ""
        try:
            port = await loopback.listen()
            begun = await self._begin(make_request(key), "code", port)
            loopback.expect(begun.state)
            self._show_begin(begun, open_browser)
            query = await bounded(
                self.runtime.reactor, float(begun.expires_in), loopback.query, "the sign-in"
            )
            asked = pb.SignInCompleteRequest(attempt=begun.attempt, query=query)
            answer = await self._ask(
                lambda channel: channel.unary(
                    COMPLETE_METHOD, asked, pb.SignInResponse, timeout=_CALL_SECS
                )
            )
            signed_in = self._adopt(store, key, answer)
            name = signed_in.name
            return signed_in
        except SvcError as failed:
            refusal = failed
            raise
        finally:
            await loopback.close(ended_words(refusal, name))

    def _show_begin(
        self, begun: pb.SignInBeginResponse, open_browser: Callable[[str], object] | None
    ) -> None:
        self.show(f"Sign in at {escaped(begun.issuer)}; if no browser opens, open this address:")
        self.show(escaped(begun.url))
        if open_browser is not None:
            open_browser(begun.url)

    async def _begin(self, csr: bytes, flow: str, port: int = 0) -> pb.SignInBeginResponse:
        asked = pb.SignInBeginRequest(
            csr=csr,
            flow=flow,
            port=port,
            version=__version__,
            sent_at_ms=int(self.runtime.now() * 1000),
        )

        async def begin(channel: IRpcChannel) -> pb.SignInBeginResponse:
            profile = await self._profile(channel)
            begun = await channel.unary(
                BEGIN_METHOD, asked, pb.SignInBeginResponse, timeout=_CALL_SECS
            )
            if begun.issuer != profile.issuer:
                raise SvcError(
                    "the Authority begins a sign-in at another provider than its profile names",
                    reason="provider_issuer",
                    fault=Fault.DENIED,
                )
            return begun

        found: pb.SignInBeginResponse = await self._ask(begin)
        return found

    async def _profile(self, channel: IRpcChannel) -> pb.SignInProfile:
        """The signed profile; the signature is Authority's whoever passed it on."""
        answer = await channel.unary(
            PROFILE_METHOD, pb.SignInProfileRequest(), pb.SignInProfileResponse, timeout=_CALL_SECS
        )
        root = der(channel.peer.chain[-1])
        if ca_pin(root) != self.place.pin:
            raise CertificateRefused("the server presents a different root from the pinned one")
        verifier = ChainVerifier(root_cluster(root), root, self.runtime.now)
        signed = Signed(answer.profile, answer.signature, tuple(answer.chain))
        verifier.verify_signed(signed, Purpose.SIGN_IN_PROFILE)
        profile = pb.SignInProfile.FromString(answer.profile)
        if profile.cluster != verifier.cluster:
            raise CertificateRefused("the profile is of another cluster")
        return profile

    async def _ask(self, ask: Callable[[IRpcChannel], Any]) -> Any:
        place = self.place
        pinned = PinnedCluster(check_pin(place.pin), "", self.runtime.now)
        asked = ask_authority(self.runtime, pinned, place.proxies, place.authority, ask)
        return await bounded(
            self.runtime.reactor, 2 * _CALL_SECS, Deferred.fromCoroutine(asked), "signing in"
        )

    def _adopt(self, store: IdentityStore, key: Any, answer: pb.SignInResponse) -> SignedInPerson:
        identity: TransportIdentity = adopt_identity(
            store,
            key,
            cluster=root_cluster(answer.root),
            pin=self.place.pin,
            root=answer.root,
            chain=tuple(answer.chain),
            roles=frozenset({Role.USER}),
            now=self.runtime.now,
        )
        cluster = identity.principal.cluster
        if self.place.writes_config:
            write_config(self.place.directory, cluster, self.place.proxies)
        return SignedInPerson(
            cluster=cluster,
            name=answer.name[:253],
            groups=tuple(answer.groups),
            not_after=identity.facts.not_after,
            renew_until=float(answer.renew_until),
        )
