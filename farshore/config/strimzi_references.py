"""Fields that point into secrets."""

from __future__ import annotations

from collections.abc import Iterable

from farshore.config.strimzi_fields import TRUSTED_CERTIFICATE, Section
from farshore.config.strimzi_secrets import Secrets


def secret_of(source: Section, key_field: str, secrets: Secrets) -> str | None:
    """What a reference such as `passwordSecret` points to, without the line end that files tend to have.

    None after an error.
    """
    source.expect(("secretName", key_field))
    name, key = source.required("secretName"), source.required(key_field)
    text = None if name is None or key is None else secrets.value(name.text, key.text, source.origin)
    return None if text is None else text.rstrip("\r\n")


def trusted_certificates(sources: Iterable[Section], secrets: Secrets) -> str:
    """The PEM texts that a list such as `trustedCertificates` points to, one after the other.

    What cannot be had is left out, with an error.
    """
    texts: list[str] = []
    for source in sources:
        source.expect(TRUSTED_CERTIFICATE)
        name = source.required("secretName")
        certificate, pattern = source.text("certificate"), source.text("pattern")
        if certificate is None and pattern is None:
            source.error("certificate", "is missing: it names the key in the secret (or `pattern`, for several)")
        elif name is not None and certificate is not None:
            text = secrets.value(name.text, certificate.text, source.origin)
            texts += [] if text is None else [text]
        elif name is not None and pattern is not None:
            texts += secrets.matching(name.text, pattern.text, source.origin)
    return "".join(f"{text.strip()}\n" for text in texts)
