"""Frames of a recording: each opens with the key, in its place, and nowhere else."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.recording.sealing import DATA, MOST_SEALED, Frame, chain_of, next_frame, open_frame, seal
from tests.support.examples import examples
from tests.support.recording import RECORDING_KEY

UID = bytes(range(16))
KEY = RECORDING_KEY


def sealed_frames(texts: list[bytes]) -> list[bytes]:
    """These, as a file has them, without their lengths."""
    chain = chain_of(UID, 1, b"header")
    return [seal(KEY.public, chain, Frame(DATA, text))[4:] for text in texts]


class SealingTests(SynchronousTestCase):
    """What a stolen disk, or a wrong file, cannot do."""

    @given(st.lists(st.binary(max_size=100), min_size=1, max_size=5))
    @settings(max_examples=examples(100))
    def test_in_order(self, texts: list[bytes]) -> None:
        """In their order they open, and hold what was sealed."""
        chain = chain_of(UID, 1, b"header")
        opened = [open_frame(KEY.private, chain, each) for each in sealed_frames(texts)]
        self.assertEqual([each.data for each in opened], texts)

    @given(st.data(), st.lists(st.binary(max_size=50), min_size=2, max_size=5, unique=True))
    @settings(max_examples=examples(100))
    def test_moved(self, data: st.DataObject, texts: list[bytes]) -> None:
        """One that is left out, repeated, moved or altered is found at once."""
        frames = sealed_frames(texts)
        at = data.draw(st.integers(0, len(frames) - 1))
        other = data.draw(st.integers(0, len(frames) - 1).filter(lambda one: one != at))
        bit = data.draw(st.integers(0, 8 * len(frames[at]) - 1))
        altered = bytearray(frames[at])
        altered[bit // 8] ^= 1 << bit % 8
        chain = chain_of(UID, 1, b"header")
        for each in frames[:at]:
            open_frame(KEY.private, chain, each)
        for wrong in (frames[other], bytes(altered)):
            self.assertRaises(Malformed, open_frame, KEY.private, evolve(chain), wrong)

    def test_elsewhere(self) -> None:
        """One of another session, channel, header or key is none of this recording."""
        [frame] = sealed_frames([b"text"])
        for chain in (
            chain_of(bytes(16), 1, b"header"),
            chain_of(UID, 2, b"header"),
            chain_of(UID, 1, b"another"),
        ):
            self.assertRaises(Malformed, open_frame, KEY.private, chain, frame)
        mine = chain_of(UID, 1, b"header")
        self.assertRaises(Malformed, open_frame, bytes(31) + b"\1", mine, frame)

    @given(st.binary(max_size=40))
    @settings(max_examples=examples(100))
    def test_lengths(self, data: bytes) -> None:
        """Whatever stands in a file is a frame, the beginning of one, or refused."""
        try:
            found = next_frame(data, 0, MOST_SEALED)
        except Malformed:
            return
        self.assertTrue(found is None or data[4:].startswith(found))
