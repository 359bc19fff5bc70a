"""``[oidc]``: given whole or not at all, and never with a credential in it."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.config import read_settings
from svc.config.problems import ConfigErrors
from svc.config.values import OidcSettings
from tests.config.malformed import CANARY, GOOD
from tests.support.proof import proves

WHOLE = 'issuer = "https://id.example"\nclient_id = "svc"\n'


class OidcTests(SynchronousTestCase):
    """Of an Authority."""

    def read(self, text: str) -> OidcSettings:
        """The settings."""
        return read_settings(f"{GOOD['authority']}\n[oidc]\n{text}", "authority").oidc

    def refused(self, text: str) -> str:
        """Why a text is refused."""
        errors = self.assertRaises(ConfigErrors, self.read, text)
        self.assertNotIn(CANARY, str(errors))
        return str(errors)

    @proves("G-IDN-09", "U-OIDC-01")
    def test_both_or_neither(self) -> None:
        """An issuer without a client, or the reverse, is refused, and the other one named."""
        self.assertIn("oidc.client_id", self.refused('issuer = "https://id.example"\n'))
        self.assertIn("oidc.issuer", self.refused('client_id = "svc"\n'))
        self.assertIsNone(self.read("").issuer)
        self.assertEqual(self.read(WHOLE).client_id, "svc")

    def test_client_is_not_the_cluster(self) -> None:
        """An ID token of a browser's sign-in must not pass for a machine's."""
        cluster = read_settings(GOOD["authority"], "authority").cluster
        refused = self.refused(f'issuer = "https://id.example"\nclient_id = "{cluster}"\n')
        self.assertIn("oidc.client_id", refused)
        self.assertIn("cluster's name", refused)

    def test_flows(self) -> None:
        """Without a word of the operator people sign in with a browser only."""
        self.assertEqual(self.read(WHOLE).flows, ("code",))
        self.assertEqual(self.read(f'{WHOLE}flows = ["token", "code"]\n').flows, ("token", "code"))

    @proves("G-CFG-19", "U-OPEN-15")
    def test_names(self) -> None:
        """The keys have the recommended names, and mean nothing special where they are absent."""
        found = self.read(
            WHOLE
            + 'scopes = ["openid"]\ngroups_claim = "groups"\nextra_params = {prompt = "login"}\n'
            + '[oidc.device]\npending_errors = ["AADSTS70016"]\ninterval = 8\nexpires_in = 60\n'
        )
        self.assertEqual((found.scopes, found.groups_claim), (("openid",), "groups"))
        self.assertEqual(found.extra_params, {"prompt": "login"})
        device = found.device
        self.assertEqual(device.pending_errors, ("AADSTS70016",))
        self.assertEqual((device.interval, device.expires_in), (8, 60))
        device = self.read(WHOLE).device
        self.assertEqual(device.pending_errors, ())
        self.assertEqual((device.interval, device.expires_in), (None, None))

    @proves("U-OIDC-07", "U-OPEN-17")
    def test_no_credentials(self) -> None:
        """A parameter that could hold a credential is refused, in any spelling, unshown."""
        for name in (
            "client_secret",
            "password",
            "client_assertion",
            "assertion",
            "code",
            "code_verifier",
            "access_token",
            "Refresh_Token",
            "id_token_hint",
            "API_KEY",
            "apikey",
            "MySecret",
            "client_id",
            "grant_type",
            "device_code",
            "scope",
            "State",
            "nonce",
            "redirect_uri",
            "response_type",
            "request",
        ):
            with self.subTest(name):
                refused = self.refused(f'{WHOLE}extra_params = {{{name} = "{CANARY}"}}\n')
                self.assertIn("oidc.extra_params", refused)
        self.read(f'{WHOLE}extra_params = {{audience = "x", login_hint = "y", acr_values = "z"}}\n')

    def test_forms(self) -> None:
        """What no provider can be, and what would wait for ever, is refused."""
        for text, path in (
            ('issuer = "http://id.example"\nclient_id = "svc"\n', "oidc.issuer"),
            ('issuer = "https://id.example?x=1"\nclient_id = "svc"\n', "oidc.issuer"),
            ('issuer = "https://u:p@id.example"\nclient_id = "svc"\n', "oidc.issuer"),
            ('issuer = "https://id.example"\nclient_id = ""\n', "oidc.client_id"),
            (f"{WHOLE}flows = []\n", "oidc.flows"),
            (f'{WHOLE}flows = ["code", "code"]\n', "oidc.flows"),
            (f'{WHOLE}flows = ["password"]\n', "oidc.flows"),
            (f'{WHOLE}scopes = ["profile"]\n', "oidc.scopes"),
            (f'{WHOLE}scopes = ["openid", "a b"]\n', "oidc.scopes"),
            (f'{WHOLE}reach = ["10.0.0.1/8"]\n', "oidc.reach"),
            (f'{WHOLE}ca_file = "ca.pem"\n', "oidc.ca_file"),
            (f'{WHOLE}[oidc.device]\npending_errors = [""]\n', "oidc.device.pending_errors"),
            (f"{WHOLE}[oidc.device]\ninterval = 0\n", "oidc.device.interval"),
            (f"{WHOLE}[oidc.device]\nexpires_in = 0\n", "oidc.device.expires_in"),
            (f"{WHOLE}[oidc.device]\nintervall = 5\n", "oidc.device.intervall"),
        ):
            with self.subTest(text):
                self.assertIn(path, self.refused(text))
