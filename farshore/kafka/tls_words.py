"""What OpenSSL says, in words for people. Pure."""

from __future__ import annotations

import ssl

_OUR_STORE = "check ssl.keystore.*"
_UNTRUSTED = {
    9: "it is not valid yet: compare the clocks",
    10: "it has expired",
    18: "it signed itself, and is not among those that we trust; check ssl.truststore.*",
    19: "the authority that signed it is not among those that we trust; check ssl.truststore.*",
    20: "the authority that signed it is not among those that we trust; check ssl.truststore.*",
    21: "the authority that signed it is not among those that we trust; check ssl.truststore.*",
    62: "it is for another host name; check bootstrap.servers and advertised.listeners, or turn the check off with "
    "ssl.endpoint.identification.algorithm=",
    64: "it is for another IP address; check bootstrap.servers and advertised.listeners, or turn the check off with "
    "ssl.endpoint.identification.algorithm=",
}
"""By OpenSSL's codes for a certificate that fails the check."""

_ALERTS = {
    "CERTIFICATE_REQUIRED": f"it wants a certificate, and we have none; {_OUR_STORE}",
    "UNKNOWN_CA": f"it does not trust the authority that signed our certificate; {_OUR_STORE}",
    "CERTIFICATE_EXPIRED": f"our certificate has expired; {_OUR_STORE}",
    "CERTIFICATE_REVOKED": f"our certificate was revoked; {_OUR_STORE}",
    "HANDSHAKE_FAILURE": "no protocol version or cipher suite in common, or it wants a certificate; check "
    "ssl.enabled.protocols, ssl.cipher.suites and ssl.keystore.*",
    "PROTOCOL_VERSION": "no protocol version in common; check ssl.enabled.protocols",
}
"""By how OpenSSL's name for the other side's alert ends."""

_NO_TLS = "no TLS there: check security.protocol and the port"
_BROKEN = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "EOF": _NO_TLS,
    "HTTP_REQUEST": _NO_TLS,
    "UNSUPPORTED_PROTOCOL": "it offers only protocol versions that we do not allow; check ssl.enabled.protocols",
    "NO_PROTOCOLS_AVAILABLE": "no protocol version is left to offer; check ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "no cipher suite in common; check ssl.cipher.suites",
    "NO_CIPHERS_AVAILABLE": "no cipher suite is left to offer; check ssl.cipher.suites and ssl.enabled.protocols",
    "WRONG_CIPHER_RETURNED": "it chose a cipher suite that we do not allow; check ssl.cipher.suites",
    "UNKNOWN_CIPHER_RETURNED": "it chose a cipher suite that we do not know; check ssl.cipher.suites",
    "DH_KEY_TOO_SMALL": "its Diffie-Hellman key is too short to be safe; check ssl.cipher.suites, or the broker's Java",
    "UNSAFE_LEGACY_RENEGOTIATION_DISABLED": "it knows only a handshake that is not safe any more: upgrade the broker",
}
"""By a part of OpenSSL's name for what ended the handshake, or of its text where there is no name."""

_UNUSABLE = {
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
    "KEY_TYPE_MISMATCH": "the key does not belong to the certificate",
    "EE_KEY_TOO_SMALL": "the key is too short to be safe",
    "CA_MD_TOO_WEAK": "the certificate is signed in a way that is not safe any more",
    "NO_CIPHER_MATCH": "none of ssl.cipher.suites is known here",
}


def untrusted(error: ssl.SSLCertVerificationError) -> str:
    """Why the other side's certificate is not trusted."""
    return _UNTRUSTED.get(error.verify_code, f"{error.verify_message}; check ssl.truststore.*")


def refused(error: ssl.SSLError) -> str:
    """Why the other side ended the handshake, by the alert that it sent."""
    reason = error.reason or ""
    known = next((words for name, words in _ALERTS.items() if reason.endswith(name)), None)
    return known or f"it refuses our certificate, or that we have none ({_plain(reason)}); {_OUR_STORE}"


def broken(error: ssl.SSLError) -> str:
    """Why the handshake came to nothing, where neither side refused the other."""
    reason = error.reason or ""
    known = next((words for name, words in _BROKEN.items() if name in (reason or str(error))), None)
    return known or f"TLS cannot be set up ({_plain(reason) or 'no reason given'}); check ssl.* and the port"


def unusable(error: ssl.SSLError) -> str:
    """Why certificates, keys or suites of ours cannot be used."""
    reason = error.reason or ""
    return f"{_UNUSABLE.get(reason, _plain(reason) or 'TLS cannot be set up')}; check ssl.keystore.*, ssl.truststore.*"


def is_refusal(error: BaseException) -> bool:
    return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or str(error))


def _plain(reason: str) -> str:
    return reason.lower().replace("_", " ")
