"""Make the generated protobuf modules; with ``--check`` elsewhere, to compare them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

PROTOS = ("svc/proto/gate/v1", "tests/interop")


def generate(root: Path, into: Path) -> None:
    """Run protoc over every proto file under ``root``; SystemExit if it refuses one.

    The names given to protoc are relative to ``root``, because the generated
    imports and descriptors carry them.
    """
    import grpc_tools
    from grpc_tools import protoc

    well_known = Path(grpc_tools.__file__).parent / "_proto"
    protos = [path for each in PROTOS for path in sorted((root / each).glob("*.proto"))]
    names = [path.relative_to(root).as_posix() for path in protos]
    options = [f"-I{root}", f"-I{well_known}", f"--python_out={into}", f"--pyi_out={into}"]
    if protoc.main(["protoc", *options, *names]) != 0:
        sys.exit("protoc refused the proto files")


def _generated(root: Path) -> dict[str, bytes]:
    found = [path for each in PROTOS for path in (root / each).glob("*_pb2.py*")]
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in found
        if path.suffix in {".py", ".pyi"}
    }


def differences(committed: Path, fresh: Path) -> Sequence[str]:
    """Return a sentence for each generated module that is stale, missing or left over."""
    ours, theirs = _generated(committed), _generated(fresh)
    return [
        f"{name}: "
        + ("missing" if name not in ours else "left over" if name not in theirs else "stale")
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def check(root: Path) -> Sequence[str]:
    """Return what is wrong with the generated modules under ``root``; writes nothing there."""
    with TemporaryDirectory() as fresh:
        generate(root, Path(fresh))
        return differences(root, Path(fresh))


def main(arguments: Sequence[str]) -> int:
    """Write this checkout's generated modules, or check them; return the exit status."""
    root = Path(__file__).resolve().parents[1]
    if "--check" not in arguments:
        generate(root, root)
        return 0
    wrong = check(root)
    for sentence in wrong:
        print(f"{sentence}: run make proto")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
