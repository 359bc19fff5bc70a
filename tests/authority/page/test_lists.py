"""The pages: what a person may open, what was refused to them, and how lists go on."""

from __future__ import annotations

import os
import re
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.access.records import Asker
from svc.authority.page import access, denials, proposals, sessions
from svc.authority.state.recorder import operator
from svc.messages.access import AccessEntry
from svc.model.cluster.resource import Resource
from svc.model.ids import random_id
from svc.model.policy.approval import (
    Approval,
    ApprovalDecision,
    ApprovalKind,
    document_digest,
    encode_approval,
)
from svc.model.policy.requested import AccessAsk
from svc.model.signing import Purpose, Signed, sign
from svc.proto.gate.v1 import policy_change_pb2 as pb
from tests.authority.house import ADA, EVE, POLICY, value_of
from tests.authority.page.stage import FOR_ALL, Guest, PageHouse
from tests.pki.support import CLUSTER

REASONED = POLICY.replace('@id("nobody-production")', '@id("nobody-production") @reason("a <b>&")')


class AccessTests(SynchronousTestCase):
    """*My access*."""

    def setUp(self) -> None:
        self.stage = PageHouse(REASONED + FOR_ALL)
        self.ada, self.eve = (
            Guest(self.stage, one) for one in (self.stage.house.ada, self.stage.house.eve)
        )

    def ids(self, said: str) -> list[str]:
        """The resources of a page, in order."""
        return re.findall(r"<tr><td>[a-z]*</td><td>([^<]*)</td>", said)

    def test_rows(self) -> None:
        """What the person may see, whether it would open, and how it is opened."""
        said = self.ada.read("/")
        self.assertEqual(self.ids(said), ["db1", "prod1", "svc-page"])
        self.assertIn("denied by nobody-production (a <b>&)", said)
        self.assertIn("svc resources list", said)
        self.assertNotIn("vault1", said)
        self.assertEqual(self.ids(self.eve.read("/")), ["svc-page"])

    def test_reason_is_text(self) -> None:
        """What a policy says of itself is escaped."""
        body = self.ada.ask("GET", "/").body
        self.assertIn(b"(a &lt;b&gt;&amp;)", body)

    def test_goes_on(self) -> None:
        """A long list goes on where it was cut, with no resource twice and none left out."""
        count = access.MOST_SHOWN * 2 + 10

        def fill(tx: Any) -> None:
            for number in range(count):
                tx.catalog.add(Resource(id=f"x{number:04}", kind="tcp"), 2.0)

        self.stage.house.run(fill)
        self.stage.house.refresh()
        target, found, pages = "/", list[str](), 0
        while target:
            said = self.ada.read(target)
            ids = self.ids(said)
            self.assertLessEqual(len(ids), access.MOST_SHOWN)
            found, pages = found + ids, pages + 1
            link = re.search(r'href="(/\?after=[^"]*)">More', said)
            target = link[1] if link else ""
        self.assertEqual(len(found), count + 3)
        self.assertEqual((len(set(found)), pages), (len(found), 3))

    def test_no_policy(self) -> None:
        """Without a policy nothing is told."""
        self.stage.house.policy.engine = None
        self.assertEqual(self.ada.ask("GET", "/").status, 503)


REQUESTABLE = f"""
@id("all-see-prod2")
permit (principal, action == Action::"view", resource == TcpService::"prod2");
@id("prod2-on-request") @requestable
permit (principal, action == Action::"tcpConnect", resource == TcpService::"prod2")
when {{ context has approved_request }};
@id("ada-approves")
permit (principal == User::"{ADA}", action == Action::"approveAccess", resource);
"""


class RequestTests(SynchronousTestCase):
    """*Requests*, and what an approval changes under *My access*."""

    def setUp(self) -> None:
        self.stage = PageHouse(POLICY + FOR_ALL + REQUESTABLE)
        house = self.house = self.stage.house
        kept = Resource(id="prod2", kind="tcp", labels={"zone": "secret"})
        house.run(lambda tx: tx.catalog.add(kept, 2.0))
        house.refresh()
        self.ada, self.eve = Guest(self.stage, house.ada), Guest(self.stage, house.eve)

    def asked(self, reason: str) -> AccessEntry:
        """A request of eve's."""
        eve = Asker(self.house.state_cache.state.people[EVE])
        ask = AccessAsk(resource="prod2", secs=600, uses=1, reason=reason)
        entry: AccessEntry = value_of(
            self.stage.requests.ask(eve, ask, request_id=random_id(os.urandom))
        )
        return entry

    def approve(self, entry: AccessEntry) -> None:
        """Ada's signature."""
        ada, now = self.house.ada, int(self.house.now())
        approval = Approval(
            cluster=CLUSTER,
            kind=ApprovalKind.ACCESS,
            subject=str(entry.terms["id"]),
            document_sha256=entry.document_sha256,
            decision=ApprovalDecision.APPROVE,
            approver=ADA,
            certificate_sha256=ada.sha256,
            made_at=now,
            expires_at=now + 600,
        )
        data = encode_approval(approval)
        signed = Signed(data, sign(ada.key, Purpose.APPROVAL, data), ada.chain)
        asker = Asker(self.house.state_cache.state.people[ADA])
        value_of(self.stage.requests.decide(asker, str(entry.terms["id"]), signed))

    def test_decide(self) -> None:
        """Who may decide sees all that would be allowed, its digest, and what to type; no form."""
        entry = self.asked("incident <b>7</b>")
        body = self.ada.ask("GET", "/requests").body.decode()
        for word in (
            f"eve ({EVE})",
            "prod2 (tcp)",
            "tcpConnect",
            "any that the policy allows",
            "10 min",
            "1, of which 0 are used",
            "incident &lt;b&gt;7&lt;/b&gt;",
            entry.document_sha256.hex(),
            f"svc requests approve {entry.terms['id']}",
            f"svc requests deny {entry.terms['id']}",
        ):
            self.assertIn(word, body)
        self.assertNotIn("<form", body)
        own = self.eve.read("/requests")
        self.assertIn(f"svc requests withdraw {entry.terms['id']}", own)
        self.assertNotIn("svc requests approve", own)

    def test_asks(self) -> None:
        """What an approval would open says how to ask, and then until when it is open."""
        self.assertIn("<code>svc request prod2</code>", self.eve.read("/"))
        entry = self.asked("incident")
        self.approve(entry)
        said = self.eve.read("/")
        self.assertIn("allowed by an approved request until", said)
        self.assertNotIn("svc request prod2", said)
        self.assertIn("approved by ada", self.eve.read("/requests"))
        self.assertNotIn("svc requests approve", self.ada.read("/requests"))


VIEWER = f"""
@id("ada-views-policies")
permit (principal == User::"{ADA}", action == Action::"viewPolicy", resource is Cluster);
"""


class ProposalTests(SynchronousTestCase):
    """*Policy proposals*."""

    base = POLICY + FOR_ALL + VIEWER

    def setUp(self) -> None:
        self.stage = PageHouse(self.base)
        self.ada, self.eve = (
            Guest(self.stage, one) for one in (self.stage.house.ada, self.stage.house.eve)
        )

    def proposed(self, text: str, note: str = "why") -> str:
        """A proposal of an operator's."""
        request = pb.ProposePolicyRequest(text=text, note=note)
        return str(value_of(self.stage.proposals.propose(request, operator(7))).id)

    def test_review(self) -> None:
        """All that an approval binds, with the difference, as text; and what to type; no form."""
        added = '@id("more") permit (principal, action == Action::"view", resource is Server);'
        id = self.proposed(f"{self.base}// <script>\n{added}\n", "<b>because</b>")
        self.assertIn(f'<a href="/policies?id={id}">', self.ada.read("/policies"))
        body = self.ada.ask("GET", f"/policies?id={id}").body.decode()
        stored = value_of(self.stage.house.store.read("test", lambda tx: tx.proposals.get(id)))
        for word in (
            "+// &lt;script&gt;",
            "+@id(",
            "&lt;b&gt;because&lt;/b&gt;",
            "<td>more</td><td>added</td>",
            "becomes a permit for every principal",
            "0 of 3",
            stored.policy_sha256.hex(),
            document_digest(stored.document(CLUSTER)).hex(),
            f"svc authority policy approve {id}",
            "nobody knows whose access this changes",
        ):
            self.assertIn(word, body)
        self.assertNotIn("<form", body)
        self.assertNotIn("<script", body)

    def test_who(self) -> None:
        """Who may not read policies reads none of them here."""
        id = self.proposed(f"{self.base}// secret remark\n")
        for target in ("/policies", f"/policies?id={id}"):
            said = self.eve.read(target)
            self.assertIn("does not let you read policies", said)
            self.assertNotIn(id, said)
            self.assertNotIn("secret remark", said)
        self.assertEqual(self.ada.ask("GET", f"/policies?id={'0' * 32}").status, 404)

    def test_long(self) -> None:
        """Of a long difference the first lines are shown, with the command that shows all."""
        lines = "".join(f"// line {number}\n" for number in range(proposals.MOST_LINES + 50))
        id = self.proposed(self.base + lines)
        said = self.ada.read(f"/policies?id={id}")
        self.assertIn(f"svc authority policy review {id}", said)
        self.assertNotIn(f"line {proposals.MOST_LINES}\n", said)


class DenialTests(SynchronousTestCase):
    """*My denials*."""

    def setUp(self) -> None:
        self.stage = PageHouse(REASONED + FOR_ALL)
        self.ada, self.eve = (
            Guest(self.stage, one) for one in (self.stage.house.ada, self.stage.house.eve)
        )

    def refuse(self, resource: str = "prod1", times: int = 1, said: str = "deny") -> None:
        """Ask for what is refused."""
        house = self.stage.house
        for _ in range(times):
            ask = house.ask(house.ada, resource, said)
            answer = value_of(self.stage.issuance.authorize(ask, house.row(house.proxy)))
            assert answer.grant is None

    def decisions(self, said: str) -> list[str]:
        """The ids of a page."""
        return re.findall(r"<td><code>([0-9a-f]{32})</code></td>", said)

    def test_why(self) -> None:
        """Each has its policies with their reasons; nobody else sees it."""
        self.refuse()
        said = self.ada.read("/denials")
        (decision,) = self.decisions(said)
        self.assertIn("nobody-production: a <b>&", said)
        self.assertNotIn(decision, self.eve.read("/denials"))

    def test_how_to_ask(self) -> None:
        """A denial that an approval would turn has the command to type, and others have none."""
        self.stage = stage = PageHouse(POLICY + FOR_ALL + REQUESTABLE.replace("prod2", "vault1"))
        ada = Guest(stage, stage.house.ada)
        self.refuse("vault1")
        self.refuse("prod1")
        rows = ada.read("/denials").split("<tr>")
        asked = [
            ("svc request vault1 --action tcpConnect" in row) for row in rows if "denied" in row
        ]
        self.assertEqual(asked, [False, True])

    def test_unseen(self) -> None:
        """A refusal of what the person may not see is not listed: it would say that it is there."""
        self.refuse("vault1")
        self.refuse("nothing-there", said="allow")  # by the policy it could be opened
        self.assertEqual(self.decisions(self.ada.read("/denials")), [])

    def test_older(self) -> None:
        """A long list goes on where it was cut."""
        count = denials.MOST_SHOWN + 7
        self.refuse(times=count)
        said = self.ada.read("/denials")
        first = self.decisions(said)
        link = re.search(r'href="(/denials\?before=[^"]*)"', said)
        assert link is not None
        rest = self.decisions(self.ada.read(link[1]))
        self.assertEqual(len(first), denials.MOST_SHOWN)
        self.assertEqual(len({*first, *rest}), count)
        self.assertEqual(len(rest), 7)


class SessionTests(SynchronousTestCase):
    """*Live sessions*."""

    def test_goes_on(self) -> None:
        """A long list goes on where it was cut."""
        stage = PageHouse()
        ada = Guest(stage, stage.house.ada)
        uids = {ada.uid}
        for _ in range(sessions.MOST_SHOWN + 3):
            stage.house.clock.advance(0.5)
            uids.add(stage.opened(stage.house.ada, "db1"))
        said = ada.read("/sessions")
        link = re.search(r'href="(/sessions\?after=[^"]*)"', said)
        assert link is not None
        rest = ada.read(link[1])
        first, second = (
            set(re.findall(r"<code>([0-9a-f]{32})</code>", one)) for one in (said, rest)
        )
        self.assertEqual(first & second, set())
        self.assertEqual(first | second, uids)
        self.assertEqual(len(first), sessions.MOST_SHOWN)
