"""Signatures of what hooks post, by the Standard Webhooks specification.

A receiver checks that `webhook-signature` is the HMAC-SHA256 of `ID.TIMESTAMP.BODY` by the secret
of the hook; libraries for it exist in many languages. Source: standardwebhooks.com.
"""

from __future__ import annotations

import base64
import hashlib
import hmac


def sign(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message; `timestamp` is in seconds since 1970."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def make_headers(key: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers with which a message is posted."""
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(key, message_id, timestamp, body),
    }
