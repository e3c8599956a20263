"""AES-GCM with one cipher object per key instead of one per packet.

A line in a room of 200 is 200 packets, so encryption takes most of the door's time; measured by
benchmarks/transport.py. This is a subclass; the installed asyncssh is never patched.
"""

from __future__ import annotations

from asyncssh.crypto import GCMCipher
from asyncssh.encryption import GCMEncryption
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

GCM_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
CTR_CIPHERS = ("aes256-ctr", "aes128-ctr")
"""For clients without GCM. Older OpenSSH prefers CTR if both are offered, so it gets GCM only."""


class CachedGCM(GCMEncryption):
    """AES-GCM of asyncssh, with the cipher made once: 4 us per packet instead of 9."""

    def __init__(self, cipher: GCMCipher, key: bytes, nonce: bytes) -> None:
        """Replace `cipher`, which has this key and first nonce."""
        super().__init__(cipher)
        self._aes = AESGCM(key)
        self._fixed = nonce[:4]
        # The one place the nonce advances; `cipher` must not be used again.
        self._invocation = int.from_bytes(nonce[4:], "big")

    def _nonce(self) -> bytes:
        """Return the next nonce (RFC 5647, 7.1): a fixed field, then a packet counter."""
        invocation = self._invocation
        self._invocation = (invocation + 1) & 0xFFFFFFFFFFFFFFFF
        return self._fixed + invocation.to_bytes(8, "big")

    def seal(self, length: bytes, packet: bytes) -> bytes:
        """Encrypt a packet; its length stays in clear text and is authenticated."""
        return self._aes.encrypt(self._nonce(), packet, length)

    def encrypt_packet(self, seq: int, header: bytes, packet: bytes) -> tuple[bytes, bytes]:
        """Encrypt a packet, as in the base class."""
        return header + self.seal(header, packet), b""

    def decrypt_packet(
        self, seq: int, first: bytes, rest: bytes, header_len: int, mac: bytes
    ) -> bytes | None:
        """Decrypt a packet, as in the base class; None if it fails authentication."""
        sealed = b"".join((first[header_len:], rest, mac))
        try:
            return self._aes.decrypt(self._nonce(), sealed, first[:header_len])
        except InvalidTag:
            return None
