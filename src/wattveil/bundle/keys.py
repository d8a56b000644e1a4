"""Signatures: a key that the utility keeps, and one that everybody may have (Ed25519)."""

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from wattveil.errors import InvalidFileError, InvalidParameterError

ALGORITHM = "Ed25519"


def new_key() -> Ed25519PrivateKey:
    """Draw a key."""
    return Ed25519PrivateKey.generate()


def write_key(path: Path) -> Path:
    """Draw a key, write it for its owner alone, and the public half beside it; return that."""
    public = path.with_name(path.name + ".pub")
    for file in (path, public):
        if file.exists():
            raise InvalidParameterError("out", "a new file: a key is never overwritten", str(file))
    key = new_key()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file_object:
        file_object.write(secret)
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return public


def read_key(path: Path) -> Ed25519PrivateKey:
    """Read what `write_key` wrote."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidFileError(
            path, "content", "a private key in PEM format, as `wattveil admin key` writes", None
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidFileError(path, "content", f"an {ALGORITHM} key", type(key).__name__)
    return key


def read_public_key(path: str | Path) -> Ed25519PublicKey:
    """Read a public key, the ``.pub`` file of a publisher, for ``trusted`` of `verify_bundle`.

    Parameters
    ----------
    path
        File in PEM format, as `wattveil admin key` writes it.
    """
    try:
        key = serialization.load_pem_public_key(Path(path).read_bytes())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidFileError(
            path, "content", "a public key in PEM format: the .pub file", None
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidFileError(path, "content", f"an {ALGORITHM} key", type(key).__name__)
    return key


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return a short name of a public key, to be compared by eye."""
    digest = hashlib.sha256(key.public_bytes_raw()).hexdigest()
    return ":".join(digest[place : place + 4] for place in range(0, 24, 4))


def canonical(record: Mapping[str, object]) -> bytes:
    """Return the bytes that are hashed and signed: sorted keys, no spaces, UTF-8."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def sign(manifest: Mapping[str, object], key: Ed25519PrivateKey) -> dict[str, str]:
    """Return the signature of a manifest that has none yet."""
    return _stated(key.public_key().public_bytes_raw(), key.sign(canonical(manifest)))


def signer(manifest: Mapping[str, object], signature: Mapping[str, str]) -> Ed25519PublicKey | None:
    """Return the key that signed the rest of the manifest, or None if the signature is false.

    The signature is compared as a whole with what it says: it does not cover itself, and further
    fields or characters would be additions that nobody signed.
    """
    unsigned = {name: value for name, value in manifest.items() if name != "signature"}
    try:
        public = base64.b64decode(signature["public_key"])
        value = base64.b64decode(signature["value"])
        key = Ed25519PublicKey.from_public_bytes(public)
        key.verify(value, canonical(unsigned))
    except (InvalidSignature, ValueError):
        return None
    return key if dict(signature) == _stated(public, value) else None


def _stated(public: bytes, value: bytes) -> dict[str, str]:
    return {
        "algorithm": ALGORITHM,
        "public_key": base64.b64encode(public).decode(),
        "value": base64.b64encode(value).decode(),
    }
