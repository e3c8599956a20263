"""The one cipher worth making fast: AES-GCM, its cipher object made once a key, not once a packet.

A line said in a room of 200 is 200 packets, so this is where the door's time goes; measured by
benchmarks/transport.py. A subclass only; the installed asyncssh is never patched.
"""

from __future__ import annotations

from asyncssh.crypto import GCMCipher
from asyncssh.encryption import GCMEncryption
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

GCM_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
CTR_CIPHERS = ("aes256-ctr", "aes128-ctr")
"""For clients without GCM. Older OpenSSH prefers CTR when both are offered, so it is not told."""


class CachedGCM(GCMEncryption):
    """AES-GCM as asyncssh does it, with the cipher made once: 4 us a packet in place of 9."""

    def __init__(self, cipher: GCMCipher, key: bytes, nonce: bytes) -> None:
        """Take over from `cipher`, whose key and first nonce these are."""
        super().__init__(cipher)
        self._aes = AESGCM(key)
        self._fixed = nonce[:4]
        # The one place the nonce advances; `cipher` must not be used again.
        self._invocation = int.from_bytes(nonce[4:], "big")

    def _nonce(self) -> bytes:
        """RFC 5647, 7.1: a fixed field, then a counter of packets."""
        invocation = self._invocation
        self._invocation = (invocation + 1) & 0xFFFFFFFFFFFFFFFF
        return self._fixed + invocation.to_bytes(8, "big")

    def seal(self, length: bytes, packet: bytes) -> bytes:
        """Encrypt a packet; its length stays readable and is authenticated."""
        return self._aes.encrypt(self._nonce(), packet, length)

    def encrypt_packet(self, seq: int, header: bytes, packet: bytes) -> tuple[bytes, bytes]:
        """As the base class."""
        return header + self.seal(header, packet), b""

    def decrypt_packet(
        self, seq: int, first: bytes, rest: bytes, header_len: int, mac: bytes
    ) -> bytes | None:
        """As the base class: None when the packet was tampered with."""
        sealed = b"".join((first[header_len:], rest, mac))
        try:
            return self._aes.decrypt(self._nonce(), sealed, first[:header_len])
        except InvalidTag:
            return None
