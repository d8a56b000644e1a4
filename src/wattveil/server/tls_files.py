"""Certificate and key of a server that speaks TLS itself: checked before it starts."""

import datetime as dt
import logging
import ssl
from pathlib import Path

from cryptography import x509

from wattveil.errors import InvalidParameterError

_LOG = logging.getLogger("wattveil.server")

_SOON = dt.timedelta(days=14)
"""Validity below which a certificate is reported at the start."""


def check_pair(certificate: Path, key: Path) -> None:
    """Load a certificate and its key as the server will; refuse what cannot be used, by option."""
    for option, file in (("tls_certificate", certificate), ("tls_key", key)):
        if not file.is_file():
            raise InvalidParameterError(option, "a file that exists, in PEM format", str(file))
    _ = expiry(certificate)
    try:
        # A key with a passphrase would be asked for at a terminal that a service does not have.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, lambda: "")
    except ssl.SSLError as error:
        is_other = error.reason == "KEY_VALUES_MISMATCH"
        rule = "the private key of --tls-certificate" if is_other else "a key in PEM format,"
        rule += "; this is the key of another one" if is_other else " without a passphrase"
        raise InvalidParameterError("tls_key", rule, str(key)) from None


def expiry(certificate: Path) -> dt.datetime:
    """Return when the first certificate of a chain expires."""
    try:
        chain = x509.load_pem_x509_certificates(certificate.read_bytes())
    except ValueError:
        rule = "a certificate in PEM format"
        raise InvalidParameterError("tls_certificate", rule, str(certificate)) from None
    return min(one.not_valid_after_utc for one in chain)


def log_expiry(certificate: Path) -> None:
    """Log that a certificate has expired, or will within two weeks: clients refuse it then."""
    ends = expiry(certificate)
    left = ends - dt.datetime.now(dt.UTC)
    if left < _SOON:
        gone = left < dt.timedelta()
        message = "the TLS certificate has expired" if gone else "the TLS certificate expires soon"
        fields = {"certificate": str(certificate), "expires_at": ends.isoformat()}
        _LOG.log(logging.ERROR if gone else logging.WARNING, message, extra={"fields": fields})
