"""Make a release, or with ``--dry-run`` print what would be made.

    python -m contrib.release --channel rc --dry-run [--out DIR] [--key FILE]
    python -m contrib.release --channel rc --out DIR --key FILE

Prints the plan as JSON: artifacts, gates, and which floating tag moves.  With ``--out`` it builds
the artifacts into that new directory.  A dry run passes no gate, and signs only if a key is
given; otherwise the gates are run first, and a key is required.  It pushes nothing and makes no
tag: whoever publishes does, with the tag that the plan names.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from contrib.release.make import (
    ROOT,
    bill_of,
    build_wheel,
    read_key,
    wheel_name,
    write_signature,
    write_sums,
)
from contrib.release.one_file import TARGET, locked_wheels, write_one_file
from contrib.release.plan import (
    FULL,
    REPRODUCIBLE,
    ReleasePlan,
    ReleaseRefused,
    channel_named,
    planned,
)
from contrib.release.static.build import BEST, check_builder, write_static_file
from contrib.release.static.build import TARGET as STATIC
from contrib.release.static.packages import LOCK, Package, locked_packages, unpack_locked
from svc import __version__
from svc.errors import SvcError
from svc.model.release import (
    SIGNATURE,
    SUMS,
    Version,
    VersionRefused,
    parse_tag,
    parse_version,
)

UNSIGNED = "dry run without --key: SHA256SUMS is not signed, so this cannot be published"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    options = _options(arguments)
    try:
        print(json.dumps(_made(options), indent=2))
    except SvcError as refused:
        print(f"release: {refused.text}", file=sys.stderr)
        return 1
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m contrib.release", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--channel", required=True, help="alpha, beta, rc or release")
    parser.add_argument("--tag", help="the tag of the release; v and the version by default")
    parser.add_argument("--dry-run", action="store_true", help="publish nothing; pass no gate")
    parser.add_argument("--out", type=Path, help="the new directory of the artifacts")
    parser.add_argument("--key", type=Path, help="PEM of the private key that signs")
    parser.add_argument("--force", action="store_true", help="let a floating tag go back")
    return parser.parse_args(arguments)


def _made(options: argparse.Namespace) -> dict[str, object]:
    version = parse_version(__version__)
    check_tag(options.tag, version)
    channel = channel_named(options.channel)
    plan = planned(version, channel, programs_of(version), _published(), force=options.force)
    key = None if options.key is None else read_key(options.key)
    if not options.dry_run and (key is None or options.out is None):
        raise ReleaseRefused(
            f"{version.tag}: each tag is published with its signature, on every channel; give "
            "--key and --out, or --dry-run"
        )
    if options.out is not None:
        check_builder()
    if not options.dry_run:
        check_committed(ROOT)
        for gate in plan.gates:
            _pass(gate, version)
    notes = [] if key is not None else [UNSIGNED]
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=False)
        with tempfile.TemporaryDirectory(prefix="svc-release-") as base:
            place = cloned(Path(base))
            locked = place / "requirements" / "runtime.txt"
            packages = locked_packages((place / LOCK).read_text("utf-8"))
            unpack_locked(packages, Path(base, "debian"))
            libraries = locked_wheels(locked, Path(base, "libraries"))
            build_programs(options.out, version, place, libraries, Path(base, "debian"))
            write_release(options.out, plan, locked.read_text("utf-8"), packages, key)
    return {**plan.form(), "signed": key is not None, "dry_run": options.dry_run, "notes": notes}


def check_tag(tag: str | None, version: Version) -> None:
    """Refuse a tag that is not ``v`` and the version of the workspace.

    Raises:
        ReleaseRefused, VersionRefused: it is another one, or none.
    """
    if tag is not None and parse_tag(tag) != version:
        raise ReleaseRefused(
            f"tag {tag}: the version of this workspace is {version}, whose tag is {version.tag}"
        )


def check_committed(root: Path) -> None:
    """Refuse a working tree that differs from its commit: its gates would prove another program.

    Raises:
        ReleaseRefused: it does, or nobody can tell.
    """
    words = ["git", "status", "--porcelain"]
    told = subprocess.run(words, cwd=root, capture_output=True, text=True)
    if told.returncode or told.stdout:
        raise ReleaseRefused(
            f"{root}: differs from its commit, from which the release is built; commit or remove "
            f"what git status shows:\n{told.stdout}{told.stderr}"
        )


def programs_of(version: Version) -> tuple[str, ...]:
    """The file names of what can be run or installed."""
    return wheel_name(version), version.program(TARGET), version.program(STATIC)


def write_release(
    out: Path,
    plan: ReleasePlan,
    locked: str,
    packages: Iterable[Package],
    key: EllipticCurvePrivateKey | None,
) -> None:
    """Write what belongs to the programs that are in *out*: bill, checksums, and signature.

    Args:
        locked: The text of ``requirements/runtime.txt``.
        packages: Those of Debian in the static file.
        key: None: nothing is signed.
    """
    bill = plan.version.bill
    (out / bill).write_bytes(bill_of(plan.version, locked, packages, STATIC))
    sums = write_sums(out, [name for name in plan.artifacts if name not in (SUMS, SIGNATURE)])
    if key is not None:
        write_signature(out, sums, key)


def _published() -> list[Version]:
    """The versions that have a tag in this repository."""
    done = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True)
    found = []
    for tag in done.stdout.split():
        try:
            found.append(parse_tag(tag))
        except VersionRefused:
            continue  # a tag of another kind
    return found


def _pass(gate: str, version: Version) -> None:
    """Run a gate.  Raises ReleaseRefused: it did not pass."""
    if gate == FULL:
        if subprocess.run(
            ["make", "lint", "test", "fault"], cwd=ROOT, stdout=sys.stderr
        ).returncode:
            raise ReleaseRefused("the full gate (make lint test fault) did not pass")
    elif gate == REPRODUCIBLE:
        with tempfile.TemporaryDirectory(prefix="svc-release-") as base:
            debian = Path(base, "debian")
            unpack_locked(locked_packages((ROOT / LOCK).read_text("utf-8")), debian)
            locked = ROOT / "requirements" / "runtime.txt"
            check_reproducible(version, locked_wheels(locked, Path(base, "libraries")), debian)


def build_programs(
    out: Path,
    version: Version,
    root: Path,
    libraries: Sequence[Path],
    debian: Path,
    level: int = BEST,
) -> None:
    """Build the wheel of the checkout in *root*, and both executables with it, into *out*.

    Args:
        libraries: The wheel of each library.
        debian: Where the packages of Debian are unpacked.
        level: How small the static file gets, as in zlib.

    Raises:
        ReleaseRefused: a build failed.
    """
    wheel = build_wheel(out, version, root)
    write_one_file(out / version.program(TARGET), version, [*libraries, wheel])
    static = out / version.program(STATIC)
    write_static_file(static, version, [*libraries, wheel], debian, level)


def cloned(base: Path) -> Path:
    """A clone of the commit, so that nothing but what is committed gets into a build."""
    place = base / "clone"
    words = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(place)]
    subprocess.run(words, check=True, stdout=sys.stderr)
    return place


def check_reproducible(
    version: Version, libraries: Sequence[Path], debian: Path, level: int = BEST
) -> None:
    """Build from two clones in two places, and compare the bytes.

    Args:
        libraries: The wheel of each library.
        debian: Where the packages of Debian are unpacked.
        level: How small the static file gets, as in zlib.

    Raises:
        ReleaseRefused: they differ.
    """
    with tempfile.TemporaryDirectory(prefix="svc-release-") as base:
        places = Path(base, "one"), Path(base, "another/place")
        for place in places:
            build_programs(place / "out", version, cloned(place), libraries, debian, level)
        for name in programs_of(version):
            one, other = (place / "out" / name for place in places)
            if not filecmp.cmp(one, other, shallow=False):
                raise ReleaseRefused(
                    f"{name}: two builds of the same commit differ: the release is not reproducible"
                )


if __name__ == "__main__":
    sys.exit(main())
