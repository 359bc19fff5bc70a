"""The Connector's own SSH: checks the target's host key, and logs in with a key.

The key is a stored one, or that of this process with Authority's certificate for it.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import Any

from attrs import field, frozen
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import SSHCertificate, load_ssh_public_identity
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import SvcError
from svc.interfaces.kinds import Use
from svc.kinds.ssh.channels import JoinedChannel
from svc.kinds.ssh.conch import QUIET, Key, SSHClientTransport, SSHUserAuthClient
from svc.kinds.ssh.connection import FlowConnection, prohibited
from svc.kinds.ssh.rights import AGENT, FORWARD_REMOTE, STREAM_LOCAL, X11, SessionRights
from svc.kinds.ssh.transport import StrictTransport

_log = Logger(namespace="svc_connector")

_TO_CLIENT = {
    b"forwarded-tcpip": FORWARD_REMOTE,
    b"forwarded-streamlocal@openssh.com": STREAM_LOCAL,
    b"auth-agent@openssh.com": AGENT,
    b"x11": X11,
}


CERTIFICATE_TYPE = b"ssh-ed25519-cert-v01@openssh.com"


@frozen(kw_only=True)
class TargetLogin:
    """How to log in at a target.

    Attributes:
        user: The account.
        key: The private key.
        host_keys: Those the target may show, as blobs by their types.
        certificate: Of the key, as SSH sends it; empty: the target knows the key itself.
    """

    user: str
    key: Key = field(repr=False)  # Conch shows all of a private key
    host_keys: tuple[Key, ...]
    certificate: bytes = b""


class HostConnection(FlowConnection):
    """What the target asks for.

    Attributes:
        client: The person's connection, once it is there.
    """

    client: FlowConnection | None = None

    def __init__(self, rights: SessionRights, use: Use, ready: Deferred[HostConnection]) -> None:
        super().__init__()
        self._rights = rights
        self._use = use
        self._ready = ready

    def serviceStarted(self) -> None:
        """We are logged in."""
        transport: Any = self.transport
        self.outflow = transport.outflow
        if not self._ready.called:
            self._ready.callback(self)

    def opened(self, kind: bytes, data: bytes) -> JoinedChannel:
        """See FlowConnection."""
        right = _TO_CLIENT.get(kind)
        if right is None or self.client is None or self.client.transport is None:
            raise prohibited("there are no channels of this type here")
        if not self._rights.has(right):
            self._use(right, False)
            raise prohibited("not allowed in this session")
        if right not in self.awaited:
            raise prohibited("the client has not asked for this")
        return JoinedChannel(kind).joined_with(JoinedChannel(kind), self.client, data)


class OnwardTransport(StrictTransport, SSHClientTransport):  # type: ignore[misc]
    """The transport that speaks to the target.

    Attributes:
        ready: Fires with the connection once we are logged in.
        gone: Told when it is over.
    """

    ourVersionString = b"SSH-2.0-svc"

    def __init__(self, login: TargetLogin, rights: SessionRights, use: Use, outflow: Any) -> None:
        self.login = login
        self.outflow = outflow
        self.ready: Deferred[HostConnection] = Deferred()
        self.gone: Any = lambda: None
        self._connection = HostConnection(rights, use, self.ready)
        self._fault: SvcError | None = None
        self._is_secure = False
        self.supportedPublicKeys = [
            name for key in login.host_keys for name in key.supportedSignatureAlgorithms()
        ]

    def connectionMade(self) -> None:
        """Heed the target's pace."""
        transport: Any = self.transport
        transport.registerProducer(self.outflow, True)
        super().connectionMade()

    def dataReceived(self, data: bytes) -> None:
        """What cannot be read ends it."""
        try:
            super().dataReceived(data)
        except Exception as error:
            _log.warn("a target's SSH cannot be read: {kind}", kind=type(error).__name__)
            _log.debug("it was read here: {trace}", trace=Failure().getTraceback())
            transport: Any = self.transport
            transport.abortConnection()

    def verifyHostKey(self, hostKey: bytes, fingerprint: bytes) -> Deferred[bool]:
        """Take one of the configured keys and nothing else."""
        if any(hostKey == key.blob() for key in self.login.host_keys):
            return succeed(True)
        self._fault = SvcError(
            f"the target shows another host key than host_keys names: {fingerprint!r}",
            reason="target_untrusted",
        )
        return fail(self._fault)

    def connectionSecure(self) -> None:
        """Log in, with the first keys: Conch says this of each that are made."""
        if self._is_secure:
            return
        self._is_secure = True
        self.requestService(_KeyAuth(self.login, self._connection))

    def receiveError(self, reasonCode: int, description: bytes) -> None:
        """The target leaves, and says why: nobody is told its words."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It is over."""
        super().connectionLost(reason)
        self._connection.transport = None
        self.outflow.stopProducing()
        if not self.ready.called:
            self.ready.errback(self._fault or self._refusal())
        self.gone()

    def _refusal(self) -> SvcError:
        if not self._is_secure:
            return SvcError("no SSH could be agreed on with the target", reason="target_refused")
        means = "the stored key"
        if self.login.certificate:
            means = (
                "the certificate of onward_ssh; in its sshd_config, TrustedUserCAKeys must name a "
                "file with the output of `svc authority ca export onward_ssh`, "
                "AuthorizedPrincipalsFile, where it is set, this account, and its clock be right"
            )
        return SvcError(
            f"the target does not let {self.login.user} in by {means}",
            reason="target_login_refused",
        )


class CertifiedKey(Key):  # type: ignore[misc]
    """The public half of a key, named and sent as its certificate."""

    certificate: bytes = b""

    def sshType(self) -> bytes:
        """What is asked for."""
        return CERTIFICATE_TYPE

    def blob(self) -> bytes:
        """What is sent for the key."""
        return self.certificate


def is_certified(key: Any, certificate: bytes) -> bool:
    """Whether this is a certificate for the public half of this Ed25519 key."""
    try:
        found = load_ssh_public_identity(
            CERTIFICATE_TYPE + b" " + b2a_base64(certificate, newline=False)
        )
    except (ValueError, UnsupportedAlgorithm):
        return False
    return isinstance(found, SSHCertificate) and found.public_key() == key.public_key()


class _KeyAuth(SSHUserAuthClient):  # type: ignore[misc]
    """Offers the one key, once."""

    _log = QUIET
    preferredOrder = [b"publickey"]

    def __init__(self, login: TargetLogin, connection: FlowConnection) -> None:
        super().__init__(login.user.encode("ascii"), connection)
        self._key: Key | None = login.key
        self._login = login

    def tryAuth(self, kind: bytes) -> Any:
        """No other method than the key."""
        return super().tryAuth(kind) if kind == b"publickey" else None

    def getPublicKey(self) -> Key | None:
        """Called by Conch."""
        key, self._key = self._key, None
        if key is None or not self._login.certificate:
            return None if key is None else key.public()
        shown = CertifiedKey(key.public()._keyObject)
        shown.certificate = self._login.certificate
        return shown

    def getPrivateKey(self) -> Deferred[Key]:
        """Called by Conch."""
        return succeed(self._login.key)
