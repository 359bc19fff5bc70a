"""Say which rollout class a change has: the strictest that fits, and what all that fit demand.

    python -m contrib.rollout_class store policy
    git diff --name-only main... | python -m contrib.rollout_class --paths -

Prints JSON.  By paths it is a suggestion: a reviewer adds what no path shows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence

from attrs import frozen

CANDIDATE = ("rc", "release")


@frozen
class RolloutClass:
    """One row of the table.

    Attributes:
        channels: Where it is published at least, in this order.
        boundary: What it demands.
        paths: What files of such a change begin with.
    """

    name: str
    channels: tuple[str, ...]
    boundary: str
    paths: tuple[str, ...] = ()


CLASSES = (
    RolloutClass(
        name="routine",
        channels=("alpha", "beta"),
        boundary="no certificate, wire, store, policy, audit-consumer, artifact or "
        "security contract change",
    ),
    RolloutClass(
        name="cert-or-wire",
        channels=CANDIDATE,
        boundary="roll Authority, Proxy, Connector and consumers together; full gate and "
        "reproducibility",
        paths=("svc/proto/", "svc/wire/", "svc/rpc/", "svc/messages/", "svc/tunnel/", "svc/pki/"),
    ),
    RolloutClass(
        name="store",
        channels=CANDIDATE,
        boundary="paired store and key backup, planned migration, keep the pre-migration "
        "restore point",
        paths=("migrations/", "svc/store/", "svc/model/store/"),
    ),
    RolloutClass(
        name="policy",
        channels=CANDIDATE,
        boundary="validate and migrate the policy vocabulary, preserve the break-glass invariant, "
        "use the approval path",
        paths=("svc/policy/", "svc/model/policy/", "svc/authority/policy/"),
    ),
    RolloutClass(
        name="audit-or-recording-consumer",
        channels=CANDIDATE,
        boundary="check event names, codes, classes, recording format and downstream parsers",
        paths=("svc/audit/", "svc/model/audit/", "contrib/verify_audit.py"),
    ),
    RolloutClass(
        name="artifact-or-channel",
        channels=CANDIDATE,
        boundary="verify target, bill of materials, checksum signature, floating-tag behaviour and "
        "reproducibility",
        paths=(
            "contrib/release/",
            "requirements/",
            "setup.cfg",
            "pyproject.toml",
            "svc/model/release.py",
        ),
    ),
    RolloutClass(
        name="security-sensitive",
        channels=CANDIDATE,
        boundary="full gate, independent rebuild, paired approval, explicit recovery owner",
        paths=("SECURITY.md", "svc/pki/", "svc/authority/sessions/", "svc/connector/admission.py"),
    ),
)
"""From the least strict to the strictest."""


def chosen(names: Iterable[str]) -> dict[str, object]:
    """The strictest class of those named, and what each demands; with none it is routine.

    Raises:
        ValueError: there is no such class.
    """
    wanted = set(names)
    strange = wanted - {one.name for one in CLASSES}
    if strange:
        known = ", ".join(one.name for one in CLASSES)
        raise ValueError(f"no class {', '.join(sorted(strange))}; there are {known}")
    # Whatever else fits, the change is not routine.
    fits = [one for one in CLASSES[1:] if one.name in wanted] or [CLASSES[0]]
    return {
        "class": fits[-1].name,
        "minimum_channel": list(fits[-1].channels),
        "classes": [one.name for one in fits],
        "boundaries": [one.boundary for one in fits],
    }


def of_paths(paths: Iterable[str]) -> list[str]:
    """The classes that changed files suggest."""
    every = list(paths)
    return [one.name for one in CLASSES if any(path.startswith(one.paths) for path in every)]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser("python -m contrib.rollout_class", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("classes", nargs="*", metavar="CLASS")
    parser.add_argument("--paths", nargs="+", default=[], help="changed files; - reads them")
    options = parser.parse_args(arguments)
    paths = sys.stdin.read().splitlines() if options.paths == ["-"] else options.paths
    try:
        print(json.dumps(chosen([*options.classes, *of_paths(paths)]), indent=2))
    except ValueError as refused:
        print(f"rollout class: {refused}", file=sys.stderr)
        return 64
    return 0


if __name__ == "__main__":
    sys.exit(main())
