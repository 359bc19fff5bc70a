"""Signs OpenSSH user certificates with the key of the purpose ``onward-ssh``.

As with tokens, what is signed has a form of its own and cannot begin with our prefix for
signatures; so this key signs nothing else (rule R14).
"""

from __future__ import annotations

from binascii import a2b_base64

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificateBuilder,
    SSHCertificateType,
)

from svc.errors import ConfigError
from svc.model.session.onward import OnwardCertificate
from svc.model.signing import Purpose
from svc.pki import profile
from svc.pki.root import PurposeKey, WrongPurpose

WORD = profile.SIGNED_BY[Purpose.ONWARD_SSH]


def signed_user_certificate(key: PurposeKey, wanted: OnwardCertificate) -> bytes:
    """The certificate, as SSH sends it.

    Raises:
        WrongPurpose: the key is for something else.
    """
    signer = key.key
    if key.word != WORD or not isinstance(signer, Ed25519PrivateKey):
        raise WrongPurpose(f"the key {key.word} does not sign SSH certificates")
    builder = (
        SSHCertificateBuilder()
        .public_key(Ed25519PublicKey.from_public_bytes(wanted.public_key))
        .serial(wanted.serial)
        .type(SSHCertificateType.USER)
        .key_id(wanted.key_id.encode("ascii"))
        .valid_principals([wanted.login.account.encode("ascii")])
        .valid_after(wanted.begins_at)
        .valid_before(wanted.ends_at)
    )
    for name, value in sorted(wanted.login.options.items()):
        builder = builder.add_critical_option(name.encode("ascii"), value.encode("ascii"))
    for name in sorted(wanted.login.extensions):
        builder = builder.add_extension(name.encode("ascii"), b"")
    _, text, *_ = builder.sign(signer).public_bytes().split(b" ")
    return a2b_base64(text)


def public_line(key: PurposeKey) -> str:
    """The public key as a line of ``TrustedUserCAKeys``."""
    public = key.certificate.public_key()
    assert isinstance(public, Ed25519PublicKey)  # as a purpose key is made, and read
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")


def missing(where: str) -> ConfigError:
    """What is said of a key directory of before this key."""
    return ConfigError(
        where, f"is missing; make the key with `svc authority keys renew {WORD}`, then restart"
    )
