"""The page over an Authority in memory, and persons whose sessions it is opened in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

from svc.authority.access.offer import AccessOffers
from svc.authority.enroll.token_keys import TokenKeys
from svc.authority.page.access import AccessPage
from svc.authority.page.browser import COOKIE, Browsers
from svc.authority.page.denials import DenialsPage
from svc.authority.page.pages import Answer, IncomingRequest, Pages
from svc.authority.page.proposals import ProposalsPage
from svc.authority.page.requests import RequestsPage
from svc.authority.page.sessions import EndSession, SessionsPage
from svc.authority.page.visitor import Visitors
from svc.authority.policy.proposed.review import PolicyReview
from svc.authority.sessions.admin import SessionAdmin
from svc.authority.sessions.explain import Explainer
from svc.messages.session import decode_grant, decode_request
from svc.model.canonical import Json
from svc.model.cluster.resource import Resource
from svc.model.policy.rules import PolicyRules
from svc.model.session.identity import Identity, Named
from svc.runtime.threads import inline
from tests.authority.changing import proposals
from tests.authority.house import ADA, KINDS, POLICY, Holder, House, value_of
from tests.pki.support import CLUSTER
from tests.support.nothing import nothing, nothing_later

PAGE = "svc-page"
HOST = "127.0.0.1:7405"
ORIGIN = b"http://svc-page-abcdefghijklmnop.localhost:12345"
FOR_ALL = """
@id("page-for-all")
permit (principal, action in [Action::"view", Action::"tcpConnect"],
        resource == TcpService::"svc-page");
"""
MANAGER = f"""
@id("ada-manages")
permit (principal == User::"{ADA}", action == Action::"manageSessions", resource is Cluster);
"""


class PageHouse:
    """An Authority that serves the page."""

    def __init__(self, policy: str = POLICY + FOR_ALL) -> None:
        self.house = House(policy)
        house = self.house
        page = Resource(id=PAGE, kind="tcp", labels={}, assigned_to=house.connector.id)
        house.run(lambda tx: tx.catalog.add(page, 1.0))
        house.refresh()
        house.serve("db1", "prod1", "host1", PAGE)
        self.issuance = house.issuance()
        self.hashes: dict[str, bytes] = {}
        self.keys = TokenKeys(house.world.keys, house.now, nothing_later)
        self.ends, self.published = house.ends(), 0
        self.browsers = Browsers(house.clock.seconds, house.entropy)
        self.operators = house.operators(0)
        self.requests = house.requests()
        self.proposals = proposals(house, PolicyRules(approvals=1))
        self.offers = AccessOffers(
            approvals=house.approvals(), now=house.now, max_secs=3600, on_event=nothing
        )
        self.pages = self._pages()

    def engine(self) -> Any:
        """The policy in force."""
        return self.house.policy.engine

    def _publish(self) -> None:
        self.published += 1

    def _pages(self) -> Pages:
        house = self.house
        explainer = Explainer(
            cluster=CLUSTER,
            state_cache=house.state_cache,
            engine=self.engine,
            kinds=KINDS,
            store=house.store,
            verifier=house.world.verifier,
            now=house.now,
            reasons=house.reasons(),
        )
        access = AccessPage(
            state_cache=house.state_cache,
            engine=self.engine,
            kinds=KINDS,
            offers=self.offers,
            is_served=house.registrations.is_served,
            now=house.now,
            pause=nothing_later,
        )
        admin = SessionAdmin(
            store=house.store,
            recorder=house.recorder,
            asked=self.ends.asked,
            publish=self._publish,
            peers=house.peers,
        )
        visitors = Visitors(
            cluster=CLUSTER,
            resource=PAGE,
            state_cache=house.state_cache,
            store=house.store,
            verify=self.keys.verify,
            now=house.now,
        )
        return Pages(
            resource=PAGE,
            visitors=visitors,
            browsers=self.browsers,
            pages=(
                access,
                DenialsPage(house.store, explainer),
                RequestsPage(self.requests),
                SessionsPage(house.store, self.operators),
                ProposalsPage(PolicyReview(self.proposals), self.operators, inline),
            ),
            actions=(EndSession(admin, self.operators),),
        )

    def opened(self, person: Holder, resource: str = PAGE, **fields: Any) -> str:
        """A session of a person; its uid."""
        ask = self.house.ask(person, resource, **fields)
        answer = value_of(self.issuance.authorize(ask, self.house.row(self.house.proxy)))
        assert answer.grant is not None, answer
        uid = decode_request(ask.request).session_uid
        self.hashes[uid] = decode_grant(answer.grant.payload).audit_hash
        return uid

    def claims(self, person_id: str, uid: str, **changed: Json) -> Mapping[str, Json]:
        """What a Connector's token says of a session."""
        audience = self.house.state_cache.state.catalog[PAGE].identity
        identity = Identity(
            cluster=CLUSTER,
            audience=audience,
            person=Named(person_id, "anybody"),
            session_uid=uid,
            decision_id="0" * 32,
            audit_hash=self.hashes[uid],
        )
        said = {**identity.claims("1" * 32, self.house.now()), **changed}
        return {name: value for name, value in said.items() if value is not None}

    def token(self, person_id: str, uid: str, **changed: Json) -> bytes:
        """That token, signed."""
        return self.keys.sign(self.claims(person_id, uid, **changed)).encode()


class Guest:
    """A person's browser, whose requests come through the gate."""

    def __init__(self, stage: PageHouse, holder: Holder) -> None:
        self.stage, self.holder = stage, holder
        self.uid = stage.opened(holder)
        self.cookie = b""

    def ask(self, method: str, target: str, **more: Any) -> Answer:
        """The answer to a request; a cookie that comes is kept."""
        path, _, query = target.partition("?")
        ask: dict[str, Any] = {
            "hosts": [HOST.encode()],
            "cookies": [self.cookie] if self.cookie else [],
            **more,
        }
        if "tokens" not in ask:
            ask["tokens"] = [self.stage.token(self.holder.id, self.uid)]
        made = IncomingRequest(method=method, path=path, query=query, **ask)
        answer: Answer = value_of(self.stage.pages.answer(made, HOST))
        for name, value in answer.headers:
            if name == "Set-Cookie":
                self.cookie = value.partition(";")[0].encode()
                assert value.startswith(f"{COOKIE}=")
        return answer

    def read(self, target: str, **more: Any) -> str:
        """The text of a page."""
        answer = self.ask("GET", target, **more)
        assert answer.status == 200, answer
        return unescape(answer.body.decode())

    def send(self, path: str, fields: Mapping[str, str], **more: Any) -> Answer:
        """The answer to a form."""
        body = "&".join(f"{name}={value}" for name, value in fields.items()).encode()
        sent = {
            "origins": [ORIGIN],
            "sites": [b"same-origin"],
            "types": [b"application/x-www-form-urlencoded"],
            "body": body,
            **more,
        }
        return self.ask("POST", path, **sent)

    def form(self, uid: str, target: str = "/sessions") -> dict[str, str]:
        """The fields of the button that ends a session."""
        rows = [row for row in self.read(target).split("<tr>") if uid in row]
        return dict(re.findall(r'name="([a-z]+)" value="([^"]*)"', rows[0]))
