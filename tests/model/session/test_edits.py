"""Edits of a gated session's bytes, at whoever receives them."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.session.edits import (
    MAX_EDIT_BYTES,
    MAX_PENDING,
    MAX_VALUE_CHARACTERS,
    Edit,
    StreamEdits,
)

KNOWN = {"say": lambda came, values: b"<" + values["word"].encode() + b":" + came + b">"}


def edit(offset: int, size: int, word: str = "w", name: str = "say") -> Edit:
    """An edit that shows what it was about."""
    return Edit(offset=offset, size=size, name=name, values={"word": word})


class EditTests(SynchronousTestCase):
    @given(
        st.lists(st.tuples(st.booleans(), st.binary(min_size=1, max_size=9)), max_size=12),
        st.randoms(use_true_random=False),
    )
    def test_any_pieces(self, parts: list[tuple[bool, bytes]], random: object) -> None:
        """However the bytes arrive, each edited stretch is replaced whole and the rest passes."""
        edits, at, sent, wanted = StreamEdits(KNOWN), 0, b"", b""
        for is_edited, data in parts:
            if is_edited:
                edits.announce(edit(at, len(data)))
            wanted += b"<w:" + data + b">" if is_edited else data
            sent += data
            at += len(data)
        got = b""
        while sent:
            size = random.randint(1, len(sent))  # type: ignore[attr-defined]
            got += edits.apply(sent[:size])
            sent = sent[size:]
        edits.end()
        self.assertEqual(got, wanted)

    def test_own_values(self) -> None:
        """What the receiver adds stands over what the Proxy says under its name."""
        edits = StreamEdits(KNOWN, {"word": "mine"})
        self.assertEqual(edits.announce(edit(0, 0, "theirs")), b"<mine:>")

    def refused(self, edits: StreamEdits, one: Edit) -> None:
        self.assertRaises(Malformed, edits.announce, one)

    def test_refused(self) -> None:
        """An edit of no list, of nothing, of too much, or of what has passed is refused."""
        edits = StreamEdits(KNOWN)
        edits.apply(b"passed")
        for one in (
            edit(6, 1, name="other"),
            edit(5, 0),
            edit(7, 0),
            edit(6, 0, name="other"),
            edit(6, MAX_EDIT_BYTES + 1),
            edit(5, 1),
            edit(6, 1, "x" * (MAX_VALUE_CHARACTERS + 1)),
            Edit(offset=6, size=1, name="say", values=dict.fromkeys("012345678", "")),
        ):
            self.refused(edits, one)
        edits.announce(edit(8, 2))
        self.refused(edits, edit(9, 1))

    def test_inserted(self) -> None:
        """An insertion is made at once, wherever the next byte would come, and waits for none."""
        edits = StreamEdits(KNOWN)
        self.assertEqual(edits.announce(edit(0, 0, "a")), b"<a:>")
        self.assertEqual(edits.announce(edit(0, 0, "b")), b"<b:>")
        self.assertEqual(edits.apply(b"12"), b"12")
        self.assertEqual(edits.announce(edit(2, 0, "c")), b"<c:>")
        edits.announce(edit(2, 2))
        self.refused(edits, edit(4, 0))
        self.assertEqual(edits.apply(b"34"), b"<w:34>")
        self.assertEqual(edits.announce(edit(4, 0, "d")), b"<d:>")
        edits.end()

    def test_bounded(self) -> None:
        """No more edits wait than a fixed number."""
        edits = StreamEdits(KNOWN)
        for at in range(MAX_PENDING):
            edits.announce(edit(at, 1))
        self.refused(edits, edit(MAX_PENDING, 1))

    def test_an_edit_that_fails(self) -> None:
        """A fault in a kind's edit ends its session, not the connection that others share."""

        def says(came: bytes, values: Mapping[str, str]) -> bytes:
            return f"{came.decode()}{values['absent']}".encode()

        for came in (b"a", b"\xff"):
            edits = StreamEdits({"say": says})
            edits.announce(edit(0, 1))
            self.assertRaises(Malformed, edits.apply, came)

    def test_ends_amid(self) -> None:
        """A stream that ends before all of an edit has come is broken, not cut short."""
        for came in (b"", b"a"):
            edits = StreamEdits(KNOWN)
            edits.announce(edit(0, 2))
            self.assertEqual(edits.apply(came), b"")
            self.assertRaises(Malformed, edits.end)
