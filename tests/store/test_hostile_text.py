"""Every backend keeps the same bytes, whatever a peer said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve, fields
from twisted.trial.unittest import TestCase

from svc.audit.log.record import seal
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.record import AuditRecord, chain_hash
from svc.model.cluster.health import CheckFound, NodeHealth
from svc.model.cluster.node import Leaf, Node, TokenRecord, TokenRole
from svc.model.cluster.person import IssuedCertificate, Person
from svc.model.cluster.resource import Resource, Undeclared
from svc.model.doctor import CheckSeverity
from svc.model.session.session import Session, SessionEnd
from svc.plugins.store_postgresql import store_postgresql
from svc.plugins.store_sqlite import store_sqlite
from tests.audit.logs import FACTS, record
from tests.store.places import migrated_url, real_needs
from tests.support.postgres import migrated_database

HOSTILE = (
    "'; DROP TABLE audit_log; --",
    '","decision":"allow',
    "%s %(x)s ? $1 :a",
    "\\'\\\\",
    "\\u0000",
    "two\r\nlines\t",
    "\x01\x1b[31mred\x7f",
    "\u202etxt.exe\u2028\ufeff",
    "e\u0301 \u00e9",
    "\U0001f600\U0010ffff\ufffe",
    "E'\\x41'::bytea",
    "x" * 1000,
    " ",
    "",
)
ESCAPED = rb'{"decision_id":"d7","event":"\\\u0000\u0000\\u0000"}'
"""Backslashes, and the escape of NUL between them, which a sealed record does not hold."""

PEER_SAID = (*HOSTILE, "nul\0inside", "\ud800 alone")
"""What goes into records: these two become visible escapes before they are kept."""


def hostile_records() -> list[AuditRecord]:
    """A record for each text, with that text in every field that takes any."""
    made = record()
    texts = [each.name for each in fields(AuditRecord) if isinstance(getattr(made, each.name), str)]
    records = []
    for text in PEER_SAID:
        more: dict[str, Any] = {name: text for name in texts if name != "decision"}
        more["details"] = {**made.details, "source_address": text}
        records.append(evolve(made, policies=(text, f"{text}{text}"), **more))
    return records


def fill(tx: ITransaction) -> None:
    """Rows with hostile texts in every column that takes text, and the records."""
    for number, text in enumerate(HOSTILE):
        each, blob = f"{number}{text}", bytes([number]) * 32
        tx.schema.settle(each, text)
        tx.tokens.add(
            TokenRecord(
                id=each,
                secret_sha256=blob,
                role=TokenRole.PROXY,
                expires_at=9.25,
                bound_to=text,
                names=(),
            ),
            1.0,
        )
        tx.nodes.register(
            Node(
                id=each,
                name=each,
                role="connector",
                key_sha256=blob,
                audit_key=blob,
                leaf=Leaf(text, blob, 0.1),
                enrolled_at=1 / 3,
                version=text,
            )
        )
        tx.health.put([_health(each, text)])
        tx.people.add_group(each, 1.0)
        tx.people.add(Person(each, each, groups=(each,)), 1e9 + 1 / 7)
        tx.certificates.issued(
            IssuedCertificate(
                sha256=blob, serial=each, person_id=each, issued_at=1.0, expires=2.0**52 + 0.5
            )
        )
        tx.catalog.add(Resource(id=each, kind=text, labels={each: text}, assigned_to=each), 1.0)
        tx.catalog.registered(
            each, [each], [Undeclared(id=each, kind=text, node_id=each, seen_at=2.0)], 2.0
        )
        tx.policies.add(text, text, 1.0)
        tx.sessions.insert(
            Session(
                uid=each,
                person_id=text,
                resource_id=text,
                kind=text,
                connector_id=text,
                proxy_id=text,
                decision_id=text,
                started_at=1.0,
            )
        )
        tx.sessions.end(each, SessionEnd(at=2.0, reason=text, bytes_up=2**53 - 1, bytes_down=7))
        tx.keyrings.add(each, text, 1.0)
    for made in hostile_records():
        form = seal(made, bytes, FACTS)
        tx.audit.append(form.canonical, form.personal)
    tx.audit.append(ESCAPED)


def _health(node_id: str, text: str) -> NodeHealth:
    """What a hostile node might report."""
    return NodeHealth(
        node_id=node_id,
        at=1 / 3,
        version=text,
        worst=CheckSeverity.WARN,
        failed=0,
        warnings=1,
        found=(CheckFound(text, CheckSeverity.WARN),),
    )


def everything(tx: ITransaction) -> list[Any]:
    """What the facets give back, in their own orders."""
    rows = tx.audit.rows(1, 1000)
    listed: list[Any] = [
        tx.tokens.waiting(0.0),
        tx.nodes.all(),
        list(tx.health.all().values()),
        tx.people.all(),
        tx.people.groups(),
        tx.catalog.all(),
        tx.catalog.undeclared(),
        tx.policies.history(1000),
        tx.keyrings.all(),
        rows,
        tx.audit.personal(1, 1000),
        [tx.audit.by_decision(text) for text in (*HOSTILE, "d7")],
    ]
    for number, text in enumerate(HOSTILE):
        each = f"{number}{text}"
        listed += [tx.schema.fact(each), tx.sessions.get(each), tx.certificates.of(each)]
    return listed


class HostileTextTests(TestCase):
    """One filling, three backends."""

    async def test_the_same_hash_and_the_same_values(self) -> None:
        """The chain of each backend ends in one hash, and every facet gives the same back."""
        needs = evolve(real_needs(), chain_hash=chain_hash)
        makers: list[Callable[[], IStore]] = [
            lambda: store_sqlite.open_memory(needs),
            lambda: store_sqlite.open(migrated_url(self), needs),
            lambda: store_postgresql.open(migrated_database(self), needs),
        ]
        found = []
        for make in makers:
            store = make()
            await store.run("fill", fill)
            head = await store.read("head", lambda tx: tx.audit.head())
            found.append((head, await store.read("everything", everything)))
            await store.close()
        (head, listed), *others = found
        self.assertEqual(head.seq, len(PEER_SAID) + 1)
        for other_head, other in others:
            for here, there in zip(listed, other, strict=True):
                self.assertEqual(there, here)
            self.assertEqual(other_head.hash, head.hash)
