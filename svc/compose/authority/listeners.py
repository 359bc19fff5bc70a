"""The listeners of an Authority: each serves one service to one type of caller (rule R18)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from attrs import define, frozen

from svc import __version__
from svc.authority.accounts.service import LocalSignInService
from svc.authority.control import FORWARDED, ControlService
from svc.authority.discovery.service import Discovery
from svc.authority.enroll.bootstrap import Enrollment
from svc.authority.enroll.renew import NodeRenewal
from svc.authority.ha.forward import ForwardedMethod
from svc.authority.signin.service import SignInService
from svc.compose.authority.parts import Parts
from svc.compose.authority.peers import Peers, serve_private
from svc.compose.authority.session_services import session_services
from svc.compose.authority.shared import SharedServices
from svc.compose.listeners.rpc import RpcListener, rpc_listener, rpc_server
from svc.interfaces.rpc import Admit, Peer, RpcService
from svc.messages.control import AuthorityGreeting
from svc.messages.forward import LEADER_METHOD
from svc.model.principal import NODE_ROLES, Role
from svc.pki.tls import ClientCertificates, server_context
from svc.rpc.server.server import RpcServerFactory


def made_listeners(p: Parts) -> dict[str, RpcListener]:
    """Those that the configuration asks for, by their names in ``listening.json``."""
    ends = p.settings.endpoints
    wanted = {
        "control": ("endpoints.control_listen", ends.control_listen),
        "join": ("endpoints.join_listen", ends.join_listen),
        "renewal": ("endpoints.renewal_listen", ends.renewal_listen),
        "admin": ("endpoints.admin_listen", ends.admin_listen),
        "private": ("endpoints.private_listen", ends.private_listen),
    }
    return {
        name: rpc_listener(p.runtime, p.settings, key, address)
        for name, (key, address) in wanted.items()
        if address is not None
    }


def lanes_of(p: Parts, listeners: Mapping[str, RpcListener]) -> AuthorityGreeting:
    """What this Authority says of itself to a Proxy that greets it."""

    def port(name: str) -> int:
        listener = listeners.get(name)
        return 0 if listener is None else getattr(listener.listener.bound, "port", 0)

    return AuthorityGreeting(
        cluster=p.settings.cluster,
        authority_id=p.identity.principal.id,
        version=__version__,
        join_port=port("join"),
        renewal_port=port("renewal"),
        admin_port=port("admin"),
    )


@frozen
class Administration:
    """What the admin listener serves.

    Attributes:
        admit: Refuses everybody but people whose certificate is good at this call.
    """

    service: RpcService
    admit: Admit


@define
class ListenerGates:
    """Gives each listener what it serves, while we lead and until then."""

    parts: Parts
    peers: Peers
    listeners: Mapping[str, RpcListener]

    def open(
        self,
        control: ControlService,
        enrollment: Enrollment,
        sign_ins: SignInService,
        accounts: LocalSignInService,
        renewals: NodeRenewal,
        rooms: SharedServices,
        discovery: Discovery,
        administration: Administration,
    ) -> None:
        """Serve from the start of the listeners on."""
        p, required = self.parts, ClientCertificates.REQUIRED
        proxies = self._shown({Role.PROXY})
        if "control" in self.listeners:
            server = self._server(
                "control",
                [control.service()],
                control.admit,
                dict.fromkeys(FORWARDED, proxies),
                [self.peers.leader],
                {LEADER_METHOD: proxies},
            )
            tls = server_context(p.identity, required, roles={Role.PROXY})
            self.listeners["control"].late.serve(server, tls)
        if "join" in self.listeners:
            services = [enrollment.service(), sign_ins.service(), accounts.service()]
            methods = dict.fromkeys(_names(*services), enrollment.admit)
            server = self._server("join", services, enrollment.admit, methods)
            tls = server_context(p.identity, ClientCertificates.NONE, send_root=True)
            self.listeners["join"].late.serve(server, tls)
        if "renewal" in self.listeners:
            services = [renewals.service(), *session_services(p, rooms), discovery.service()]
            self._open_renewal(services, renewals.admit)
        if "admin" in self.listeners:
            self._open_admin(administration)
        if "private" in self.listeners:
            serve_private(
                p, self.peers, control.health, rooms.keys.roots, self.listeners["private"]
            )

    def _open_renewal(self, services: Sequence[RpcService], admit: Admit) -> None:
        forwarded = dict.fromkeys(_names(*services), self._shown(NODE_ROLES))
        server = self._server("renewal", services, admit, forwarded)
        tls = server_context(self.parts.identity, ClientCertificates.REQUIRED, roles=NODE_ROLES)
        self.listeners["renewal"].late.serve(server, tls)

    def _open_admin(self, administration: Administration) -> None:
        service = administration.service
        forwarded = dict.fromkeys(_names(service), self._shown({Role.USER}))
        server = self._server("admin", [service], administration.admit, forwarded)
        tls = server_context(self.parts.identity, ClientCertificates.REQUIRED, roles={Role.USER})
        self.listeners["admin"].late.serve(server, tls)

    def _server(
        self,
        name: str,
        services: Sequence[RpcService],
        admit: Admit,
        forwarded: Mapping[str, Admit],
        more: Iterable[RpcService] = (),
        meanwhile: Mapping[str, Admit] | None = None,
    ) -> RpcServerFactory:
        """A server of what one type of caller asks for.

        Args:
            forwarded: The methods that are forwarded until it is our turn, with their admission
                at us then; the leader has the last word.
            more: Served beside it.
            meanwhile: What of that is answered until then, likewise.
        """
        p, peers = self.parts, self.peers
        serves = {
            f"/{one.name}/{name}": serve for one in services for name, serve in one.methods.items()
        }
        for method in forwarded:
            peers.forwarded.methods[method] = ForwardedMethod(admit, serves[method])
        both = [p.serving.forwarded(one, forwarded, peers.forwarding.serve) for one in services]
        return rpc_server(
            p.runtime,
            p.settings,
            [*both, *more],
            p.serving.guarded(admit, {**forwarded, **(meanwhile or {})}),
            listener=f"endpoints.{name}_listen",
        )

    def _shown(self, roles: Set[Role]) -> Admit:
        """Admits whoever shows a certificate of these roles that is good now (R13)."""
        verifier = self.parts.identity.verifier

        def admit(_method: str, peer: Peer) -> None:
            verifier.verify(peer.chain, roles)

        return admit


def _names(*services: RpcService) -> list[str]:
    return [f"/{service.name}/{name}" for service in services for name in service.methods]
