"""Every message is read back as it was written; anything else is refused as malformed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from unicodedata import normalize

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.messages import control, peer, relay, session, snapshot, tunnel
from svc.messages.forms import MAX_CERTIFICATE_BYTES, MAX_HEAD_BYTES, MAX_HEADS, parse
from svc.model.cluster.registration import (
    AcceptedRegistration,
    DeclaredResource,
    Inventory,
    Registration,
    Withheld,
)
from svc.model.cluster.resource import Assigned
from svc.model.session.grant import Grant
from svc.model.session.parameters import fault_of
from svc.model.session.request import SessionRequest, WhyRequest
from svc.model.signing import Signed
from svc.proto.gate.v1 import control_pb2 as pb
from svc.proto.gate.v1 import session_pb2
from tests.support.examples import examples

OPAQUE = "abcdefghijklmnopqrstuvwxyz"
WORD = st.text(st.characters(codec="utf-8"), min_size=1, max_size=63)
MAYBE = st.text(st.characters(codec="utf-8"), max_size=63)
DIGEST = st.binary(min_size=32, max_size=32)
UID = st.binary(min_size=16, max_size=16).map(bytes.hex)
NUMBER = st.integers(0, 2**53)
MILLIS = st.integers(-(2**62), 2**62)
SMALL = st.integers(0, 2**31)
CHAIN = st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=4).map(tuple)
PART = st.binary(min_size=1, max_size=200)
WORDS = st.lists(WORD, max_size=4).map(tuple)
SIGNED = st.builds(Signed, PART, PART, CHAIN)
WITHHELD = st.lists(st.builds(Withheld, WORD, WORD), max_size=3).map(tuple)
INVENTORY = st.builds(
    Inventory, NUMBER, st.frozensets(st.builds(Assigned, WORD, WORD, NUMBER), max_size=3)
)

# Letters and signs as they may stand in a parameter: nearly all are good, so few are drawn in vain.
VALUE = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=60
).map(partial(normalize, "NFC"))
PARAMETERS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_]{0,62}", fullmatch=True),
    VALUE.filter(lambda value: not fault_of(value)),
    max_size=16,
)
REQUEST = st.builds(SessionRequest, WORD, UID, WORD, WORD, WORD, WORD, MILLIS, DIGEST, PARAMETERS)
REASONS = {"malformed", "unknown_format", "bad_parameter"}
A_REQUEST = SessionRequest(
    cluster="c",
    session_uid="01" * 16,
    resource="r",
    kind="ssh",
    action="a",
    proxy_id="p",
    issued_at_ms=1,
    certificate_sha256=bytes(32),
)
GRANT = st.builds(
    Grant,
    WORD,
    UID,
    DIGEST,
    WORD,
    DIGEST,
    WORD,
    NUMBER,
    WORD,
    WORD,
    WORD,
    NUMBER,
    DIGEST,
    MILLIS,
    MILLIS,
    MILLIS,
    MAYBE,
    NUMBER,
    PARAMETERS,
    st.booleans(),
    st.none() | st.frozensets(WORD, max_size=5),
    egress_proxy_id=MAYBE,
)
REGISTRATION = st.builds(
    Registration,
    WORD,
    WORD,
    WORD,
    DIGEST,
    st.lists(st.builds(DeclaredResource, WORD, MAYBE), max_size=3).map(tuple),
    WORD,
    NUMBER,
    WORD,
    WORDS,
    NUMBER,
)
SNAPSHOT = st.builds(
    snapshot.Snapshot,
    WORD,
    NUMBER,
    NUMBER,
    NUMBER,
    MILLIS,
    SMALL,
    DIGEST,
    st.lists(
        st.builds(snapshot.Revocation, WORD, NUMBER, st.sampled_from(list(snapshot.REVOCATIONS))),
        max_size=3,
    ).map(tuple),
    st.integers(0, snapshot.MAX_EPOCH),
    st.dictionaries(UID, st.sampled_from(["ended_by_operator", "revoked_certificate"]), max_size=3),
    st.frozensets(DIGEST, max_size=3),
)
SAID = st.builds(
    control.ProxyDecision,
    UID,
    st.sampled_from(["allow", "deny", "error"]),
    MAYBE,
    WORDS,
    NUMBER,
    MAYBE,
    MAYBE,
)
ASK = st.builds(control.Ask, PART, PART, CHAIN, SAID)
ANSWER = st.builds(
    control.AuthorizeAnswer,
    WORD,
    st.none() | SIGNED,
    MAYBE,
    MAYBE,
    WORDS,
    st.booleans(),
    peer_address=MAYBE,
)
UP = st.one_of(
    st.builds(tunnel.Hello, WORD, WORD, st.booleans(), st.booleans()),
    SIGNED,
    st.builds(tunnel.Renew, st.none() | SIGNED),
    st.builds(tunnel.OpenRefused, WORD, WORD),
    st.just(tunnel.Goodbye()),
)
NOTICE = st.builds(
    tunnel.OpenNotice, WORD, SIGNED, PART, PART, CHAIN, DIGEST, first_flight=st.binary(max_size=99)
)
DOWN = st.one_of(
    st.builds(tunnel.Nonce, DIGEST),
    st.builds(AcceptedRegistration, SMALL, WITHHELD, INVENTORY),
    st.builds(tunnel.Renewed, st.sampled_from((None, False, True))),
    NOTICE,
    st.just(tunnel.DrainNotice()),
)
CONNECTOR_UP = st.one_of(st.builds(control.TunnelSeen, WORD, st.just(OPAQUE)), SIGNED)
CONNECTOR_DOWN = st.one_of(
    st.builds(tunnel.Nonce, DIGEST),
    st.builds(control.Evict, WORD),
    st.builds(
        control.RegistrationVerdict, st.booleans(), MAYBE, MAYBE, SMALL, WORDS, WITHHELD, INVENTORY
    ),
)
HEAD = st.binary(max_size=50)
HEADS = st.lists(HEAD, max_size=3).map(tuple)
LISTING = st.builds(
    session.Listing,
    st.booleans(),
    st.lists(
        st.builds(
            session.Listed, WORD, WORD, st.dictionaries(WORD, MAYBE, max_size=3), st.booleans()
        ),
        max_size=3,
    ).map(tuple),
    WORDS,
    HEADS,
)
EXPLANATION = st.builds(
    session.Explanation,
    WORD,
    st.booleans(),
    MAYBE,
    MAYBE,
    WORDS,
    MAYBE,
    MAYBE,
    NUMBER,
    MAYBE,
    request_hint=MAYBE,
)
ENDED = st.lists(st.builds(control.CountedEnd, WORD, WORD, NUMBER, NUMBER), max_size=4).map(tuple)
DEPARTURE = st.builds(control.Departure, WORD, WORD, WORDS)
LANES = st.builds(control.AuthorityGreeting, MAYBE, MAYBE, MAYBE, *[st.integers(0, 65535)] * 3)

Writer = Callable[[Any], bytes]
Reader = Callable[[bytes], Any]


def _message(write: Callable[[Any], Any]) -> Writer:
    return lambda value: bytes(write(value).SerializeToString())


def _read(message_type: Any, read: Callable[[Any], Any]) -> Reader:
    """As the RPC layer does: a message of the type, or malformed."""
    return lambda data: read(parse(message_type, data, 1 << 22, "test"))


PAIRS: dict[str, tuple[Any, Writer, Reader]] = {
    "request": (REQUEST, session.encode_request, session.decode_request),
    "grant": (GRANT, session.encode_grant, session.decode_grant),
    "why": (
        st.builds(WhyRequest, WORD, WORD, WORD, MILLIS, DIGEST),
        session.encode_why_request,
        session.decode_why_request,
    ),
    "open": (
        st.tuples(PART, PART),
        lambda value: session.encode_open(*value),
        session.decode_open,
    ),
    "opened": (
        st.tuples(SIGNED, WORD),
        lambda value: session.encode_opened(*value),
        session.decode_opened,
    ),
    "listing": (LISTING, session.encode_listing, session.decode_listing),
    "explanation": (
        EXPLANATION,
        _message(session.explanation_message),
        _read(session_pb2.SessionWhyResponse, session.read_explanation),
    ),
    "why message": (
        st.tuples(PART, PART, CHAIN),
        _message(lambda value: session.why_message(*value)),
        _read(session_pb2.SessionWhyRequest, session.read_why),
    ),
    "registration": (REGISTRATION, tunnel.encode_registration, tunnel.decode_registration),
    "up": (UP, tunnel.encode_up, tunnel.decode_up),
    "down": (DOWN, tunnel.encode_down, tunnel.decode_down),
    "carry": (
        st.tuples(WORD, DIGEST, st.none() | SIGNED),
        lambda value: tunnel.encode_carry_open(*value),
        tunnel.decode_carry_open,
    ),
    "relay": (st.sampled_from(relay.Lane), relay.encode_relay_open, relay.decode_relay_open),
    "snapshot": (SNAPSHOT, snapshot.encode_snapshot, snapshot.decode_snapshot),
    "frame": (
        st.builds(
            snapshot.SnapshotFrame,
            SIGNED,
            st.binary(max_size=50),
            st.binary(max_size=50),
            HEADS,
            st.none() | st.frozensets(WORD, max_size=5),
        ),
        snapshot.encode_frame,
        snapshot.decode_frame,
    ),
    "list request": (HEAD, session.encode_list_request, session.decode_list_request),
    "snapshot request": (
        st.just(b"") | DIGEST,
        _message(lambda digest: pb.SnapshotRequest(have_digest=digest)),
        snapshot.decode_snapshot_request,
    ),
    "connector up": (CONNECTOR_UP, control.encode_connector_up, control.decode_connector_up),
    "connector down": (
        CONNECTOR_DOWN,
        control.encode_connector_down,
        control.decode_connector_down,
    ),
    "ask": (ASK, _message(control.ask_message), _read(pb.AuthorizeRequest, control.read_ask)),
    "answer": (
        ANSWER,
        _message(control.answer_message),
        _read(pb.AuthorizeResponse, control.read_answer),
    ),
    "ended": (
        st.tuples(ENDED, WORDS),
        _message(lambda value: control.ended_message(*value)),
        _read(pb.EndSessionsRequest, control.read_ended),
    ),
    "departure": (
        DEPARTURE,
        _message(control.departure_message),
        _read(pb.DepartureNotice, control.read_departure),
    ),
    "hello": (
        st.tuples(WORD, WORD, WORDS, HEAD, MAYBE),
        _message(lambda value: control.hello_message(*value)),
        _read(pb.HelloRequest, control.read_hello),
    ),
    "peer open": (
        st.builds(peer.PeerOpen, SIGNED, PART, PART, CHAIN, MAYBE, MAYBE),
        peer.encode_peer_open,
        peer.decode_peer_open,
    ),
    "peer opened": (
        st.builds(peer.PeerOpened, st.none() | SIGNED),
        peer.encode_peer_opened,
        peer.decode_peer_opened,
    ),
    "lanes": (LANES, _message(control.lanes_message), _read(pb.HelloResponse, control.read_lanes)),
}


DRAWN = st.sampled_from(sorted(PAIRS)).flatmap(
    lambda name: st.tuples(st.just(name), PAIRS[name][0])
)


class RoundTripTests(SynchronousTestCase):
    """One property over every pair of a writer and a reader."""

    @settings(deadline=None, max_examples=examples(400))
    @given(DRAWN)
    def test_what_is_written_is_read_back(self, drawn: tuple[str, Any]) -> None:
        """A message that one of us writes is to its reader what it was to its writer."""
        name, value = drawn
        _, write, read = PAIRS[name]
        self.assertEqual(read(write(value)), value)

    @settings(deadline=None, max_examples=examples(400))
    @given(st.sampled_from(sorted(PAIRS)), st.binary(max_size=300))
    def test_arbitrary_bytes(self, name: str, data: bytes) -> None:
        """Bytes that a peer made up are read or refused as malformed; nothing else comes out."""
        self.tried(PAIRS[name][2], data)

    @settings(deadline=None, max_examples=examples(400))
    @given(
        DRAWN,
        st.integers(0, 10_000),
        st.integers(0, 255),
    )
    def test_a_byte_changed(self, drawn: tuple[str, Any], place: int, byte: int) -> None:
        """A message with one byte changed is read or refused as malformed."""
        name, value = drawn
        _, write, read = PAIRS[name]
        data = bytearray(write(value))
        if data:
            data[place % len(data)] = byte
        self.tried(read, bytes(data))

    def tried(self, read: Reader, data: bytes) -> None:
        try:
            read(data)
        except Malformed as refusal:
            self.assertIn(refusal.reason, REASONS)


class BoundTests(SynchronousTestCase):
    """What a peer may make us hold is bounded."""

    def refused(self, read: Callable[[Any], Any], message: Any) -> None:
        with self.assertRaises(Malformed):
            read(message)

    def test_chains(self) -> None:
        """More than four certificates, an empty one or a very long one are refused."""
        for chain in ([], [b"x"] * 5, [b""], [b"x" * (MAX_CERTIFICATE_BYTES + 1)]):
            message = pb.AuthorizeRequest(request=b"r", signature=b"s", person_chain=chain)
            self.refused(control.read_ask, message)

    def test_heads(self) -> None:
        """A signed head that is very long is refused, and so are many of them."""
        long = b"x" * (MAX_HEAD_BYTES + 1)
        self.refused(
            control.read_hello, pb.HelloRequest(version="v", instance_id="i", audit_head=long)
        )
        self.refused(session.decode_list_request, session.encode_list_request(long))
        for heads in ((long,), (b"x",) * (MAX_HEADS + 1)):
            listing = session.encode_listing(session.Listing(True, heads=heads))
            self.refused(session.decode_listing, listing)

    def test_words(self) -> None:
        """A word that is too long, missing, or malformed is refused."""
        for hello in (
            pb.HelloRequest(version="x" * 64, instance_id="i"),
            pb.HelloRequest(version="", instance_id="i"),
            pb.HelloRequest(version="v", instance_id="i", open_sessions=[""]),
        ):
            self.refused(control.read_hello, hello)
        seen = pb.ConnectorTunnel(tunnel_id="t", peer_node_id="Not an id")
        data = pb.ConnectorUp(tunnel=seen).SerializeToString()
        self.refused(control.decode_connector_up, data)
        self.refused(control.read_lanes, pb.HelloResponse(join_port=65536))

    @given(REQUEST, st.randoms())
    def test_one_form_whatever_the_order(self, request: SessionRequest, random: Random) -> None:
        """Parameters put in another order make the same bytes, so the same signature."""
        pairs = list(request.parameters.items())
        random.shuffle(pairs)
        again = evolve(request, parameters=dict(pairs))
        self.assertEqual(session.encode_request(again), session.encode_request(request))

    def test_no_other_form(self) -> None:
        """What we would not have written is refused: in a signed text a field may be a limit."""
        good = session_pb2.SessionRequest.FromString(session.encode_request(A_REQUEST))
        del good.parameters[:]
        for name, value in (("b", "1"), ("a", "1")):
            good.parameters.add(name=name, value=value)
        unordered = good.SerializeToString()
        twice = session.encode_request(evolve(A_REQUEST, parameters={"a": "1"})) + (
            session_pb2.SessionRequest(
                parameters=[session_pb2.Parameter(name="a", value="2")]
            ).SerializeToString()
        )
        plain = session.encode_request(A_REQUEST)
        login_user = b"\x4a\x04root"  # field 9, as it was before
        unknown = b"\xa0\x06\x01"  # field 100
        with_form = {
            "bad_parameter": (unordered, twice),
            "unknown_format": (
                plain + login_user,
                plain + unknown,
                session_pb2.SessionRequest(cluster="a").SerializeToString() + plain,
                plain[:-2] + b"\x58\x02",
            ),
        }
        of_before = plain[:-2]  # without a number
        self.assertEqual(session.decode_request(of_before), A_REQUEST)
        self.assertEqual(session.decode_request(plain), A_REQUEST)
        self.assertEqual(plain[-2:], b"\x58\x01")
        for reason, texts in with_form.items():
            for data in texts:
                with self.subTest(data=data):
                    error = self.assertRaises(Malformed, session.decode_request, data)
                    self.assertEqual(error.reason, reason)

    @given(GRANT, REQUEST)
    def test_what_says_more_is_relayed_and_not_relied_on(
        self, grant: Grant, request: SessionRequest
    ) -> None:
        """What a newer build limits by is refused by who must heed it, and passed by a Proxy."""
        for data, read, value in (
            (session.encode_grant(grant), session.decode_grant, grant),
            (session.encode_request(request), session.decode_request, request),
        ):
            more = data + b"\xa0\x06\x01"
            self.assertEqual(read(more, relayed=True), value)
            error = self.assertRaises(Malformed, read, more)
            self.assertEqual(error.reason, "unknown_format")

    @given(GRANT)
    def test_a_grant_of_before(self, grant: Grant) -> None:
        """A grant without a format is read where it limits nothing: as one end to end."""
        plain = evolve(grant, ceiling={}, is_gated=False, operations=None, egress_proxy_id="")
        self.assertEqual(session.decode_grant(session.encode_grant(plain, 0)), plain)

    @given(GRANT)
    def test_without_a_number(self, grant: Grant) -> None:
        """A text without a format has no parameters and no ceiling: it is not one of before."""
        asked = evolve(A_REQUEST, parameters={"a": "1"})
        data = session.encode_request(asked)[:-2]
        self.assertEqual(session.decode_request(data, relayed=True), asked)
        error = self.assertRaises(Malformed, session.decode_request, data)
        self.assertEqual(error.reason, "unknown_format")
        plain = evolve(grant, ceiling={}, is_gated=False, operations=None, egress_proxy_id="")
        more = session_pb2.Grant.FromString(session.encode_grant(plain, 0))
        more.ceiling.values.add(name="a", value="1")
        error = self.assertRaises(Malformed, session.decode_grant, more.SerializeToString())
        self.assertEqual(error.reason, "unknown_format")

    @given(GRANT)
    def test_operations(self, grant: Grant) -> None:
        """No operation at all is not the same as all of them; names out of order are refused."""
        nothing = evolve(grant, operations=frozenset())
        everything = evolve(grant, operations=None)
        self.assertNotEqual(session.encode_grant(nothing), session.encode_grant(everything))
        odd = session_pb2.Grant.FromString(session.encode_grant(nothing))
        odd.operations.names.extend(["b", "a"])
        error = self.assertRaises(Malformed, session.decode_grant, odd.SerializeToString())
        self.assertEqual(error.reason, "unknown_format")

    def test_what_a_proxy_repeats_or_leaves_out(self) -> None:
        """A word of what is lacking is told once; an end without a reason has one that is known."""
        words = ("policy", "odd", "control_pool") * 1000
        data = session.encode_listing(session.Listing(True, lacking=words))
        self.assertEqual(session.decode_listing(data).lacking, ("control_pool", "policy"))
        for reason, told in (("", "not_told"), ("odd", "not_told"), ("closed", "closed")):
            message = session_pb2.SessionWhyResponse(session_ended="now", session_reason=reason)
            self.assertEqual(session.read_explanation(message).session_reason, told)

    def test_values_that_look_like_others(self) -> None:
        """A value that a person or a record could take for another one is refused."""
        for value in (
            "ro\0ot", "a\nb", "\u202eroot", "ro\u200bot", " root", "root\u3000", "e\u0301",
            "\u2028", "", "é" * 128, "x" * 256,
        ):  # fmt: skip
            with self.subTest(value=value):
                request = evolve(A_REQUEST, parameters={"login_user": value})
                data = session.encode_request(request)
                error = self.assertRaises(Malformed, session.decode_request, data)
                self.assertEqual(error.reason, "bad_parameter")
        for name in ("", "Name", "a-b", "é", "a" * 64):
            with self.subTest(name=name):
                self.refused(
                    session.decode_request,
                    session.encode_request(evolve(A_REQUEST, parameters={name: "x"})),
                )

    def test_bounds(self) -> None:
        """16 parameters of 255 bytes each are taken, and nothing past that."""
        most = {f"p{n:02}": "x" * 255 for n in range(16)}
        full = evolve(A_REQUEST, parameters=most)
        self.assertEqual(session.decode_request(session.encode_request(full)), full)
        over = evolve(A_REQUEST, parameters={**most, "q": "x"})
        error = self.assertRaises(Malformed, session.decode_request, session.encode_request(over))
        self.assertEqual(error.reason, "bad_parameter")

    def test_counts_stay_within_what_json_keeps(self) -> None:
        """Byte counts past 2^53 are cut to it, so that the end can be recorded."""
        message = pb.EndSessionsRequest(
            sessions=[pb.EndedSession(session_uid="s", reason="r", bytes_up=2**60)]
        )
        self.assertEqual(control.read_ended(message).ended[0].bytes_up, 2**53)

    def test_long_lists_of_policies_are_cut_by_the_writer(self) -> None:
        """A decision by very many policies is carried with as many as its reader takes."""
        said = control.ProxyDecision("00" * 16, "allow", policies=("p",) * 1000)
        message = control.ask_message(
            control.Ask(request=b"r", signature=b"s", person_chain=(b"c",), proxy_decision=said)
        )
        self.assertEqual(len(control.read_ask(message).proxy_decision.policies), 256)

    def test_messages_too_long(self) -> None:
        """A message longer than its kind may be is refused unread."""
        self.refused(session.decode_request, b"\0" * (16 * 1024 + 1))
        self.refused(relay.decode_relay_open, b"\0" * 257)
        self.refused(tunnel.decode_carry_open, b"\0" * 257)
