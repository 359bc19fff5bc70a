"""Bytes that an earlier build made: records, signatures, messages and files have not changed.

``golden/bytes.json`` was written by the build before the tree was shelved by meaning.  It is
written again, by ``python -m tests.upgrade.test_golden_bytes FILE``, only where a change of the
wire, of records or of files on disk is meant: then the difference shows exactly what changes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.head import AnchorKey, from_line, payload, sign_head, to_line
from svc.audit.checkpoint.merkle import Tree, leaf_hash
from svc.audit.log import export
from svc.audit.log.covered import CoveredRow
from svc.audit.log.record import seal
from svc.audit.spool.framing import Framed, framed, frames
from svc.errors import Malformed
from svc.messages import control, relay, session, snapshot, spooled, tunnel
from svc.messages import gated as gated_messages
from svc.messages.forms import parse
from svc.model.audit import events
from svc.model.audit.ledger import ChainRow, PersonalValue
from svc.model.audit.record import Actor, AuditRecord, Event, Head, Shape, chain_hash
from svc.model.audit.spool import SpoolRow, row_digest, row_hash
from svc.model.audit.state import StateChange
from svc.model.canonical import decode, encode
from svc.model.cluster.registration import AcceptedRegistration, Registration
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.session.checkpoint import GrantExtension, SessionCheckpoint
from svc.model.session.edits import Edit
from svc.model.session.ending import PROXY_REVOKED
from svc.model.session.frames import FrameMarks, FrameTagger, TaggedKind, read_tagged
from svc.model.session.gated import GateNote
from svc.model.session.grant import Grant
from svc.model.session.halves import OwnHalf, SessionAnswer
from svc.model.session.ranges import RangeDecision, RequestRange, first_head, next_head
from svc.model.session.request import SessionRequest, WhyRequest
from svc.model.signing import Purpose, Signed, sign
from svc.proto.gate.v1 import control_pb2, session_pb2
from svc.proxy.uplink.journal import EndsFile, OwedEnd
from svc.rpc.frames import note_part
from tests.upgrade.made import made

KEPT = Path(__file__).parent / "golden" / "bytes.json"
GIVEN_UP = KEPT.with_name("given_up.json")
"""As they were before ADR 29: what lives for seconds on the wire, and is kept nowhere."""

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ANCHOR = AnchorKey(lambda data: sign(KEY, Purpose.AUDIT_HEAD, data), (b"certificate",))
LONGEST = 1024

GIVEN = {"0.3.1": "allow", "0.4.1": "allow"}
"""What a Proxy says it decided is one of three words."""

ENDED = evolve(made(control.CountedEnd), lane="direct")

Pair = tuple[Any, Callable[[Any], bytes], Callable[[bytes], Any]]


def _message(write: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    return lambda value: bytes(write(value).SerializeToString(deterministic=True))


def _read(kind: Any, read: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    return lambda data: read(parse(kind, data, 1 << 22, "golden"))


_REASONS = {"0.7.0.2": "revoked", "0.7.1.2": "disabled_person", "0.9.0": "policy_changed"}
"""Words of closed lists in a snapshot: of its revocations, and of an end that was asked for."""

PAIRS: Mapping[str, Pair] = {
    "session.request": (
        evolve(made(SessionRequest), half=b""),  # of a session end to end
        session.encode_request,
        session.decode_request,
    ),
    "session.gated request": (
        made(SessionRequest),
        session.encode_request,
        session.decode_request,
    ),
    "session.answer": (
        made(SessionAnswer),
        gated_messages.encode_answer,
        gated_messages.decode_answer,
    ),
    "session.checkpoint": (
        made(SessionCheckpoint),
        gated_messages.encode_checkpoint,
        gated_messages.decode_checkpoint,
    ),
    "session.extension": (
        made(GrantExtension),
        gated_messages.encode_extension,
        gated_messages.decode_extension,
    ),
    "session.grant": (
        evolve(made(Grant), operations=None),  # of a session that may do all that its kind can
        session.encode_grant,
        session.decode_grant,
    ),
    "session.limited grant": (made(Grant), session.encode_grant, session.decode_grant),
    "session.why request": (
        made(WhyRequest),
        session.encode_why_request,
        session.decode_why_request,
    ),
    "session.open": (
        (b"request", b"signature"),
        lambda both: session.encode_open(*both),
        session.decode_open,
    ),
    "session.opened": (
        (made(Signed), "d" * 32),
        lambda both: session.encode_opened(*both),
        session.decode_opened,
    ),
    "session.listing": (
        evolve(made(session.Listing), lacking=()),  # said since then, and by nobody before
        session.encode_listing,
        session.decode_listing,
    ),
    "session.explanation": (
        evolve(
            made(session.Explanation),
            session_reason=PROXY_REVOKED,
            session_lane="direct",
            request_hint="",  # said since then
        ),
        _message(session.explanation_message),
        _read(session_pb2.SessionWhyResponse, session.read_explanation),
    ),
    "tunnel.registration": (
        made(Registration),
        tunnel.encode_registration,
        tunnel.decode_registration,
    ),
    "tunnel.hello": (made(tunnel.Hello), tunnel.encode_up, tunnel.decode_up),
    "tunnel.signed": (made(Signed), tunnel.encode_up, tunnel.decode_up),
    "tunnel.renew": (tunnel.Renew(), tunnel.encode_up, tunnel.decode_up),
    "tunnel.open refused": (made(tunnel.OpenRefused), tunnel.encode_up, tunnel.decode_up),
    "tunnel.goodbye": (tunnel.Goodbye(), tunnel.encode_up, tunnel.decode_up),
    "tunnel.nonce": (made(tunnel.Nonce), tunnel.encode_down, tunnel.decode_down),
    "tunnel.accepted": (made(AcceptedRegistration), tunnel.encode_down, tunnel.decode_down),
    "tunnel.renewed": (tunnel.Renewed(), tunnel.encode_down, tunnel.decode_down),
    "tunnel.notice": (made(tunnel.OpenNotice), tunnel.encode_down, tunnel.decode_down),
    "tunnel.draining": (tunnel.DrainNotice(), tunnel.encode_down, tunnel.decode_down),
    "tunnel.carry": (
        ("a" * 32, bytes(32), None),
        lambda both: tunnel.encode_carry_open(*both),
        tunnel.decode_carry_open,
    ),
    "relay.open": (list(relay.Lane)[-1], relay.encode_relay_open, relay.decode_relay_open),
    "snapshot": (
        made(snapshot.Snapshot, _REASONS),
        snapshot.encode_snapshot,
        snapshot.decode_snapshot,
    ),
    "snapshot.frame": (
        made(snapshot.SnapshotFrame),
        snapshot.encode_frame,
        snapshot.decode_frame,
    ),
    "control.tunnel seen": (
        control.TunnelSeen("n" * 26, "c" * 26),
        control.encode_connector_up,
        control.decode_connector_up,
    ),
    "control.evict": (
        made(control.Evict),
        control.encode_connector_down,
        control.decode_connector_down,
    ),
    "control.verdict": (
        made(control.RegistrationVerdict),
        control.encode_connector_down,
        control.decode_connector_down,
    ),
    "control.ask": (
        made(control.Ask, GIVEN),
        _message(control.ask_message),
        _read(control_pb2.AuthorizeRequest, control.read_ask),
    ),
    "control.answer": (
        made(control.AuthorizeAnswer),
        _message(control.answer_message),
        _read(control_pb2.AuthorizeResponse, control.read_answer),
    ),
    "control.departure": (
        evolve(made(control.Departure), ended=(ENDED,)),
        _message(control.departure_message),
        _read(control_pb2.DepartureNotice, control.read_departure),
    ),
    "control.lanes": (
        made(control.AuthorityGreeting),
        _message(control.lanes_message),
        _read(control_pb2.HelloResponse, control.read_lanes),
    ),
    "spool.row": (
        evolve(made(SpoolRow), personal=(PersonalValue("details.x", bytes(16), '"v"'),)),
        _message(spooled.row_message),
        _read(control_pb2.SpooledRow, spooled.read_row),
    ),
    "spool.frame": (
        Framed(7, b"payload", len(framed(7, b"payload"))),
        lambda one: framed(one.n, one.payload),
        lambda data: next(iter(frames(data))),
    ),
    "canonical": (
        {"b": [1, None, True], "a": {"y": "é\u2028", "z": -3}},
        encode,
        decode,
    ),
}
"""What is written and read: a value, its writer, its reader."""


def record(event: Event) -> AuditRecord:
    """A record of that event, with every field that a record may have."""
    value: Mapping[Shape, Any] = {
        Shape.TEXT: "text",
        Shape.NUMBER: 7,
        Shape.FLAG: True,
        Shape.TEXTS: ["one", "two"],
    }
    return AuditRecord(
        event_id="0197",
        time=1_763_733_600.5,
        event=event,
        actor=Actor("person", "p" * 26),
        origin="a" * 26,
        key_id="k",
        node_id="n" * 26,
        resource_id="db1",
        resource_kind="tcp",
        session_uid="1" * 32,
        action="open",
        cedar_action="tcpConnect",
        decision="allow",
        decision_id="2" * 32,
        policies=("staff",),
        policy_version=3,
        catalog_version=4,
        reason="reason",
        trace_id="3" * 32,
        request=AccessRequest(
            request_kind="connect",
            principal=EntityUid("User", "p" * 26),
            action="tcpConnect",
            resource=EntityUid("TcpService", "db1"),
            context={},
        ),
        entities_digest="4" * 64,
        details={one.name: value[one.shape] for one in event.fields},
        state=made(StateChange),
        spool=None,
    )


def catalogue() -> Iterable[Event]:
    """Every event there is."""
    return sorted(
        {one for one in vars(events).values() if isinstance(one, Event)},
        key=lambda one: one.name,
    )


def signed_head() -> Any:
    """A head over three leaves."""
    tree = Tree()
    for n in range(3):
        tree.append(leaf_hash(bytes([n])))
    head = evolve(
        made(Head),
        tree_size=3,
        root=tree.root,
        time="2026-01-02T03:04:05.000Z",
        key_id=ANCHOR.key_id,
    )
    return sign_head(head, ANCHOR, tuple(tree.edge))


def single() -> Iterable[tuple[str, bytes]]:
    """What is only written, or read by others than us."""
    for event in catalogue():
        sealed = seal(record(event), bytes)
        personal = json.dumps([[one.path, one.salt.hex(), one.value] for one in sealed.personal])
        yield f"record.{event.name}", sealed.canonical + b"\n" + personal.encode()
    canonical = seal(record(events.SESSION_START), bytes).canonical
    yield "record.chain hash", chain_hash(9, bytes(range(32)), canonical)
    yield "spool.row hash", row_hash(canonical)
    yield "spool.row digest", row_digest(made(SpoolRow))
    head = signed_head()
    yield "head.payload", payload(head.head)
    yield "head.line", to_line(head, edge=True)
    yield "head.hash", head.hash
    form = json.loads(canonical)
    row = ChainRow(
        seq=9,
        prev_hash=bytes(32),
        hash=chain_hash(9, bytes(32), canonical),
        canonical=canonical,
        signature=b"signature",
    )
    entry = CoveredRow(row, form, (PersonalValue("details.x", bytes(16), '"v"'),))
    yield "export.record", export.json_line(entry).encode()
    yield "export.head", export.head_line(head).encode()
    yield "export.inclusion", export.inclusion(entry, [bytes(32)], head).encode()
    yield "export.consistency", export.consistency(2, bytes(32), [bytes(32)], head).encode()
    for purpose in Purpose:
        if purpose.name.startswith("AUDIT"):
            yield f"signature.{purpose.name}", sign(KEY, purpose, b"data")
    with tempfile.TemporaryDirectory() as place:
        ends = EndsFile(Path(place) / "ends")
        ends.load()
        ends.replace([OwedEnd(ENDED, "p" * 26)])
        yield "ends.file", (Path(place) / "ends").read_bytes()
    yield "ended", _message(control.ended_message)([ENDED])


def gated() -> Iterable[tuple[str, bytes]]:
    """Of gated sessions: keys, frames, what a Proxy says, and the chain of decisions."""
    half = OwnHalf(X25519PrivateKey.from_private_bytes(bytes(range(32))))
    keys = half.agree(half.public, b"request", b"answer")
    yield "frame.keys", keys.requests + keys.answers
    tagger = FrameTagger(keys.requests)
    made_of_data = b"".join(tagger.data(b"data"))
    yield "frame.data", made_of_data
    yield "frame.heartbeat", b"".join(tagger.urgent(TaggedKind.HEARTBEAT))
    yield "frame.cancel", b"".join(tagger.urgent(TaggedKind.CANCEL))
    yield "frame.eof", b"".join(tagger.eof())
    marks = FrameMarks()
    marks.add(read_tagged(made_of_data))
    tags = marks.digest(1, 2)
    yield "frame.tags", tags
    yield (
        "chain.head",
        next_head(
            first_head("1" * 32), RequestRange(n=1, offset=2, size=3, tags=tags), allowed=True
        ),
    )
    note = GateNote(
        9,
        (RangeDecision(n=1, offset=2, size=3, allowed=False),),
        (Edit(offset=2, size=3, name="denied", values={"why": "w"}),),
    )
    yield "frame.note", note_part(note)


def now() -> dict[str, str]:
    """Everything as this build writes it; what is long by its digest."""
    found = {name: write(value) for name, (value, write, _) in PAIRS.items()}
    found.update(single())
    found.update(gated())
    return {
        name: data.hex() if len(data) <= LONGEST else "sha256:" + sha256(data).hexdigest()
        for name, data in found.items()
    }


class GoldenBytesTests(SynchronousTestCase):
    """What an earlier build wrote, and what it read."""

    def setUp(self) -> None:
        self.kept: dict[str, str] = json.loads(KEPT.read_text("utf-8"))

    def test_written(self) -> None:
        """Every form that was kept is written to the same bytes; a new one is kept too."""
        found = now()
        changed = [name for name in self.kept if found.get(name) != self.kept[name]]
        self.assertEqual(changed, [])
        self.assertEqual(sorted(set(found) - set(self.kept)), [], "write the file again")

    def test_read(self) -> None:
        """The bytes that were kept are read to the values that they were made of."""
        for name, (value, _, read) in PAIRS.items():
            if not self.kept[name].startswith("sha256:"):
                with self.subTest(name=name):
                    self.assertEqual(read(bytes.fromhex(self.kept[name])), value)

    def test_given_up(self) -> None:
        """Bytes of a form that was given up are refused as that, and never read as another."""
        kept = json.loads(GIVEN_UP.read_text("utf-8"))
        self.assertEqual(set(kept), {"session.request", "session.grant"})
        for name, data in kept.items():
            with self.subTest(name=name):
                error = self.assertRaises(Malformed, PAIRS[name][2], bytes.fromhex(data))
                self.assertEqual(error.reason, "unknown_format")

    def test_heads(self) -> None:
        """A head that was kept is read and its signature holds."""
        line = bytes.fromhex(self.kept["head.line"])
        self.assertEqual(from_line(line, {}).signed, signed_head().signed)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(now(), indent=1, sort_keys=True) + "\n", "utf-8")
