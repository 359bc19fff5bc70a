"""An identity provider on this machine, and a browser that a test drives through its pages."""

from __future__ import annotations

import datetime
import http.client
import json
import re
import ssl
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from attrs import define, field, frozen
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from svc.testing.gateway.processes import Child, until
from tests.interop.stage import INSTALLED, NODE
from tests.support.tools import missing, stock_tool

CLIENT = "svc"
_ISSUER = re.compile(r"^(https://.*)\n", re.M)
_FORM = re.compile(r'<form[^>]* action="([^"]+)"(.*?)</form>', re.DOTALL)
_INPUT = re.compile(r"<input[^>]*>")
_CANCEL = re.compile(r'<a href="([^"]+)">\[ Cancel \]</a>')
_ATTRIBUTE = re.compile(r'(name|value|type)="([^"]*)"')


@frozen
class Page:
    """What a browser shows in the end."""

    status: int
    url: str
    text: str


@define(eq=False)
class IdentityProvider:
    """The provider's process."""

    child: Child
    issuer: str
    certificate: Path

    @property
    def keys(self) -> dict[str, Any]:
        """What an Authority is configured with to have people sign in here."""
        return {
            "oidc.issuer": self.issuer,
            "oidc.client_id": CLIENT,
            "oidc.flows": ["code", "device", "token"],
            "oidc.ca_file": str(self.certificate),
            "oidc.reach": ["127.0.0.0/8"],
        }

    def set_accounts(self, **claims: Mapping[str, Any] | None) -> None:
        """Give accounts these claims; with None the account is gone."""
        self._control("accounts", json.dumps(claims))

    def answer_next(self, path: str, *answers: Mapping[str, Any]) -> None:
        """Have the next requests of a path answered with these."""
        self._control("answers", json.dumps({path: answers}))

    def add_cluster(self, name: str) -> None:
        """Have a client by the name of the cluster, whose tokens are for machines."""
        self._control("cluster", name)

    def sign_by(self, key: str) -> None:
        """Sign by the key of this name, which is made if need be, and have no other."""
        self._control("keys", key)

    def have_device_codes_live(self, seconds: int) -> None:
        """From now on."""
        self._control("life", str(seconds))

    def seen(self, path: str) -> int:
        """How many requests a path has had."""
        counts: dict[str, int] = json.loads(self._control("seen", ""))
        return counts.get(path, 0)

    def browser(self) -> Browser:
        """A browser that trusts the provider, without a session there."""
        return Browser(ssl.create_default_context(cafile=str(self.certificate)))

    def id_token(self, client: str, login: str) -> str:
        """An ID token of an account for a client, as a machine's platform gives one."""
        verifier = "v" * 43
        digest = sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": client,
            "redirect_uri": "http://127.0.0.1:9/callback",
            "scope": "openid email",
            "code_challenge": urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        browser = self.browser()
        browser.stops_at = "http://127.0.0.1:9"
        page = browser.sign_in(f"{self.issuer}/auth?{urlencode(asked)}", login)
        (code,) = parse_qs(urlsplit(page.text).query)["code"]
        form = {
            "grant_type": "authorization_code",
            "client_id": client,
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": asked["redirect_uri"],
        }
        answer = browser.send("POST", f"{self.issuer}/token", urlencode(form).encode())
        found: str = json.loads(answer.text)["id_token"]
        return found

    def _control(self, path: str, body: str) -> str:
        browser = self.browser()
        page = browser.send("POST", f"{self.issuer}/_test/{path}", body.encode())
        assert page.status == 200, page
        return page.text


@define(eq=False)
class Browser:
    """Follows redirects, keeps cookies, and fills in forms.

    Attributes:
        stops_at: Redirects to URLs that begin so are not followed.
    """

    trust: ssl.SSLContext
    stops_at: str = "http://nowhere.invalid"
    cookies: dict[str, str] = field(factory=dict)

    def open(self, url: str) -> Page:
        """A page, redirects followed; those of a loopback listener end here."""
        return self._followed(self.send("GET", url))

    def sign_in(self, url: str, login: str, **more: str) -> Page:
        """Open a provider's page, and do what its forms ask for until there are none."""
        page = self.open(url)
        for _ in range(6):
            form = _FORM.search(page.text)
            if form is None or page.url.startswith("http://127.0.0.1"):
                return page
            page = self.submit(page, login=login, password="x", **more)
        return page

    def deny(self, url: str) -> Page:
        """Open a provider's page, and cancel where it asks who one is."""
        page = self.open(url)
        for _ in range(3):
            link = _CANCEL.search(page.text)
            if link is not None:
                return self.open(urljoin(page.url, unescape(link[1])))
            page = self.submit(page)
        raise AssertionError(f"nothing to cancel: {page}")

    def submit(self, page: Page, **values: str) -> Page:
        """Send a page's form with these values."""
        form = _FORM.search(page.text)
        assert form is not None, page.text
        fields = {}
        for found in _INPUT.finditer(form[2]):
            named = dict(_ATTRIBUTE.findall(found[0]))
            if "name" in named:
                fields[named["name"]] = unescape(named.get("value", ""))
        fields |= {name: value for name, value in values.items() if name in fields}
        body = urlencode(fields).encode()
        url = urljoin(page.url, unescape(form[1]))
        return self._followed(self.send("POST", url, body))

    def send(self, method: str, url: str, body: bytes | None = None) -> Page:
        """One request; of a redirect the text is where it leads."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
        made: http.client.HTTPConnection
        if parts.scheme == "https":
            made = http.client.HTTPSConnection(host, port, timeout=20, context=self.trust)
        else:
            made = http.client.HTTPConnection(host, port, timeout=40)
        headers = {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        if body is not None:
            headers["content-type"] = "application/x-www-form-urlencoded"
        try:
            made.request(method, f"{parts.path or '/'}?{parts.query}", body, headers)
            answer = made.getresponse()
            for cookie in answer.headers.get_all("set-cookie") or ():
                name, _, value = cookie.partition(";")[0].partition("=")
                self.cookies[name.strip()] = value
            text = answer.read().decode("utf-8", "replace")
            if 300 <= answer.status < 400:
                text = urljoin(url, answer.headers["location"])
            return Page(answer.status, url, text)
        finally:
            made.close()

    def _followed(self, page: Page) -> Page:
        for _ in range(12):
            if not 300 <= page.status < 400 or page.text.startswith(self.stops_at):
                return page
            page = self.send("GET", page.text)
        raise AssertionError(f"too many redirects: {page}")


@cache
def provider(directory: Path) -> IdentityProvider:
    """A provider whose files lie in *directory*; ends with this process.

    Raises:
        SkipTest: Node.js, or the package, is missing.
    """
    node = stock_tool("node")
    if not INSTALLED.exists():
        missing("oidc-provider is not installed: make tests/interop/node/node_modules/.made")
    key, certificate = _self_signed(directory)
    child = Child(
        name="provider",
        words=[node, str(NODE / "oidc.js"), str(key), str(certificate)],
        home=directory,
        log=directory / "provider.log",
    )
    child.start()
    told = until("provider", lambda: _ISSUER.search(child.text()), 30, [child])
    return IdentityProvider(child, told[1], certificate)


def _self_signed(directory: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .add_extension(x509.BasicConstraints(True, None), True)
        .sign(key, SHA256())
    )
    key_file, certificate_file = directory / "provider.key", directory / "provider.pem"
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificate_file.write_bytes(certificate.public_bytes(Encoding.PEM))
    return key_file, certificate_file
