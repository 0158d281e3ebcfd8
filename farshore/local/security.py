"""How a local cluster's client listener is secured, and the users it knows."""

from __future__ import annotations

from enum import Enum


class Security(Enum):
    """Protocol of the client listener. The SASL ones take PLAIN and SCRAM-SHA-512 alike."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    """Both sides show certificates; the user is the client certificate's common name."""
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        return self in (Security.SSL, Security.SASL_SSL)

    @property
    def asks_password(self) -> bool:
        return self in (Security.SASL_PLAINTEXT, Security.SASL_SSL)
