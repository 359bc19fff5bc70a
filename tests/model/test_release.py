"""Versions and tags of releases."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.model.release import Channel, Version, VersionRefused, parse_tag, parse_version
from tests.support.proof import proves

_NUMBERS = st.integers(0, 10**9 - 1)
_PRE = st.sampled_from((Channel.ALPHA, Channel.BETA, Channel.RC))
VERSIONS = st.one_of(
    st.builds(Version, _NUMBERS, _NUMBERS, _NUMBERS),
    st.builds(Version, _NUMBERS, _NUMBERS, _NUMBERS, _PRE, st.integers(1, 10**9 - 1)),
)


class VersionTests(SynchronousTestCase):
    """Their form and their order."""

    @given(VERSIONS)
    def test_written_and_read(self, version: Version) -> None:
        """What is written is read as the same version."""
        self.assertEqual(parse_version(str(version)), version)
        self.assertEqual(parse_tag(version.tag), version)

    @proves("X-24")
    def test_order(self) -> None:
        """Numbers are compared as numbers, and a final release comes after its candidates."""
        texts = ["0.9.0-rc.11", "0.9.0", "0.10.0-alpha.2", "0.10.0-beta.1", "0.10.0-rc.9"]
        texts += ["0.10.0-rc.10", "0.10.0", "0.11.0-rc.7"]
        self.assertNotEqual(sorted(texts), texts)
        self.assertEqual([str(one) for one in sorted(map(parse_version, reversed(texts)))], texts)

    @proves("U-OPEN-04", "U-REL-01")
    def test_tags(self) -> None:
        """Each tag has its channel; what is of another form has none."""
        for text, channel in (
            ("v1.2.3-alpha.4", Channel.ALPHA),
            ("v1.2.3-beta.1", Channel.BETA),
            ("v0.11.0-rc.7", Channel.RC),
            ("v0.9.0", Channel.RELEASE),
        ):
            self.assertIs(parse_tag(text).channel, channel)
        for text in (
            *("v1.2.3-rc.01", "v1.2", "1.2.3", "v01.2.3", "v1.2.3-dev.1", "v1.2.3-pre.1"),
            *("v1.2.3-rc", "v1.2.3-rc.0", "v1.2.3-", "v1.2.3 ", "v1.2.3\n", "vv1.2.3", "v", ""),
            *("v1.2.3-RC.1", "v1.2.3+b", "v1.2.\u0663"),
        ):
            with self.assertRaises(VersionRefused, msg=text):
                parse_tag(text)
