"""Signing in at an identity provider, wired."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

from cryptography import x509
from twisted.internet.interfaces import IReactorTime
from twisted.internet.ssl import Certificate, trustRootFromCertificates
from twisted.web.client import Agent, HTTPConnectionPool

from svc.authority.refusals import RefusalRecords
from svc.authority.signin.admission import SignInAdmission
from svc.authority.signin.assertion import TakenAssertions
from svc.authority.signin.attempts import Attempts, Flow
from svc.authority.signin.device import DeviceSignIns
from svc.authority.signin.entrance import Entrance, SignInRules
from svc.authority.signin.http import ProviderHttp
from svc.authority.signin.id_token import LEEWAY_SECS
from svc.authority.signin.platforms import AgentAssertions, Platforms
from svc.authority.signin.provider import Provider
from svc.authority.signin.reach import ProviderReach, ReachableEndpoints
from svc.authority.signin.renewal import LocalAccounts, SignInRenewals
from svc.authority.signin.service import FORGET_SECS, SignInService
from svc.authority.state.cache import ClusterStateCache
from svc.compose.authority.parts import Parts
from svc.config.values import OidcSettings
from svc.errors import ConfigError
from svc.model.signing import Purpose
from svc.pki.credentials import load_credential_seal
from svc.pki.issue import der
from svc.proto.gate.v1 import sign_in_pb2 as pb
from svc.runtime.services import PeriodicTask


def sign_in_entrance(
    p: Parts, state_cache: ClusterStateCache, refusals: RefusalRecords
) -> Entrance:
    """Wire it.  Blocks for keys and certificates; called before the reactor runs.

    Raises:
        ConfigError: the provider's authorities, or the key of sealed credentials, are refused.
    """
    runtime, oidc, cluster = p.runtime, p.settings.oidc, p.settings.cluster
    admission = SignInAdmission(
        cluster=cluster,
        issuer=p.issuer,
        recorder=p.recorder,
        seal=load_credential_seal(p.state / "keys", runtime.entropy),
        now=runtime.now,
        entropy=runtime.entropy,
        create_persons=oidc.create_persons,
        name_claim=oidc.name_claim,
        renew_secs=float(oidc.renew_secs),
    )
    return Entrance(
        provider=_provider(p, oidc),
        rules=_rules(cluster, oidc),
        admission=admission,
        issuer=p.issuer,
        state_cache=state_cache,
        store=p.store,
        recorder=p.recorder,
        refusals=refusals,
    )


def sign_in_service(
    p: Parts, entrance: Entrance, attempts: Attempts, local: LocalAccounts
) -> SignInService:
    """Wire it.

    Args:
        local: Confirms sign-ins of accounts that are kept here.
    """
    runtime = p.runtime
    taken = _taken(p)
    platforms = Platforms(_http(p, p.settings.oidc), runtime.now)
    return SignInService(
        entrance=entrance,
        attempts=attempts,
        devices=DeviceSignIns(entrance, attempts, runtime.reactor),
        renewals=SignInRenewals(
            entrance=entrance, verifier=p.identity.verifier, now=runtime.now, local=local
        ),
        taken=taken,
        agents=AgentAssertions(
            entrance=entrance, platforms=platforms, taken=taken, now=runtime.now
        ),
        sign_profile=p.keys.signer(Purpose.SIGN_IN_PROFILE),
        now=runtime.now,
        clock=runtime.reactor,
    )


def forgetting(sign_ins: SignInService, clock: IReactorTime) -> PeriodicTask:
    """Forgets what sign-ins that have ended left in memory."""
    return PeriodicTask(
        clock=clock,
        interval=FORGET_SECS,
        call=sign_ins.forget_ended,
        what="forget sign-ins that have ended",
        at_once=False,
    )


def _taken(p: Parts) -> TakenAssertions:
    """Begins when we lead: a standby is wired long before."""
    # Where others may have led, a token that they took may bear a time of theirs.
    taken = TakenAssertions(p.runtime.now, LEEWAY_SECS if p.opened.is_shared else 0.0)
    p.leadership.on_change(lambda lease: None if lease is None else taken.begin())
    return taken


def _rules(cluster: str, oidc: OidcSettings) -> SignInRules:
    device = oidc.device
    return SignInRules(
        cluster=cluster,
        flows=frozenset(map(Flow, oidc.flows)),
        scopes=oidc.scopes,
        extra_params=oidc.extra_params,
        groups_claim=oidc.groups_claim,
        profile=_profile(cluster, oidc),
        pending_errors=device.pending_errors,
        interval=device.interval,
        expires_in=device.expires_in,
    )


def _provider(p: Parts, oidc: OidcSettings) -> Provider | None:
    if oidc.issuer is None or oidc.client_id is None:
        return None
    return Provider(
        issuer=oidc.issuer,
        client_id=oidc.client_id,
        http=_http(p, oidc),
        clock=p.runtime.reactor,
        now=p.runtime.now,
    )


def _http(p: Parts, oidc: OidcSettings) -> ProviderHttp:
    """Reaches providers, and platforms of agents, where the configuration allows it."""
    reactor = p.runtime.reactor
    endpoints = ReachableEndpoints(
        reactor=reactor,
        reach=ProviderReach(tuple(ip_network(text) for text in oidc.reach)),
        trust=None if oidc.ca_file is None else _authorities(Path(oidc.ca_file)),
    )
    # A connection for each request: there are few, and none is held open to somebody else's server.
    pool = HTTPConnectionPool(reactor, persistent=False)
    return ProviderHttp(Agent.usingEndpointFactory(reactor, endpoints, pool), reactor)


def _authorities(path: Path) -> object:
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        what = (error.strerror or "unreadable").lower()
        raise ConfigError("oidc.ca_file", f"{path}: cannot be read: {what}") from None
    except ValueError:
        raise ConfigError("oidc.ca_file", f"{path}: holds no certificate") from None
    return trustRootFromCertificates([Certificate.load(der(one)) for one in found])


def _profile(cluster: str, oidc: OidcSettings) -> bytes:
    """What anybody may know; these bytes are what is signed."""
    profile = pb.SignInProfile(cluster=cluster)
    if oidc.issuer is not None and oidc.client_id is not None:
        profile = pb.SignInProfile(
            cluster=cluster,
            issuer=oidc.issuer,
            client_id=oidc.client_id,
            scopes=oidc.scopes,
            extra_params=oidc.extra_params,
            groups_claim=oidc.groups_claim or "",
            pending_errors=oidc.device.pending_errors,
            interval=oidc.device.interval or 0,
            expires_in=oidc.device.expires_in or 0,
        )
    return profile.SerializeToString(deterministic=True)
