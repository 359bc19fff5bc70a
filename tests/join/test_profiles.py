"""Where people sign in, told by two sources that do not agree."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.join.profiles import KeptProfile, ToldProfile, check_same
from svc.proto.gate.v1 import sign_in_pb2 as pb
from tests.support.proof import proves

FIRST = ToldProfile(
    source="gate-a.example:7443",
    cluster="c1.example",
    issuer="https://id.example",
    client_id="svc",
)
SECOND = evolve(FIRST, source="gate-b.example:7443")


class ProfileTests(SynchronousTestCase):
    """Of one cluster."""

    def refused(self, *told: ToldProfile) -> str:
        """The text of a refusal."""
        refusal = self.assertRaises(SvcError, check_same, told, "ask your operator")
        self.assertEqual(refusal.reason, "profile_conflict")
        return str(refusal.text)

    @proves("U-OIDC-02", "U-OIDC-03")
    def test_conflict(self) -> None:
        """Two sources that differ in issuer or client are refused, and both are named."""
        check_same((FIRST, SECOND), "ask your operator")
        other = evolve(SECOND, issuer="https://other.example")
        said = self.refused(FIRST, other)
        for word in (FIRST.source, FIRST.issuer, other.source, other.issuer, "c1.example"):
            self.assertIn(word, said)
        self.assertIn("as the client web", self.refused(FIRST, evolve(SECOND, client_id="web")))
        said = self.refused(FIRST, SECOND, evolve(SECOND, issuer="", client_id=""))
        self.assertIn("at no provider", said)
        check_same((FIRST, evolve(other, cluster="c2.example")), "ask your operator")

    @proves("U-OIDC-02")
    def test_partial(self) -> None:
        """A profile with one of issuer and client id is refused, as a configuration is."""
        for issuer, client_id in (("https://id.example", ""), ("", "svc")):
            profile = pb.SignInProfile(cluster="c1.example", issuer=issuer, client_id=client_id)
            refusal = self.assertRaises(SvcError, ToldProfile.of, "a Proxy", profile)
            self.assertEqual(refusal.reason, "profile_partial")
        ToldProfile.of("a Proxy", pb.SignInProfile(cluster="c1.example"))

    def test_kept(self) -> None:
        """Another profile of the cluster than the one kept is refused until that is removed."""
        kept = KeptProfile(Path(self.mktemp()))
        kept.directory.mkdir()
        self.assertIsNone(kept.read())
        kept.check(FIRST)
        self.assertIsNone(kept.read(), "what nobody was sent to binds nobody")
        kept.keep(FIRST)
        kept.check(SECOND)
        other = evolve(FIRST, issuer="https://other.example")
        refusal = self.assertRaises(SvcError, kept.check, other)
        self.assertIn(str(kept.path), refusal.text)
        self.assertIn("https://other.example", refusal.text)
        kept.path.unlink()
        kept.check(other)
        kept.keep(other)
        self.assertEqual(kept.read(), evolve(other, source=str(kept.path)))
        for text in ("{", "[]", '{"cluster": 1, "issuer": "", "client_id": ""}'):
            kept.path.write_text(text)
            self.assertIsNone(kept.read())
