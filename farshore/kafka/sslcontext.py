"""TLS settings of a cluster to Python's own TLS."""

from __future__ import annotations

import ssl
from tempfile import NamedTemporaryFile

from farshore.config.ciphers import is_tls_1_3
from farshore.config.security import Tls


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """A context that trusts, shows and checks what `tls` says.

    Suites of TLS 1.3 cannot be chosen from Python: OpenSSL's own are offered, all of them fit for use.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.maximum_version = tls.minimum_version, tls.maximum_version
    context.check_hostname = tls.verify_hostname
    # Like Java, which takes every certificate of a trust store as an anchor, not only those that sign themselves.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if tls.trusted_pem is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=tls.trusted_pem)
    if tls.certificate_pem is not None and tls.key_pem is not None:
        _load_identity(context, tls.certificate_pem, tls.key_pem.reveal())
    suites = [suite for suite in tls.cipher_suites if not is_tls_1_3(suite)]
    if suites:
        context.set_ciphers(":".join(suites))
    return context


def _load_identity(context: ssl.SSLContext, certificate_pem: str, key_pem: str) -> None:
    """Python reads a client's key from a file only: one that nobody else may open, gone when this returns."""
    with NamedTemporaryFile("w", prefix="farshore-", suffix=".pem") as identity:
        identity.write(f"{key_pem}\n{certificate_pem}")
        identity.flush()
        context.load_cert_chain(identity.name)
