"""Conch's transport, with strict key exchange and the ciphers of today.

Against prefix truncation ("Terrapin", CVE-2023-48795) both ends begin to count packets anew with
each ``NEWKEYS`` and take nothing but key exchange before the first, where the peer says that it
does so too.  Where it does not, neither of the constructions that can be attacked is
in use: ChaCha20-Poly1305 is not offered at all, CBC neither, and of AES-CTR the form that
authenticates after encryption only to a peer with strict key exchange.
"""

from __future__ import annotations

import struct
from typing import Any

from attrs import frozen
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from twisted.conch.ssh.transport import (
    DISCONNECT_KEY_EXCHANGE_FAILED,
    DISCONNECT_MAC_ERROR,
    DISCONNECT_PROTOCOL_ERROR,
    MSG_DISCONNECT,
    MSG_KEXINIT,
    MSG_NEWKEYS,
)
from twisted.python.randbytes import secureRandom

from svc.kinds.ssh.conch import QUIET, SSHCiphers

_GCM = {b"aes128-gcm@openssh.com": 16, b"aes256-gcm@openssh.com": 32}
_ETM = b"-etm@openssh.com"
_STRICT = {True: b"kex-strict-c-v00@openssh.com", False: b"kex-strict-s-v00@openssh.com"}
"""What client and server say of themselves."""

_TAG, _BLOCK, _COUNTED = 16, 16, 1 << 64
_MOST_PACKET = 1 << 18
"""Beyond what OpenSSH and Conch send; nothing larger is kept to be verified."""

_OVERHEAD = 64
"""Of a packet, more or less."""

_MOST_BLOCKED = 1 << 14
"""Packets that wait while keys are made; windows bound the bytes in them."""


class _Gcm:
    """One direction of AES-GCM (RFC 5647): a fixed field and a counter."""

    def __init__(self, key: bytes, iv: bytes) -> None:
        self._cipher = AESGCM(key)
        self._fixed, self._count = iv[:4], int.from_bytes(iv[4:12], "big")

    def seal(self, plain: bytes, head: bytes) -> bytes:
        return self._cipher.encrypt(self._nonce(), plain, head)

    def open(self, sealed: bytes, head: bytes) -> bytes:
        return self._cipher.decrypt(self._nonce(), sealed, head)

    def _nonce(self) -> bytes:
        nonce = self._fixed + self._count.to_bytes(8, "big")
        self._count = (self._count + 1) % _COUNTED
        return nonce


class _Ciphers(SSHCiphers):  # type: ignore[misc]
    """Conch's, with AES-GCM and MACs over what was encrypted."""

    cipherMap = {
        **SSHCiphers.cipherMap,
        # Conch makes a cipher of them that nobody uses.
        **{name: (algorithms.AES, size, modes.CTR) for name, size in _GCM.items()},
    }
    macMap = {
        **SSHCiphers.macMap,
        **{
            name + _ETM: value
            for name, value in SSHCiphers.macMap.items()
            if name.startswith(b"hmac-sha2")
        },
    }
    seals: _Gcm | None = None
    opens: _Gcm | None = None

    def setKeys(self, *keys: bytes) -> None:
        """See Conch; it names them outIV, outKey, inIV, inKey, outInteg, inInteg."""
        super().setKeys(*keys)
        out_iv, out_key, in_iv, in_key, *_ = keys
        if self.outCipType in _GCM:
            self.seals = _Gcm(out_key[: _GCM[self.outCipType]], out_iv)
        if self.inCipType in _GCM:
            self.opens = _Gcm(in_key[: _GCM[self.inCipType]], in_iv)

    @property
    def verifies_first(self) -> bool:
        return self.opens is not None or self.inMACType.endswith(_ETM)

    @property
    def authenticates_last(self) -> bool:
        return self.seals is not None or self.outMACType.endswith(_ETM)


@frozen
class _Offer:
    """What the two sides name in their first ``KEXINIT``."""

    ciphers: tuple[bytes, ...] = (
        b"aes128-gcm@openssh.com",
        b"aes256-gcm@openssh.com",
        b"aes128-ctr",
        b"aes192-ctr",
        b"aes256-ctr",
    )
    macs: tuple[bytes, ...] = (
        b"hmac-sha2-256-etm@openssh.com",
        b"hmac-sha2-512-etm@openssh.com",
        b"hmac-sha2-256",
        b"hmac-sha2-512",
    )
    key_exchanges: tuple[bytes, ...] = (
        b"mlkem768x25519-sha256",
        b"curve25519-sha256",
        b"curve25519-sha256@libssh.org",
        b"ecdh-sha2-nistp256",
        b"ecdh-sha2-nistp384",
    )


_OFFER = _Offer()


class StrictTransport:
    """To be mixed in before one of Conch's transports."""

    is_strict = False
    outflow: Any = None
    supportedCiphers = list(_OFFER.ciphers)
    supportedMACs = list(_OFFER.macs)
    supportedCompressions = [b"none"]

    _log = QUIET
    _heard_kexinit = False
    _has_keys = False
    is_leaving = False
    """Whether a DISCONNECT was said or heard."""

    def sendKexInit(self: Any) -> None:
        """Say that we are strict, in the first one alone."""
        if self.outflow is not None:
            self.outflow.hold()
        known = self.supportedKeyExchanges
        offered = [one for one in _OFFER.key_exchanges if one in known]
        if self.isClient:  # of Conch only servers know a key exchange of two parts
            offered = [one for one in offered if not one.startswith(b"mlkem")]
        self.supportedKeyExchanges = offered
        if self.sessionID is None:
            self.supportedKeyExchanges = [*offered, _STRICT[self.isClient]]
        try:
            super().sendKexInit()  # type: ignore[misc]
        finally:
            self.supportedKeyExchanges = offered

    def _newKeys(self: Any) -> None:
        """What waited for the keys goes first, and more may come then."""
        super()._newKeys()  # type: ignore[misc]
        if self.outflow is not None:
            self.outflow.release()

    def ssh_KEXINIT(self: Any, packet: bytes) -> Any:
        """Take our own ciphers in the place of Conch's, with the names that were agreed on."""
        retval = super().ssh_KEXINIT(packet)  # type: ignore[misc]
        agreed = self.nextEncryptions
        names = agreed.outCipType, agreed.inCipType, agreed.outMACType, agreed.inMACType
        if None in names:
            return retval
        if not self.is_strict and any(
            mac.endswith(_ETM) and cipher not in _GCM
            for cipher, mac in zip(names[:2], names[2:], strict=True)
        ):
            self.sendDisconnect(DISCONNECT_KEY_EXCHANGE_FAILED, b"strict key exchange is required")
            return None
        self.nextEncryptions = _Ciphers(*names)
        return retval

    def dispatchMessage(self: Any, messageNum: int, payload: bytes) -> None:
        """Until the first keys are in use a strict peer says nothing but what makes them."""
        if messageNum == MSG_KEXINIT and not self._heard_kexinit:
            self._heard_kexinit = True
            names = payload[16:]
            listed = names[4 : 4 + int.from_bytes(names[:4], "big")].split(b",")
            self.is_strict = _STRICT[not self.isClient] in listed
            if self.is_strict and self.incomingPacketSequence != 1:
                self._refuse_packet()
                return
        elif self.is_strict and not self._has_keys and not _makes_keys(messageNum):
            self._refuse_packet()
            return
        if messageNum == MSG_NEWKEYS:
            self._has_keys = True
        self.is_leaving = self.is_leaving or messageNum == MSG_DISCONNECT
        super().dispatchMessage(messageNum, payload)  # type: ignore[misc]

    def _refuse_packet(self: Any) -> None:
        self.sendDisconnect(DISCONNECT_PROTOCOL_ERROR, b"a packet amid the first key exchange")

    def sendPacket(self: Any, messageType: int, payload: bytes) -> None:
        """See Conch."""
        if self.outflow is not None:
            self.outflow.wrote(len(payload) + _OVERHEAD)
        if len(self._blockedByKeyExchange or ()) > _MOST_BLOCKED:
            self._blockedByKeyExchange.clear()
            self._no_good(DISCONNECT_PROTOCOL_ERROR, b"too much waits for the key exchange")
            return
        used = self.currentEncryptions
        if not getattr(used, "authenticates_last", False):
            super().sendPacket(messageType, payload)  # type: ignore[misc]
        elif self._keyExchangeState != self._KEY_EXCHANGE_NONE and (
            not self._allowedKeyExchangeMessageType(messageType)
        ):
            self._blockedByKeyExchange.append((messageType, payload))
            return
        else:
            self.transport.write(self._sealed(used, messageType, payload))
            self.outgoingPacketSequence += 1
        self.outgoingPacketSequence &= 0xFFFFFFFF
        if messageType == MSG_NEWKEYS and self.is_strict:
            self.outgoingPacketSequence = 0

    def _sealed(self: Any, used: _Ciphers, messageType: int, payload: bytes) -> bytes:
        size = len(payload) + 2
        padding = _BLOCK - size % _BLOCK
        padding += _BLOCK if padding < 4 else 0
        head = struct.pack("!L", size + padding)
        body = b"".join((bytes((padding, messageType)), payload, secureRandom(padding)))
        if used.seals is not None:
            return head + used.seals.seal(body, head)
        sealed: bytes = head + used.encrypt(body)
        return sealed + bytes(used.makeMAC(self.outgoingPacketSequence, sealed))

    def getPacket(self: Any) -> bytes | None:
        """See Conch."""
        if self.is_leaving:
            return None  # what came with it is not heard any more
        used = self.currentEncryptions
        if getattr(used, "verifies_first", False):
            packet: bytes | None = self._opened(used)
        else:
            packet = super().getPacket()  # type: ignore[misc]
        self.incomingPacketSequence &= 0xFFFFFFFF
        if packet and packet[0] == MSG_NEWKEYS and self.is_strict:
            self.incomingPacketSequence = 0
        return packet

    def _opened(self: Any, used: Any) -> bytes | None:
        """The next packet, verified before it is decrypted; None: it is not whole, or no good."""
        if len(self.buf) < 4:
            return None
        size = int.from_bytes(self.buf[:4], "big")
        if not _BLOCK <= size <= _MOST_PACKET or size % _BLOCK:
            self._no_good(DISCONNECT_PROTOCOL_ERROR, b"bad packet length")
            return None
        mac = _TAG if used.opens is not None else used.verifyDigestSize
        end = 4 + size + mac
        if len(self.buf) < end:
            return None
        head, sealed = self.buf[:4], self.buf[4 : 4 + size]
        if used.opens is not None:
            try:
                plain = used.opens.open(self.buf[4:end], head)
            except InvalidTag:
                self._no_good(DISCONNECT_MAC_ERROR, b"bad tag")
                return None
        elif used.verify(self.incomingPacketSequence, head + sealed, self.buf[4 + size : end]):
            plain = used.decrypt(sealed)
        else:
            self._no_good(DISCONNECT_MAC_ERROR, b"bad MAC")
            return None
        self.buf = self.buf[end:]
        self.incomingPacketSequence += 1
        if plain[0] + 1 >= len(plain):
            self._no_good(DISCONNECT_PROTOCOL_ERROR, b"bad padding")
            return None
        return bytes(plain[1 : -plain[0]])

    def sendDisconnect(self: Any, reason: int, desc: bytes) -> None:
        """Leave, once."""
        if not self.is_leaving:
            self.is_leaving = True
            super().sendDisconnect(reason, desc)  # type: ignore[misc]

    def _no_good(self: Any, reason: int, text: bytes) -> None:
        self.buf = b""
        self.sendDisconnect(reason, text)


def _makes_keys(message: int) -> bool:
    return message == MSG_DISCONNECT or MSG_KEXINIT <= message < 50
