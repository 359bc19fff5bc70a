"""Join tokens: made, shown, parsed, compared."""

from __future__ import annotations

from hashlib import sha256

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.model.cluster.token import JoinToken, TokenRefused, make_token, parse_token
from tests.support.proof import proves

ids = st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=16, max_size=16)
secrets = st.binary(min_size=32, max_size=32)


def fixed(size: int) -> bytes:
    return bytes(range(size))


class TokenTests(SynchronousTestCase):
    """One token's life."""

    @proves("G-OPEN-07")
    def test_form(self) -> None:
        """A token reads svcj1, id, secret, check; the id can be told alone."""
        token = make_token(fixed)
        start, id, rest = token.text.split("_", 2)
        self.assertEqual((start, id, len(token.text)), ("svcj1", token.id, 75))
        self.assertEqual(len(rest), 43 + 1 + 8)
        self.assertRegex(id, r"\A[a-z2-7]{16}\Z")
        self.assertEqual(token.secret_sha256, sha256(token.secret).digest())

    def test_repr(self) -> None:
        """Showing a token by accident shows its id and none of its secret."""
        token = JoinToken("a" * 16, b"S" * 32)
        self.assertIn("a" * 16, repr(token))
        self.assertNotIn("SSSS", repr(token))
        self.assertNotIn(token.text, f"{token}")

    def test_matches(self) -> None:
        """A token matches the hash of its own secret and no other."""
        token = make_token(fixed)
        self.assertTrue(token.matches(token.secret_sha256))
        self.assertFalse(token.matches(sha256(b"other").digest()))
        self.assertFalse(token.matches(b""))

    @settings(deadline=None)
    @given(ids, secrets)
    def test_round_trip(self, id: str, secret: bytes) -> None:
        """Every token is read back as it was, with a file's last newline too."""
        token = JoinToken(id, secret)
        self.assertEqual(parse_token(token.text), token)
        self.assertEqual(parse_token(f" {token.text}\n"), token)

    @settings(deadline=None)
    @given(st.text(max_size=300))
    def test_any_text(self, text: str) -> None:
        """Any text at all is either refused or the very text of the token it gives."""
        try:
            token = parse_token(text)
        except TokenRefused:
            return
        self.assertEqual(token.text, text.strip(" \t\r\n"))

    @settings(deadline=None)
    @given(ids, secrets, st.integers(0, 74), st.characters())
    def test_one_character(self, id: str, secret: bytes, place: int, other: str) -> None:
        """A token with one character changed is refused, and the refusal shows nothing of it."""
        text = JoinToken(id, secret).text
        changed = text[:place] + other + text[place + 1 :]
        if changed == text:
            return
        if changed.strip(" \t\r\n") == text:
            return
        error = self.assertRaises(TokenRefused, parse_token, changed)
        self.assertNotIn(text[23:66], error.text)

    def test_empty(self) -> None:
        """An empty text is called so: whoever reads it looks for the command that wrote it."""
        for text in ("", " \n"):
            refusal = self.assertRaises(TokenRefused, parse_token, text)
            self.assertIn("none was given", refusal.text)

    def test_cut_and_long(self) -> None:
        """Tokens cut short, doubled, and texts without end are refused."""
        text = make_token(fixed).text
        for bad in ("", text[:-1], text[1:], text + text, "x" * 10_000_000, text + " " * 300):
            self.assertRaises(TokenRefused, parse_token, bad)

    def test_other_spelling_of_the_secret(self) -> None:
        """Spare bits of the last character cannot spell the same secret in another way."""
        from zlib import crc32

        text = make_token(lambda size: b"\0" * size).text
        body = text[: 23 + 42] + "B"
        self.assertRaises(TokenRefused, parse_token, f"{body}_{crc32(body.encode()):08x}")
