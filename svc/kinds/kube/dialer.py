r"""At the Connector: how the API server is reached, and as whom a person's requests get there.

Keys of a resource's table::

    address = "10.0.0.1:6443"
    ca_file = "/etc/svc/cluster-ca.pem"
    token_file = "/etc/svc/cluster-token"     # the Connector's own credential
    token_is_mounted = false                  # others may read it: an orchestrator mounted it

and those of :mod:`svc.kinds.kube.impersonation`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import define, evolve, field, frozen
from twisted.internet.interfaces import IReactorTCP, IStreamClientEndpoint
from zope.interface import implementer

from svc.errors import ConfigError, SvcError
from svc.interfaces.kinds import IPersonalDialer
from svc.kinds.address import split_address
from svc.kinds.kube.impersonation import (
    IDENTITY_KEYS,
    ClusterIdentities,
    read_identities,
    without_identity,
)
from svc.kinds.kube.operations import operations_of
from svc.kinds.kube.request import PROTOCOLS
from svc.kinds.kube.status import status
from svc.kinds.web.answers import json_answer, plain, without_body
from svc.kinds.web.dialer import RequestsEndpoint, WebDialer
from svc.kinds.web.head import HttpRequest, Protocols
from svc.kinds.web.reader import WebRequests
from svc.kinds.web.rewrite import ChangeFields, Fields
from svc.model.cluster.target import Target
from svc.runtime.given_file import read_secret

_OWN_KEYS = frozenset({"token_file", "token_is_mounted"}) | IDENTITY_KEYS
_MOST_TOKEN = 16384
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=\-]{1,%d}\Z" % _MOST_TOKEN)
_LOOPBACK = ("127.0.0.1", "::1")


@frozen(kw_only=True)
class Impersonation:
    """Makes a person's requests the Connector's own, in the name of the person.

    Attributes:
        token_file: Of the Connector's credential; read for each connection, since tokens rotate.
        is_mounted: Others may read it.
        said: The header fields that say who the person is.
    """

    token_file: str
    is_mounted: bool
    said: Fields

    def change(self) -> ChangeFields:
        """What becomes of header fields.  Reads the file.

        Raises:
            SvcError: ``no_credential``.
        """
        token = b"Bearer " + _token(self.token_file, self.is_mounted)
        own = ((b"Authorization", token), *self.said)
        return lambda fields: (*without_identity(fields), *own)


def _token(path: str, is_mounted: bool) -> bytes:
    try:
        found = read_secret(Path(path), _MOST_TOKEN + 2, mounted=is_mounted).strip()
    except OSError as error:
        raise SvcError(f"{path}: {error.strerror}", reason="no_credential") from None
    if not _TOKEN.match(found):
        raise SvcError(f"{path} does not hold one bearer token", reason="no_credential")
    return found


@define
class KubeRequests(WebRequests):
    """Reads the requests of one connection, which may ask for SPDY too."""

    protocols: Protocols = PROTOCOLS


def _refusal(error: SvcError, head: HttpRequest, session_uid: str = "") -> bytes:
    """As the API server refuses."""
    answer = json_answer("403 Forbidden", status(403, "Forbidden", plain(error.text)))
    return without_body(answer) if head.method == b"HEAD" else answer


@implementer(IPersonalDialer)
@frozen(kw_only=True)
class KubeDialer(WebDialer):
    """Reaches an API server, and impersonates.

    Attributes:
        person_id: Whose sessions it dials; empty: nobody's, and it dials none.
    """

    person_id: str = field(default="")
    requests: type[WebRequests] = KubeRequests
    operations_of: Callable[[HttpRequest], tuple[str, ...]] = operations_of
    refuse: Callable[..., bytes] = _refusal

    def of(self, person_id: str) -> KubeDialer:
        """See IPersonalDialer."""
        return evolve(self, person_id=person_id)

    def parse(self, resource_id: str, table: Mapping[str, object], path: str) -> Target:
        """A target with its credential by reference, and as whom people come there."""
        if "identity" in table:
            raise ConfigError(f"{path}.identity", "an API server is told by impersonation instead")
        rest = {key: value for key, value in table.items() if key not in _OWN_KEYS}
        tls = {"tls": "verify", **rest}
        target = super().parse(resource_id, tls, path)
        if target.options["tls"] != "verify" and not _is_loopback(target.address):
            raise ConfigError(f"{path}.tls", "may be off only for 127.0.0.1 and ::1")
        token_file = table.get("token_file")
        if not isinstance(token_file, str) or not token_file.startswith("/"):
            raise ConfigError(f"{path}.token_file", "must be the whole path of a bearer token")
        is_mounted = table.get("token_is_mounted", False)
        if not isinstance(is_mounted, bool):
            raise ConfigError(f"{path}.token_is_mounted", "must be true or false")
        options = {
            "token_file": token_file,
            "token_is_mounted": is_mounted,
            "identities": read_identities(table, path),
        }
        return evolve(target, options={**target.options, **options})

    def endpoint(
        self, reactor: IReactorTCP, target: Target, ceiling: Mapping[str, str]
    ) -> IStreamClientEndpoint:
        """Every request goes in the person's name, under the Connector's credential."""
        if not self.person_id:
            raise SvcError("nobody is named whose session this is", reason="no_credential")
        below = super().endpoint(reactor, target, ceiling)
        assert isinstance(below, RequestsEndpoint)
        identities = target.options["identities"]
        assert isinstance(identities, ClusterIdentities)
        acting = Impersonation(
            token_file=str(target.options["token_file"]),
            is_mounted=bool(target.options["token_is_mounted"]),
            said=identities.fields(self.person_id),
        )
        return evolve(below, change=acting.change, protocols=PROTOCOLS)


def _is_loopback(address: str) -> bool:
    return split_address(address)[0] in _LOOPBACK


DIALER = KubeDialer(kind="kube", default_port=443)
