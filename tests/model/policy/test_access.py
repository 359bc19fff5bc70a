"""Requests as they are written down, and read back for replay."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.policy.access import (
    AccessRequest,
    Entity,
    EntityUid,
    request_form,
    request_from_form,
)

_texts = st.text(st.characters(codec="utf-8"), max_size=8)
_scalars = st.booleans() | st.integers(-(2**53), 2**53) | _texts | st.sets(_texts).map(frozenset)
_values = _scalars | st.dictionaries(_texts, _scalars, max_size=3)


def request(**context: Any) -> AccessRequest:
    """A request with this context."""
    return AccessRequest(
        request_kind="connect",
        principal=EntityUid("User", "u"),
        action="tcpConnect",
        resource=EntityUid("TcpService", "r"),
        context=context,
    )


class RequestTests(SynchronousTestCase):
    """One request, one form."""

    @given(st.dictionaries(_texts, _values, max_size=4))
    def test_round_trip(self, context: "dict[str, Any]") -> None:
        """Whatever can be asked can be written as JSON and asked again."""
        form = request_form(
            AccessRequest(
                request_kind="web",
                principal=EntityUid("User", "u"),
                action="x",
                resource=EntityUid("W", "r"),
                context=context,
            )
        )
        again = request_from_form(json.loads(json.dumps(form)))
        self.assertEqual(request_form(again), form)

    def test_sets_have_one_order(self) -> None:
        """The order in which a set was made leaves no trace."""
        forms = [request_form(request(e=items)) for items in (("b", "a"), frozenset("ab"))]
        self.assertEqual(forms[0], forms[1])

    def test_refused(self) -> None:
        """Floats, huge integers, bytes, nothing, broken text and deep nesting are refused."""
        deep: Any = {"a": {"b": {"c": {"d": 1}}}}
        for bad in (1.0, 2**53 + 1, b"x", None, "\ud800", (1,), deep):
            self.assertRaises(Malformed, request_form, request(x=bad))

    def test_malformed_forms(self) -> None:
        """A form of another shape is refused."""
        form = request_form(request())
        changes: tuple[tuple[str, Any], ...] = (
            ("request_kind", "fly"),
            ("principal", "User::u"),
            ("principal", {"type": "User", "id": 1}),
            ("action", None),
            ("context", []),
            ("context", {"x": 1.5}),
            ("more", 1),
        )
        wrong: list[Any] = [None, [], {}]
        for bad in wrong + [{**form, name: value} for name, value in changes]:
            self.assertRaises(Malformed, request_from_form, bad)

    def test_kind(self) -> None:
        """A request is of a known kind."""
        uid = EntityUid("User", "u")
        self.assertRaises(ValueError, AccessRequest, "fly", uid, "x", uid)

    def test_sealed(self) -> None:
        """A request does not change with the mapping it was made from."""
        context = {"hour": 1}
        made = AccessRequest(
            request_kind="web",
            principal=EntityUid("User", "u"),
            action="x",
            resource=EntityUid("W", "r"),
            context=context,
        )
        context["hour"] = 2
        self.assertEqual(made.context["hour"], 1)


class EntityTests(SynchronousTestCase):
    """Entities as values."""

    def test_parents(self) -> None:
        """Parents are a set: order and repetition do not matter."""
        one, two = EntityUid("Group", "1"), EntityUid("Group", "2")
        self.assertEqual(
            Entity(one, parents=(two, one, two)).parents, Entity(one, parents=(one, two)).parents
        )
