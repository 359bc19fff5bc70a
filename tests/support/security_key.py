"""A security key in software: CTAP2 with a credential store and user verification of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import define, field
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2 import cbor
from fido2.cose import CoseKey
from fido2.ctap import CtapDevice
from fido2.hid import CAPABILITY, CTAPHID
from fido2.webauthn import AttestedCredentialData, AuthenticatorData

_MAKE, _GET, _INFO = 0x01, 0x02, 0x04
_NO_CREDENTIALS, _UNSUPPORTED = 0x2E, 0x26
FLAG = AuthenticatorData.FLAG


@define(eq=False)
class SoftCredential:
    """One credential of the key."""

    id: bytes
    rp_id: str
    user: Mapping[str, Any]
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def public(self) -> dict[int, Any]:
        """As COSE."""
        numbers = self.key.public_key().public_numbers()
        x, y = (one.to_bytes(32, "big") for one in (numbers.x, numbers.y))
        return {1: 2, 3: -7, -1: 1, -2: x, -3: y}


@define(eq=False)
class SoftKey(CtapDevice):
    """A key that is always touched, and always verifies its holder, unless a test says otherwise.

    Attributes:
        count: Of signatures.
        flags: What it says of its holder.
    """

    credentials: list[SoftCredential] = field(factory=list)
    count: int = 0
    flags: int = FLAG.UP | FLAG.UV

    def save(self, path: Path) -> None:
        """Keep it for another process."""
        rows = [
            {
                "id": one.id.hex(),
                "rp_id": one.rp_id,
                "user": one.user["id"].hex(),
                "name": one.user["name"],
                "key": hex(one.key.private_numbers().private_value),
            }
            for one in self.credentials
        ]
        path.write_text(json.dumps({"count": self.count, "credentials": rows}), "utf-8")

    @classmethod
    def load(cls, path: Path) -> SoftKey:
        """One that was kept; a new one where none was."""
        if not path.exists():
            return cls()
        kept = json.loads(path.read_text("utf-8"))
        credentials = [
            SoftCredential(
                id=bytes.fromhex(one["id"]),
                rp_id=one["rp_id"],
                user={"id": bytes.fromhex(one["user"]), "name": one["name"]},
                key=ec.derive_private_key(int(one["key"], 16), ec.SECP256R1()),
            )
            for one in kept["credentials"]
        ]
        return cls(credentials, kept["count"])

    @property
    def capabilities(self) -> int:
        """It speaks CTAP2 alone."""
        return int(CAPABILITY.CBOR | CAPABILITY.NMSG)

    @classmethod
    def list_devices(cls) -> Iterator[SoftKey]:
        """None is plugged in."""
        return iter(())

    def call(
        self, cmd: int, data: bytes = b"", event: object = None, on_keepalive: object = None
    ) -> bytes:
        """Answer one command."""
        assert cmd == CTAPHID.CBOR, cmd
        asked: Any = cbor.decode(data[1:]) if len(data) > 1 else {}
        if data[0] == _INFO:
            options = {"rk": True, "up": True, "uv": True}
            info = {1: ["FIDO_2_0"], 3: bytes(16), 4: options, 6: [1]}
            return b"\0" + cbor.encode(info)
        if data[0] == _MAKE:
            return self._make(asked)
        if data[0] == _GET:
            return self._get(asked)
        return bytes([_UNSUPPORTED])

    def _make(self, asked: Mapping[int, Any]) -> bytes:
        if not any(one["alg"] == -7 for one in asked[4]):
            return bytes([_UNSUPPORTED])
        made = SoftCredential(
            id=os.urandom(32),
            rp_id=asked[2]["id"],
            user=asked[3],
            key=ec.generate_private_key(ec.SECP256R1()),
        )
        self.credentials.append(made)
        data = self.authenticator_data(made.rp_id, made)
        return b"\0" + cbor.encode({1: "none", 2: data, 3: {}})

    def _get(self, asked: Mapping[int, Any]) -> bytes:
        found = [one for one in self.credentials if one.rp_id == asked[1]]
        if not found:
            return bytes([_NO_CREDENTIALS])
        credential = found[-1]
        data = self.authenticator_data(credential.rp_id)
        answer = {
            1: {"id": credential.id, "type": "public-key"},
            2: data,
            3: credential.key.sign(data + asked[2], ec.ECDSA(SHA256())),
            4: dict(credential.user),
        }
        return b"\0" + cbor.encode(answer)

    def authenticator_data(self, rp_id: str, made: SoftCredential | None = None) -> bytes:
        """What it signs about itself; of a new credential with its key."""
        self.count += 1
        attested = None
        if made is not None:
            attested = AttestedCredentialData.create(bytes(16), made.id, CoseKey.parse(made.public))
        flags = FLAG(self.flags | (FLAG.AT if attested else 0))
        return bytes(
            AuthenticatorData.create(
                sha256(rp_id.encode()).digest(), flags, self.count, attested or b""
            )
        )
