"""TLS settings to Python's own TLS, for the connections Farshore makes without a client library."""

from __future__ import annotations

import ssl
from tempfile import NamedTemporaryFile

from farshore.config.security import Tls


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """A context that trusts, shows and checks what `tls` says."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.maximum_version = tls.minimum_version, tls.maximum_version
    context.check_hostname = tls.verify_hostname
    if tls.trusted_pem is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=tls.trusted_pem)
    if tls.certificate_pem is not None and tls.key_pem is not None:
        # Python reads a client's key from a file only: one that nobody else may read, gone at the next line.
        with NamedTemporaryFile("w", suffix=".pem") as identity:
            identity.write(f"{tls.key_pem.reveal()}\n{tls.certificate_pem}")
            identity.flush()
            context.load_cert_chain(identity.name)
    suites = [suite for suite in tls.cipher_suites if not suite.startswith("TLS_")]
    if suites:
        context.set_ciphers(":".join(suites))
    return context
