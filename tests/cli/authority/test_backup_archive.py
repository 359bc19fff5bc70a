"""The files of a backup as somebody else may have made them: nothing is written elsewhere."""

from __future__ import annotations

import io
import json
import tarfile
from hashlib import sha256
from pathlib import Path

from attrs import asdict
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import BackupBroken
from svc.ops.backup.archive import STAMP, unpack
from svc.ops.backup.classes import class_of
from svc.ops.backup.manifest import KeptFile, Stamp

OURS = Stamp(number=1, id="0" * 32, cluster="demo.example", authority="a" * 26)


class ClimbingTests(SynchronousTestCase):
    """Whoever has the public key can encrypt what he likes."""

    def test_links(self) -> None:
        """A link to a directory above, and a file below any link, are refused."""
        below = "state/anchor/l/evil.txt"
        made_up: list[dict[str, str | None]] = [
            {"state/anchor/l": ".."},
            {"state/anchor/l": "."},
            {"state/anchor/l": "", below: None},
            {"state/anchor/l": "beside", below: None},
        ]
        for links in made_up:
            root = Path(self.mktemp())
            place = root / "unpacked"
            place.mkdir(parents=True)
            stream, files = made(links)
            self.assertRaises(
                BackupBroken, unpack, stream, OURS, files, lambda file, at=place: at / file.path
            )
            self.assertEqual([each.name for each in root.iterdir()], ["unpacked"])
            self.assertEqual(list(root.rglob("evil.txt")), [])


def made(entries: dict[str, str | None]) -> tuple[io.BytesIO, list[KeptFile]]:
    """An archive of links, and of files where there is no target; and what names them."""
    out, files = io.BytesIO(), []
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        stamp = json.dumps(asdict(OURS)).encode()
        info = tarfile.TarInfo(STAMP)
        info.size = len(stamp)
        tar.addfile(info, io.BytesIO(stamp))
        for path, target in entries.items():
            info = tarfile.TarInfo(path)
            if target is None:
                info.size, info.mode = 4, 0o600
                tar.addfile(info, io.BytesIO(b"evil"))
                digest = sha256(b"evil").hexdigest()
                files.append(
                    KeptFile(path=path, sort=class_of(path), size=4, sha256=digest, mode=0o600)
                )
            else:
                info.type, info.linkname = tarfile.SYMTYPE, target
                tar.addfile(info)
                files.append(
                    KeptFile(
                        path=path, sort=class_of(path), size=0, sha256="", mode=0o777, link=target
                    )
                )
    out.seek(0)
    return out, files
