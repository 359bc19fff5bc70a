"""The release tool: plans, bills, checksums, signatures, and the chooser of the rollout class."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from twisted.trial.unittest import SynchronousTestCase

from contrib import history, rollout_class
from contrib.release.__main__ import (
    check_committed,
    check_tag,
    main,
    programs_of,
    write_release,
)
from contrib.release.make import ROOT, bill_of, read_key
from contrib.release.plan import ReleasePlan, ReleaseRefused, channel_named, planned
from contrib.release.static.build import TARGET
from contrib.release.static.packages import LOCK, Package, locked_packages
from svc import __version__
from svc.model.release import SIGNATURE, SUMS, Channel, VersionRefused, parse_tag, parse_version
from svc.ops.preflight.artifacts import check_bill, check_signature, check_sums
from tests.cli.terminal import terminal
from tests.ops.preflight.release import public_pem
from tests.support.proof import proves
from tests.support.tools import stock_tool

PUBLISHED = [parse_tag("v0.9.0"), parse_tag("v0.11.0-rc.6"), parse_tag("v0.11.0-beta.2")]
LOCKED = "b-two==2.0 \\\n    --hash=sha256:00\n    # via a\nA.one==1.0\n"
PACKAGES = [Package("libc6", "1:2.36-9+deb12u1", "ab" * 32)]


def plan(tag: str, channel: str = "") -> ReleasePlan:
    """The plan of a tag."""
    version = parse_tag(tag)
    return planned(version, channel_named(channel or version.channel.word), ["svc.whl"], PUBLISHED)


def said(arguments: Sequence[str]) -> tuple[int, str, str]:
    """What the tool printed."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        status = main(arguments)
    return status, out.getvalue(), err.getvalue()


class PlanTests(SynchronousTestCase):
    """Channels, gates, and floating tags."""

    @proves("U-REL-01", "U-REL-02", "U-REL-03", "U-REL-04", "U-REL-05", "U-REL-08")
    def test_channels(self) -> None:
        """Alpha and beta have no gate and no floating tag; the others have both gates, and one."""
        for tag, gates, moves in (
            ("v1.2.3-alpha.4", [], []),
            ("v1.2.3-beta.1", [], []),
            ("v0.11.0-rc.7", ["full", "reproducibility"], ["rc"]),
            ("v0.9.1", ["full", "reproducibility"], ["latest"]),
        ):
            form = plan(tag).form()
            self.assertEqual((form["gates"], list(plan(tag).moves)), (gates, moves), tag)
            self.assertEqual((form["tagged"], form["signed"]), (True, True))
        for word in ("dev", "pre", "RC", "latest", ""):
            with self.assertRaises(ReleaseRefused, msg=word):
                channel_named(word)
        with self.assertRaises(ReleaseRefused):
            plan("v0.11.0-rc.7", "release")

    @proves("U-REL-15")
    def test_editions(self) -> None:
        """The program, the page and the tags agree on which edition is which."""
        self.assertEqual(__version__, "0.11.0-rc.7")
        shown = terminal("--version").stdout
        self.assertEqual(shown, "svc 0.11.0-rc.7\n")
        made = planned(parse_version(__version__), Channel.RC, ["svc"], [parse_tag("v0.9.0")])
        self.assertEqual(made.moves, {"rc": ("", "v0.11.0-rc.7")})
        edition, before = parse_tag("v0.8.23-rc.2"), parse_tag("v0.9.0")
        self.assertLess(edition, before)
        page = (ROOT / "docs" / "how-to" / "release.md").read_text("utf-8")
        for tag in (f"v{__version__}", before.tag, edition.tag):
            self.assertIn(f"`{tag}`", page)

    @proves("U-REL-06", "U-REL-07", "X-25")
    def test_floating_tags(self) -> None:
        """A final release moves :latest alone, and a candidate :rc alone."""
        self.assertEqual(plan("v0.11.0").moves, {"latest": ("v0.9.0", "v0.11.0")})
        self.assertEqual(plan("v0.11.0-rc.7").moves, {"rc": ("v0.11.0-rc.6", "v0.11.0-rc.7")})

    def test_no_way_back(self) -> None:
        """A floating tag goes back only with --force; versions are compared as numbers."""
        self.assertIn("--force", self.assertRaises(ReleaseRefused, plan, "v0.11.0-rc.5").text)
        self.assertEqual(plan("v0.11.0-rc.10").moves["rc"][1], "v0.11.0-rc.10")
        version = parse_tag("v0.8.0")
        forced = planned(version, Channel.RELEASE, ["svc.whl"], PUBLISHED, force=True)
        self.assertEqual(forced.moves, {"latest": ("v0.9.0", "v0.8.0")})

    @proves("U-REL-16")
    def test_tag_of_the_workspace(self) -> None:
        """A tag is v and the workspace's version; another one is refused."""
        version = parse_version(__version__)
        check_tag(None, version)
        check_tag(f"v{__version__}", version)
        self.assertRaises(ReleaseRefused, check_tag, "v0.0.1", version)
        self.assertRaises(VersionRefused, check_tag, __version__, version)


class ToolTests(SynchronousTestCase):
    """The command."""

    def channel(self) -> str:
        """Of this workspace."""
        return parse_version(__version__).channel.word

    @proves("U-OPEN-05", "U-REL-14")
    def test_dry_run(self) -> None:
        """A dry run without a key prints the plan, and says that nothing is signed."""
        status, out, err = said(["--channel", self.channel(), "--dry-run"])
        self.assertEqual((status, err), (0, ""))
        told = json.loads(out)
        self.assertEqual((told["tag"], told["signed"]), (f"v{__version__}", False))
        self.assertEqual(told["artifacts"][-2:], [SUMS, SIGNATURE])
        self.assertIn("not signed", told["notes"][0])

    @proves("U-REL-14", "U-REL-17")
    def test_publishing_needs_a_key(self) -> None:
        """Without a key nothing is published, on no channel; no gate is run for it."""
        status, out, err = said(["--channel", self.channel(), "--out", self.mktemp()])
        self.assertEqual((status, out), (1, ""))
        self.assertIn("published with its signature, on every channel", err)

    def test_what_is_not_committed(self) -> None:
        """The gates run where the release is not built from: so both have to be the same."""
        root = Path(os.path.abspath(self.mktemp()))
        root.mkdir()
        subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
        check_committed(root)
        (root / "new").write_text("")
        self.assertIn("?? new", self.assertRaises(ReleaseRefused, check_committed, root).text)
        shutil.rmtree(root / ".git")
        (root / ".git").write_text("gitdir: /nowhere")
        self.assertRaises(ReleaseRefused, check_committed, root)

    def test_keys(self) -> None:
        """What is no such private key is refused, and what makes one is named."""
        path = Path(self.mktemp())
        path.write_bytes(public_pem(ec.generate_private_key(ec.SECP256R1())))
        self.assertIn("openssl ecparam", self.assertRaises(ReleaseRefused, read_key, path).text)
        path.unlink()
        self.assertIn("no such file", self.assertRaises(ReleaseRefused, read_key, path).text)


class FilesTests(SynchronousTestCase):
    """What is written, as operators read it."""

    @proves("U-REL-10", "U-REL-11", "U-REL-12", "U-REL-13", "X-26")
    def test_read_by_the_preflight(self) -> None:
        """Bill, checksums and signature are those that the preflight and stock tools accept."""
        out = Path(os.path.abspath(self.mktemp()))
        out.mkdir()
        version = parse_version(__version__)
        programs = programs_of(version)
        for program in programs:
            (out / program).write_bytes(b"program")
        made = planned(version, version.channel, programs, ())
        key, keys = ec.generate_private_key(ec.SECP256R1()), out.parent / f"{out.name}.pem"
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        keys.write_bytes(pem)
        write_release(out, made, LOCKED, PACKAGES, read_key(keys))
        public = out.parent / f"{out.name}.pub"
        public.write_bytes(public_pem(key))
        bill = check_bill(out, check_sums(out, check_signature(out, public)))
        self.assertEqual((bill.version, bill.target, bill.components), (version, TARGET, 3))
        self.assertEqual(sorted(made.artifacts), sorted(os.listdir(out)))
        self.assertIn(f"  svc-v{version}-x86_64-unknown-linux-musl\n", (out / SUMS).read_text())
        words = [stock_tool("sha256sum", "coreutils"), "-c", "--strict", SUMS]
        self.assertEqual(subprocess.run(words, cwd=out, capture_output=True).returncode, 0)

    @proves("U-OPEN-03", "U-REL-11")
    def test_bill(self) -> None:
        """The bill is CycloneDX 1.5, in order, without time or chance, from the lock."""
        version = parse_version("0.11.0-rc.7")
        made = bill_of(version, LOCKED, PACKAGES, TARGET)
        told = json.loads(made)
        self.assertEqual(made, bill_of(version, LOCKED, PACKAGES, TARGET))
        self.assertEqual((told["bomFormat"], told["specVersion"]), ("CycloneDX", "1.5"))
        self.assertNotIn("serialNumber", told)
        self.assertNotIn("timestamp", told["metadata"])
        component = told["metadata"]["component"]
        self.assertEqual((component["name"], component["version"]), ("svc", "0.11.0-rc.7"))
        self.assertEqual(
            [one["purl"] for one in told["components"]],
            [
                "pkg:deb/debian/libc6@1%3A2.36-9%2Bdeb12u1?arch=amd64&distro=bookworm",
                "pkg:pypi/a-one@1.0",
                "pkg:pypi/b-two@2.0",
            ],
        )
        self.assertEqual(
            told["components"][0]["hashes"], [{"alg": "SHA-256", "content": "ab" * 32}]
        )
        locked = (ROOT / "requirements" / "runtime.txt").read_text("utf-8")
        packages = locked_packages((ROOT / LOCK).read_text("utf-8"))
        count = len(json.loads(bill_of(version, locked, packages, TARGET))["components"])
        self.assertEqual(count, locked.count("==") + len(packages))
        names = {one.name for one in packages}
        self.assertTrue({"libc6", "libpython3.11-stdlib", "musl-dev"} <= names, names)


class ClassTests(SynchronousTestCase):
    """The rollout class of a change."""

    @proves("U-OPEN-06", "U-CLS-01", "U-CLS-02")
    def test_strictest(self) -> None:
        """The strictest class is named, and what all that fit demand; any flag ends routine."""
        names = [one.name for one in rollout_class.CLASSES]
        for low in range(len(names)):
            for high in range(low, len(names)):
                told = rollout_class.chosen([names[high], names[low]])
                self.assertEqual(told["class"], names[high])
                fits = {names[low], names[high]} - ({"routine"} if high else set())
                self.assertEqual(set(told["classes"]), fits)  # type: ignore[call-overload]
        routine = rollout_class.chosen([])
        self.assertEqual(
            (routine["class"], routine["minimum_channel"]), ("routine", ["alpha", "beta"])
        )
        with self.assertRaises(ValueError):
            rollout_class.chosen(["other"])

    @proves("U-CLS-03", "U-CLS-04", "U-CLS-05", "U-CLS-06", "U-CLS-07", "U-CLS-08")
    def test_rows(self) -> None:
        """Each class but routine is a candidate first, and demands what its row says."""
        for name, words in (
            ("cert-or-wire", ("Authority, Proxy, Connector and consumers", "full gate")),
            ("store", ("paired store and key backup", "planned migration", "restore point")),
            ("policy", ("vocabulary", "break-glass", "approval path")),
            ("audit-or-recording-consumer", ("event names", "recording format", "parsers")),
            ("artifact-or-channel", ("target", "checksum signature", "floating-tag")),
            ("security-sensitive", ("independent rebuild", "paired approval", "recovery owner")),
        ):
            told = rollout_class.chosen([name])
            self.assertEqual(told["minimum_channel"], ["rc", "release"])
            for word in words:
                self.assertIn(word, str(told["boundaries"]))

    def test_paths(self) -> None:
        """Files suggest classes; every path of the table is one that there is."""
        found = rollout_class.of_paths(["migrations/m0086_x.py", "docs/index.md"])
        self.assertEqual(found, ["store"])
        self.assertEqual(rollout_class.of_paths(["docs/index.md"]), [])
        for one in rollout_class.CLASSES:
            for path in one.paths:
                self.assertTrue((ROOT / path).exists(), path)


class HistoryTests(SynchronousTestCase):
    """The lint of the release history."""

    def entry(self, title: str = "v1.0.0 - 2026-01-02", said: str = "None.") -> str:
        """One entry."""
        headings = "".join(f"\n### {name}\n\n{said}\n" for name in history.HEADINGS)
        return f"## {title}\n{headings}\n"

    def found(self, text: str, before: str = "") -> str:
        """The findings, in one text."""
        return "\n".join(history.findings(text, before))

    @proves("U-HIS-01", "U-HIS-02", "U-OPEN-21")
    def test_form(self) -> None:
        """Each entry has the seven headings in their order, and none is empty."""
        good = self.entry()
        self.assertEqual(self.found(f"# Release history\n\n{good}"), "")
        self.assertIn("not Added, Changed", self.found(good.replace("### Fixed", "### Other")))
        self.assertIn("not Added, Changed", self.found(good.replace("### Fixed\n\nNone.\n", "")))
        self.assertIn("Fixed is empty", self.found(good.replace("Fixed\n\nNone.", "Fixed\n")))
        self.assertIn("the heading of an entry", self.found(self.entry("1.0 - 2026-01-02")))
        newer = self.entry("v1.0.0-rc.10 - 2026-01-01") + self.entry("v1.0.0-rc.9 - 2026-01-01")
        self.assertEqual(self.found(newer), "")
        older = self.entry("v1.0.0-rc.9 - 2026-01-01") + self.entry("v1.0.0-rc.10 - 2026-01-01")
        self.assertIn("not in order", self.found(older))
        text = (ROOT / history.FILE).read_text("utf-8")
        self.assertEqual(self.found(text, text), "")

    @proves("U-HIS-03")
    def test_rewritten(self) -> None:
        """An entry of the last tag that is another, or is gone, is found; a new one is not."""
        before = self.entry()
        self.assertEqual(self.found(self.entry("v1.1.0 - 2026-02-01") + before, before), "")
        self.assertIn("was rewritten", self.found(self.entry(said="More."), before))
        self.assertIn("was rewritten", self.found("", before))
