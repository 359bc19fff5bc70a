"""Web applications that are told who makes each request, through a gateway of real processes."""

from __future__ import annotations

import json
import socket
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Ran, run, until
from svc.testing.gateway.settings import AUTHORITY, POLICY, GatewayTarget
from tests.interop.stage import node
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.board import Site

RUN_BY = "make fault"

KINDS = ["ssh", "tcp", "web"]
ACTING = """
@id("no-acting")
forbid (principal, action == Action::"actAs", resource)
unless { ["bob", "eve"].contains(resource.name) };

@id("not-for-bob")
forbid (principal, action == Action::"webAccess", resource)
when { principal.name == "bob" && context has path && context.path like "/closed*" };
"""


@define(eq=False)
class Told:
    """A gateway whose application is told who asks, and another that is not."""

    site: Site = field(factory=Site)
    gateway: Gateway = field(init=False)
    person: GatewayPerson = field(init=False)

    def __attrs_post_init__(self) -> None:
        address = f"127.0.0.1:{self.site.server_address[1]}"
        told = GatewayTarget("told", address, "web", more={"identity": True})
        plain = GatewayTarget("plain", address, "web")
        self.gateway = make_gateway([told, plain], numbers={"plugins.kinds": KINDS})
        self.person = self.gateway.add_person("ada", "ops")
        config = self.person.directory / "client.toml"
        config.write_text(f"plugins.kinds = {KINDS}\n{config.read_text('utf-8')}", "utf-8")
        for name, groups in (("bob", ["ops"]), ("carl", ["ops"]), ("eve", [])):
            words = [word for group in groups for word in ("--group", group)]
            self.gateway.operator("persons", "add", name, *words)
        self.gateway.set_policy(POLICY + ACTING)
        self.person.up("told")
        until("both are there", lambda: self.person.endpoint("plain"))

    def url(self, resource: str) -> str:
        """Of its local endpoint."""
        host, port = self.person.endpoint(resource)
        return f"http://{host}:{port}"

    @property
    def keys(self) -> str:
        """The URL of the key set."""
        return f"http://{self.gateway.listening(AUTHORITY)['telemetry']}/jwks.json"

    @property
    def key_file(self) -> Path:
        """The file of the key set."""
        return self.gateway.files.state(AUTHORITY) / "jwks.json"

    def id_of(self, name: str) -> str:
        """Of a person."""
        people = self.gateway.operator("persons", "list", "--json").json
        return next(str(one["id"]) for one in people if one["name"] == name)

    @property
    def audience(self) -> str:
        """What the resource is called in tokens."""
        found = self.gateway.operator("resources", "list", "--json").json
        return next(str(one["identity"]) for one in found if one["id"] == "told")


@cache
def told() -> Told:
    """The one of this process."""
    return Told()


class IdentityTests(SynchronousTestCase):
    """What the application is told, and who may be named."""

    def setUp(self) -> None:
        self.curl_path = stock_tool("curl", "curl")
        self.told = told()
        self.told.site.heard.clear()

    def curl(self, *words: str) -> Ran:
        """Run curl once."""
        command = [self.curl_path, "-sS", "--noproxy", "*", "--max-time", "30", *words]
        return run(command, self.told.person.home)

    def asked(self, *words: str, resource: str = "told", path: str = "/") -> list[str]:
        """The values under the name, in any spelling, that the application got."""
        ran = self.curl(*words, f"{self.told.url(resource)}{path}").checked()
        headers = json.loads(ran.stdout)["headers"]
        return [
            value for name, value in headers if name.lower().replace("_", "-") == "svc-identity"
        ]

    def refused(self, *words: str, resource: str = "told", path: str = "/") -> tuple[str, Any]:
        """The status and the reason."""
        url = f"{self.told.url(resource)}{path}"
        ran = self.curl("-w", "\n%{response_code}", *words, url).checked()
        said, _, code = ran.stdout.rpartition("\n")
        return code, json.loads(said)["error"]["reason"]

    def claims(self, token: str) -> dict[str, Any]:
        """What a token says to a target that verifies it."""
        keys = jwt.PyJWKSet.from_json(self.told.key_file.read_text("utf-8"))
        header = jwt.get_unverified_header(token)
        self.assertEqual((header["alg"], header["typ"]), ("ES256", "svc-identity+jwt"))
        return jwt.decode(
            token,
            keys[header["kid"]].key,
            algorithms=["ES256"],
            audience=self.told.audience,
            issuer=self.told.gateway.files.cluster,
            options={"require": ["exp", "nbf", "iat", "jti", "sid", "sub"]},
        )

    @proves("G-OPEN-55")
    def test_told(self) -> None:
        """Each request has one token: of the person, for this resource, good for a minute."""
        (token,) = self.asked()
        claims = self.claims(token)
        self.assertEqual((claims["sub"], claims["name"]), (self.told.id_of("ada"), "ada"))
        self.assertEqual(claims["groups"], ["ops"])
        self.assertNotIn("act", claims)
        self.assertLessEqual(claims["exp"] - claims["nbf"], 60)
        issued = self.told.gateway.operator(
            "audit", "show", "--event", "credential.issue", "--last", "9", "--json"
        ).json
        (record,) = (one for one in issued if one["details"]["serial"] == claims["jti"])
        self.assertEqual(record["session_uid"], claims["sid"])
        self.assertEqual(record["details"]["profile"], "svc-identity")
        self.assertNotIn(token, json.dumps(issued))
        self.assertEqual(self.asked(resource="plain"), [])

    def test_kept(self) -> None:
        """The requests of a connection have one token for a while."""
        url = self.told.url("told")
        ran = self.curl(f"{url}/a", f"{url}/b", f"{url}/c", "-w", "\n").checked()
        tokens = {
            value
            for line in ran.stdout.splitlines()
            for name, value in json.loads(line)["headers"]
            if name == "svc-identity"
        }
        self.assertEqual(len(tokens), 1)

    @proves("G-SES-08", "G-ERR-15", "U-NOTE-33", "X-54")
    def test_named(self) -> None:
        """Who is named must be allowed too, and the person must be allowed to name that one."""
        for name, path, answer in (
            ("bob", "/", "bob"),
            ("bob", "/closed/a", ""),
            ("carl", "/", ""),
            ("eve", "/", ""),
            ("nobody", "/", ""),
            ("bob, carl", "/", ""),
            ("ada", "/closed/a", "ada"),
        ):
            words = ("-H", f"Svc-Identity: {name}")
            if not answer:
                for resource in ("told", "plain"):
                    refused = self.refused(*words, resource=resource, path=path)
                    self.assertEqual(refused, ("403", "identity_denied"), (name, resource))
                continue
            (token,) = self.asked(*words, path=path)
            claims = self.claims(token)
            self.assertEqual(claims["sub"], self.told.id_of("ada"))
            acting = {} if answer == "ada" else {"sub": self.told.id_of(answer), "name": answer}
            self.assertEqual({**claims.get("act", {}), **acting}, claims.get("act", {}), name)
            self.assertEqual("act" in claims, answer != "ada")
            self.assertEqual(self.asked(*words, path=path, resource="plain"), [])
        self.assertEqual(self.told.site.heard, ["GET /", "GET /", "GET /closed/a", "GET /closed/a"])

    def test_spellings(self) -> None:
        """Nothing that came under the name in any spelling reaches the application."""
        for words, count in (
            (("svc-identity: ada", "SVC-IDENTITY: ada"), 0),
            (("Svc_Identity: carl",), 0),
            (("svc_identity: ada",), 1),
            (("Connection: svc-identity", "svc-identity: ada"), 1),
            (("Connection: svc-identity",), 1),
            (("X-Svc-Identity: carl", "svc-identity-: x", "Svc-Identity-Token: y"), 1),
            (("svc-identity;",), 0),
        ):
            options = [option for word in words for option in ("-H", word)]
            if not count:
                self.assertEqual(self.refused(*options), ("403", "identity_denied"), words)
                continue
            (token,) = self.asked(*options)
            self.assertEqual(self.claims(token)["name"], "ada")

    def test_jose(self) -> None:
        """npm jose verifies it by the URL and by the file, and refuses another audience."""
        command = node("identity.js")
        (token,) = self.asked()
        asked = {
            "issuer": self.told.gateway.files.cluster,
            "audience": self.told.audience,
            "tokens": [token, token[:-8] + "AAAAAAAA"],
        }
        for keys in (
            {"url": self.told.keys},
            {"keys": json.loads(self.told.key_file.read_text("utf-8"))},
        ):
            told = json.dumps({**asked, **keys}).encode()
            ran = run(command, self.told.person.home, stdin=told)
            first, second = ran.json
            self.assertEqual(first["claims"]["name"], "ada")
            self.assertEqual(second, {"refused": "ERR_JWS_SIGNATURE_VERIFICATION_FAILED"})
        other = json.dumps({**asked, "audience": "plain", "url": self.told.keys}).encode()
        ran = run(command, self.told.person.home, stdin=other)
        self.assertEqual(ran.json[0], {"refused": "ERR_JWT_CLAIM_VALIDATION_FAILED"})

    def test_unavailable(self) -> None:
        """A request whose person nobody can tell the application of does not get there."""
        host, port = self.told.person.endpoint("told")
        with socket.create_connection((host, port), 30) as client:
            head = f"GET /a HTTP/1.1\r\nHost: {host}:{port}\r\n"
            client.sendall(f"{head}\r\n".encode())
            self.assertIn(b"200 OK", client.recv(15))
            self.told.gateway.child(AUTHORITY).kill()
            self.addCleanup(self.told.gateway.start, AUTHORITY)
            client.sendall(f"{head}svc-identity: bob\r\n\r\n".encode())
            said = client.makefile("rb").read()
        self.assertIn(b"HTTP/1.1 503 Service Unavailable\r\n", said)
        self.assertIn(b'"reason": "identity_unavailable"', said)
        self.assertEqual(self.told.site.heard, ["GET /a"])
