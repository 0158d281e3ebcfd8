"""What OpenSSL says, in words for people."""

from __future__ import annotations

import ssl

import pytest

from farshore.errors import AuthenticationFailed, Unreachable
from farshore.kafka.raw_failures import while_connecting, while_waiting
from farshore.kafka.raw_model import BrokerAddress
from farshore.kafka.tls_words import unusable

ADDRESS = BrokerAddress("kafka.example", 9093)


def openssl(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] {reason.lower()} (_ssl.c:2580)")
    error.reason = reason
    return error


def untrusted(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, f"[SSL: CERTIFICATE_VERIFY_FAILED] {message} (_ssl.c:1000)")
    error.reason, error.verify_code, error.verify_message = "CERTIFICATE_VERIFY_FAILED", code, message
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (untrusted(19, "self-signed certificate in certificate chain"), "the authority that signed it is not among"),
        (untrusted(10, "certificate has expired"), "its certificate is not trusted: it has expired"),
        (untrusted(62, "Hostname mismatch"), "it is for another host name; check bootstrap.servers"),
        (untrusted(99, "something rare"), "something rare; check ssl.truststore"),
        (openssl("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "it wants a certificate, and we have none; check ssl.keystore"),
        (openssl("TLSV1_ALERT_UNKNOWN_CA"), "it does not trust the authority that signed our certificate"),
        (openssl("SSLV3_ALERT_BAD_CERTIFICATE"), r"it refuses our certificate, or that we have none \(sslv3 alert bad"),
        (openssl("TLSV1_ALERT_PROTOCOL_VERSION"), "no protocol version in common; check ssl.enabled.protocols"),
    ],
)
def test_a_refusal_of_either_side_says_why_and_what_to_check(error: ssl.SSLError, words: str) -> None:
    said = while_connecting(error, "B", ADDRESS, within=5.0)
    assert isinstance(said, AuthenticationFailed)
    with pytest.raises(AuthenticationFailed, match=words):
        raise said
    assert "_ssl.c" not in str(said)


def test_a_connection_that_tls_takes_away_is_told_without_the_text_of_openssl() -> None:
    said = while_waiting(openssl("DECRYPTION_FAILED_OR_BAD_RECORD_MAC"), "B", ADDRESS)
    assert isinstance(said, Unreachable)
    assert str(said) == "B: broker kafka.example:9093: TLS broke off; it is tried again"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("KEY_VALUES_MISMATCH", "the key does not belong to the certificate; check ssl.keystore"),
        ("BAD_BASE64_DECODE", "bad base64 decode; check ssl.keystore"),
    ],
)
def test_what_cannot_be_set_up_is_named(reason: str, words: str) -> None:
    assert unusable(openssl(reason)).startswith(words)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("UNSUPPORTED_PROTOCOL", "it offers only protocol versions that we do not allow; check ssl.enabled.protocols"),
        ("NO_SHARED_CIPHER", "no cipher suite in common; check ssl.cipher.suites"),
        ("WRONG_VERSION_NUMBER", "no TLS there: check security.protocol and the port"),
        ("UNEXPECTED_EOF_WHILE_READING", "no TLS there"),
        ("SOMETHING_RARE", r"TLS cannot be set up \(something rare\); check"),
    ],
)
def test_a_handshake_that_comes_to_nothing_is_told_in_words(reason: str, words: str) -> None:
    said = while_connecting(openssl(reason), "B", ADDRESS, within=5.0)
    with pytest.raises(Unreachable, match=words):
        raise said
    assert "_ssl.c" not in str(said)


def several(*errors: str) -> OSError:
    """As asyncio makes one of what the addresses of a host answer."""
    return OSError(f"Multiple exceptions: {', '.join(errors)}")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            several(
                "[Errno 111] Connect call failed ('::1', 9093, 0, 0)",
                "[Errno 113] Connect call failed ('10.0.0.1', 9093)",
            ),
            "its addresses answer: ::1: connection refused; 10.0.0.1: no route to host",
        ),
        (
            several("[Errno 111] Connection refused", "[Errno 101] Network is unreachable"),
            "its addresses answer: connection refused; network is unreachable",
        ),
        (
            several(
                "[Errno 111] Connect call failed ('::1', 9093, 0, 0)",
                "[Errno 111] Connect call failed ('127.0.0.1', 9093)",
            ),
            "connection refused, nothing listens there: check that the broker runs",
        ),
        (
            ExceptionGroup("several", [ConnectionRefusedError(111, "refused"), OSError(113, "No route to host")]),
            "connection refused, nothing listens there: check that the broker runs; no route to host",
        ),
    ],
)
def test_what_each_address_of_a_host_answers_is_told(error: Exception, words: str) -> None:
    said = while_connecting(error, "B", ADDRESS, within=5.0)
    assert str(said) == f"B: broker kafka.example:9093: {words}"
