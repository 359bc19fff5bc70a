"""Every certificate as Java's keytool, Node.js and OpenSSL read it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import environment
from tests.interop.certificates import GENERATION, HOST, Sample, samples
from tests.interop.stage import NODE
from tests.support.tools import stock_tool

DOCUMENT_SIGNING = "1.3.6.1.5.5.7.3.36"
SERVER, CLIENT = "1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"


class ReadingCase(SynchronousTestCase):
    """A directory in which stock programs are run."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir()

    def ran(self, *words: str, stdin: str = "", status: int = 0) -> str:
        """What a program wrote to either output; it ended with this status."""
        done = subprocess.run(
            words,
            input=stdin,
            cwd=self.directory,
            env=environment(self.directory),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}")
        return done.stdout

    def file(self, name: str, *texts: str) -> str:
        """The path of a new file of certificates."""
        path = self.directory / f"{name}.pem"
        path.write_text("".join(texts), "ascii")
        return str(path)


def _imported() -> list[Sample]:
    """The first of each sort, or all."""
    if os.environ.get("SVC_LONG") == "1":
        return list(samples().values())
    sorts = {(one.is_ca, one.is_client, one.is_server): one for one in samples().values()}
    return list(sorts.values())


class KeytoolTests(ReadingCase):
    """Java 17's keytool."""

    def keytool(self, *words: str) -> str:
        """What it says; without looking for a faster way to run it."""
        return self.ran(stock_tool("keytool"), "-J-XX:TieredStopAtLevel=1", *words)

    def test_prints(self) -> None:
        """It prints each, with its URI and its usages by number or name."""
        found = samples()
        every = self.file("every", *(each.chain[0] for each in found.values()))
        printed = self.keytool("-printcert", "-file", every).split("Certificate[")[1:]
        self.assertEqual(len(printed), len(found))
        for sample, text in zip(found.values(), printed, strict=True):
            self.assertIn(f"URIName: {sample.uri}\n", text)
            self.assertEqual(f"SERIALNUMBER={GENERATION}" in text, sample.is_client, text)
            self.assertEqual(f"  {DOCUMENT_SIGNING}\n" in text, sample.is_purpose, text)
            self.assertEqual("  serverAuth\n" in text, sample.is_server, text)
            self.assertEqual("  clientAuth\n" in text, sample.is_client, text)

    def test_imports(self) -> None:
        """It imports each sort into a key store and lists it; in the long form every certificate.

        Each import is a Java of its own.
        """
        found = {name: one for name, one in samples().items() if one in _imported()}
        store = ("-keystore", str(self.directory / "store.p12"), "-storepass", "without")
        for sample in found.values():
            path = self.file(sample.name, sample.chain[0])
            words = ("-importcert", "-noprompt", "-alias", sample.name, "-file", path)
            self.assertIn("was added to keystore", self.keytool(*words, *store))
        listed = self.keytool("-list", *store)
        for name in found:
            self.assertIn(f"\n{name}, ", listed)


class NodeTests(ReadingCase):
    """Node's ``crypto.X509Certificate``."""

    def looked(self) -> list[tuple[Sample, dict[str, Any]]]:
        """What it makes of each sort."""
        found = list(samples().values())
        asked = {"root": samples()["root"].chain[0], "chains": [each.chain for each in found]}
        told = self.ran(stock_tool("node"), str(NODE / "certificates.js"), stdin=json.dumps(asked))
        return list(zip(found, json.loads(told), strict=True))

    def test_every_sort(self) -> None:
        """It reads names, usages and subject of each, and finds each signed by its issuer."""
        for sample, seen in self.looked():
            self.assertIn(f"URI:{sample.uri}", seen["names"])
            self.assertEqual(seen["ca"], sample.is_ca, sample)
            self.assertTrue(seen["issued"], sample)
            usages = {DOCUMENT_SIGNING} if sample.is_purpose else set()
            usages |= {CLIENT} if sample.is_client else set()
            usages |= {SERVER} if sample.is_server else set()
            self.assertEqual(set(seen["usages"]), usages, sample)
            lines = seen["subject"].split("\n")
            self.assertEqual(f"serialNumber={GENERATION}" in lines, sample.is_client)
            self.assertEqual(seen["host"], HOST if sample.is_server else "")


class OpensslTests(ReadingCase):
    """``openssl verify``, in its strict form."""

    def verify(self, sample: Sample, *more: str, status: int = 0) -> str:
        """What it says of a chain to the cluster's root."""
        openssl = stock_tool("openssl")
        root = self.file("root", *samples()["root"].chain)
        words = [openssl, "verify", "-x509_strict", "-CAfile", root]
        if sample.chain[1:]:
            words += ["-untrusted", self.file("above", *sample.chain[1:])]
        return self.ran(*words, *more, self.file("leaf", sample.chain[0]), status=status)

    def test_every_sort(self) -> None:
        """It finds every chain good, by the letter of RFC 5280."""
        for sample in samples().values():
            self.assertIn("leaf.pem: OK\n", self.verify(sample))

    def test_purposes(self) -> None:
        """A purpose certificate is no server's, no client's and nobody's CA; others as meant."""
        for sample in samples().values():
            if sample.is_ca:
                continue
            for purpose, is_good in (
                ("sslserver", sample.is_server),
                ("sslclient", sample.is_client),
            ):
                said = self.verify(sample, "-purpose", purpose, status=0 if is_good else 2)
                if not is_good:
                    self.assertRegex(said, "unsuitable certificate purpose|unsupported certificate")
