"""Signatures of manifests: whole, and of everything else."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from wattveil.bundle.keys import sign, signer

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
RECORD = {"title": "Load", "epsilon": "1.0"}
SIGNATURE = sign(RECORD, KEY)


def test_the_key_of_a_signature_is_found() -> None:
    """Of the record without its signature."""
    assert signer({**RECORD, "signature": SIGNATURE}, SIGNATURE) == KEY.public_key()
    assert signer({**RECORD, "title": "Loads"}, SIGNATURE) is None
    assert signer({**RECORD, "more": ""}, SIGNATURE) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"note": "approved by the regulator"},
        {"algorithm": "another"},
        {"value": SIGNATURE["value"] + "!"},
        {"value": f" {SIGNATURE['value']}"},
        {"public_key": SIGNATURE["public_key"].replace("=", "\n=")},
        {"value": base64.b64encode(bytes(64)).decode()},
        {"value": "AA=="},
        {"public_key": ""},
    ],
    ids=str,
)
def test_nothing_is_added_to_a_signature(changed: dict[str, str]) -> None:
    """It does not cover itself: fields, foreign characters and another algorithm are refused."""
    assert signer(RECORD, {**SIGNATURE, **changed}) is None
