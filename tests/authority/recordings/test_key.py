"""The keys that recordings are sealed to, as files."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.recordings.key import (
    RecordingKeyRotation,
    file_of,
    load_recording_keys,
    read_recording_keys,
    rotate_recording_key,
)
from svc.errors import ConfigError, SvcError
from svc.runtime.threads import inline
from tests.authority.house import value_of
from tests.support.logged import logged

FILE = "recording.key"


class KeyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.keys = Path(self.mktemp()).absolute()
        self.keys.mkdir(mode=0o700)
        self.first = load_recording_keys(self.keys, os.urandom).current

    def names(self) -> list[str]:
        return sorted(each.name for each in self.keys.iterdir())

    def test_first(self) -> None:
        """A directory without a key gets one, and keeps it."""
        self.assertEqual(self.names(), [FILE])
        self.assertEqual(load_recording_keys(self.keys, os.urandom).current, self.first)

    def test_rotated(self) -> None:
        """A new key is in use, and all of before open what was sealed to them."""
        second = rotate_recording_key(self.keys, os.urandom)
        third = rotate_recording_key(self.keys, os.urandom)
        found = load_recording_keys(self.keys, os.urandom)
        self.assertEqual(found.current, third)
        for one in (self.first, second, third):
            self.assertEqual(found.opening(one.public), one.private)
            self.assertEqual((self.keys / file_of(one.public)).stat().st_mode & 0o777, 0o600)
        self.assertEqual(len(self.names()), 4)
        error = self.assertRaises(SvcError, found.opening, bytes(32))
        self.assertEqual(error.reason, "recording_key")
        self.assertIn(file_of(bytes(32)), error.text)

    def test_interrupted(self) -> None:
        """Whoever is stopped before the new key is in use has lost none."""
        second = rotate_recording_key(self.keys, os.urandom)
        (self.keys / FILE).write_text(self.first.private.hex())  # as if it had not come to that
        found = read_recording_keys(self.keys)
        self.assertEqual((found.current, found.former), (self.first, (second,)))

    def test_missing(self) -> None:
        """Where only keys of before are left none is made in the place of the one in use."""
        rotate_recording_key(self.keys, os.urandom)
        (self.keys / FILE).unlink()
        for call in (
            lambda: load_recording_keys(self.keys, os.urandom),
            lambda: rotate_recording_key(self.keys, os.urandom),
        ):
            error = self.assertRaises(ConfigError, call)
            self.assertIn("put it back", error.text)
        self.assertNotIn(FILE, self.names())

    def test_open_to_others(self) -> None:
        """A key that others can read is not used, one of before neither."""
        rotate_recording_key(self.keys, os.urandom)
        (self.keys / file_of(self.first.public)).chmod(0o644)
        self.assertRaises(ConfigError, read_recording_keys, self.keys)

    def test_followed(self) -> None:
        """A running Authority takes the new key, and goes on with its own where that is no good."""
        events = logged(self)
        rotation = RecordingKeyRotation(
            self_keys := read_recording_keys(self.keys),
            read=lambda: read_recording_keys(self.keys),
            in_thread=inline,
            is_paused=lambda: False,
        )
        value_of(rotation.follow())
        self.assertEqual((rotation.keys, events), (self_keys, []))
        second = rotate_recording_key(self.keys, os.urandom)
        for _ in range(2):
            value_of(rotation.follow())
            self.assertEqual(rotation.keys.current, second)
        self.assertEqual(rotation.keys.opening(self.first.public), self.first.private)
        (self.keys / FILE).write_text("nothing\n")
        for _ in range(2):
            value_of(rotation.follow())
        self.assertEqual(rotation.keys.current, second)
        told = [one["log_format"] for one in events]
        self.assertEqual(
            told, ["recordings are sealed to a newer key", "a key in keys/ was not accepted"]
        )

    def test_paused(self) -> None:
        """While rotation is paused a newer key opens what it should, and is not the one in use."""
        paused = True
        rotation = RecordingKeyRotation(
            read_recording_keys(self.keys),
            read=lambda: read_recording_keys(self.keys),
            in_thread=inline,
            is_paused=lambda: paused,
        )
        second = rotate_recording_key(self.keys, os.urandom)
        value_of(rotation.follow())
        self.assertEqual(rotation.keys.current, self.first)
        self.assertEqual(rotation.keys.opening(second.public), second.private)
        paused = False
        value_of(rotation.follow())
        self.assertEqual(rotation.keys.current, second)
