"""The browser page of an Authority, wired: a listener on loopback, and what each page shows."""

from __future__ import annotations

from attrs import evolve
from twisted.internet.task import deferLater

from svc.authority.page.access import AccessPage
from svc.authority.page.browser import Browsers
from svc.authority.page.denials import DenialsPage
from svc.authority.page.listener import page_site
from svc.authority.page.pages import Pages
from svc.authority.page.proposals import ProposalsPage
from svc.authority.page.requests import RequestsPage
from svc.authority.page.sessions import EndSession, SessionsPage
from svc.authority.page.visitor import Visitors
from svc.authority.sessions.admin import SessionAdmin
from svc.authority.sessions.explain import Explainer
from svc.compose.authority.parts import Parts, engine_of
from svc.compose.authority.shared import SharedServices
from svc.compose.authority.sign_in_page import SignInListener, sign_in_listener
from svc.compose.listeners.addresses import server_endpoint
from svc.runtime.services import BoundPort
from svc.runtime.threads import in_pool


def page_listeners(
    p: Parts, rooms: SharedServices
) -> tuple[BoundPort | None, SignInListener | None]:
    """The page for people behind the gate, and the sign-in page under the public name.

    Raises:
        ConfigError: the public name's certificate is refused.
    """
    return _page_listener(p, rooms), sign_in_listener(p, rooms.accounts.passkeys)


def _page_listener(p: Parts, rooms: SharedServices) -> BoundPort | None:
    """The listener, where the configuration asks for one."""
    address = p.settings.page.listen
    if address is None:
        return None

    def host() -> str:
        return str(evolve(address, port=getattr(listener.bound, "port", address.port)))

    site = page_site(
        pages=_pages(p, rooms),
        host=host,
        is_on=lambda: p.serving.is_on,
        clock=p.runtime.reactor,
        tasks=p.tasks,
    )
    listener = BoundPort(
        key="page.listen",
        address=str(address),
        endpoint=server_endpoint(p.runtime.reactor, address),
        factory=site,
    )
    return listener


def _pages(p: Parts, rooms: SharedServices) -> Pages:
    now, cluster = p.runtime.now, p.settings.cluster
    sessions = SessionAdmin(
        store=p.store,
        recorder=p.recorder,
        asked=rooms.ends.asked,
        publish=rooms.publisher.beat,
        peers=rooms.peers,
    )
    visitors = Visitors(
        cluster=cluster,
        resource=p.settings.page.resource,
        state_cache=rooms.state_cache,
        store=p.store,
        verify=rooms.identities.token_keys.verify,
        now=now,
    )
    return Pages(
        resource=p.settings.page.resource,
        visitors=visitors,
        browsers=Browsers(p.runtime.reactor.seconds, p.runtime.entropy),
        pages=(
            _access_page(p, rooms),
            DenialsPage(p.store, _explainer(p, rooms)),
            RequestsPage(rooms.access.requests),
            SessionsPage(p.store, rooms.operators),
            ProposalsPage(rooms.changing.reviews, rooms.operators, in_pool(p.runtime.reactor)),
        ),
        actions=(EndSession(sessions, rooms.operators),),
    )


def _access_page(p: Parts, rooms: SharedServices) -> AccessPage:
    return AccessPage(
        state_cache=rooms.state_cache,
        engine=engine_of(rooms.policy),
        kinds=p.kinds.by_name,
        offers=rooms.access.offers,
        is_served=rooms.peers.registrations.is_served,
        now=p.runtime.now,
        pause=lambda: deferLater(p.runtime.reactor, 0),
    )


def _explainer(p: Parts, rooms: SharedServices) -> Explainer:
    return Explainer(
        cluster=p.settings.cluster,
        state_cache=rooms.state_cache,
        engine=engine_of(rooms.policy),
        kinds=p.kinds.by_name,
        store=p.store,
        verifier=p.identity.verifier,
        now=p.runtime.now,
        reasons=rooms.reasons,
    )
