"""Why a connection could not be made or was lost, in Farshore's words: what happened, where, and what to do."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl

from aiokafka import errors as aiokafka_errors

from farshore.errors import AuthenticationFailed, KafkaError, TokenRefused, Unreachable
from farshore.kafka.lookup import LookupTimedOut
from farshore.kafka.raw_model import BrokerAddress
from farshore.kafka.tls_words import broken, is_refusal, refused, untrusted

_REFUSED_LOGIN = (
    aiokafka_errors.SaslAuthenticationFailed,
    aiokafka_errors.UnsupportedSaslMechanismError,
    aiokafka_errors.IllegalSaslStateError,
)

_NOTHING_LISTENS = "connection refused, nothing listens there: check that the broker runs"
_ONE_ADDRESS = re.compile(r"\[Errno (\d+)\] (?:Connect call failed \('([^']+)'[^)]*\)|([^\[]*))")
"""Of several addresses that fail differently asyncio makes one text, with nothing else to go by."""


def while_connecting(error: Exception, alias: str, address: BrokerAddress, *, within: float) -> KafkaError:
    """`error` ended the attempt to connect to, and log in at, a broker of cluster `alias`."""
    cause = _root(error)
    refusal = _refusal(cause)
    if refusal is not None:
        return AuthenticationFailed(f"{alias}: broker {address}: {refusal}", cluster=alias)
    return Unreachable(f"{alias}: broker {address}: {_obstacle(cause, within)}", cluster=alias)


def while_waiting(error: Exception, alias: str, address: BrokerAddress) -> KafkaError:
    """`error` took away an open connection; the outcome of what was sent on it is not known."""
    cause = _root(error)
    if isinstance(cause, ssl.SSLError):
        return lost(alias, address, refused(cause) if is_refusal(cause) else "TLS broke off")
    said = str(cause) if isinstance(cause, OSError) and str(cause) else "the broker closed the connection"
    return lost(alias, address, said)


def lost(alias: str, address: BrokerAddress, said: str) -> Unreachable:
    return Unreachable(f"{alias}: broker {address}: {said}; it is tried again", cluster=alias)


def _root(error: Exception) -> BaseException:
    """What lies under aiokafka's "connection closed"."""
    cause: BaseException = error
    while isinstance(cause, aiokafka_errors.KafkaConnectionError) and cause.__cause__ is not None:
        cause = cause.__cause__
    return cause


def _refusal(cause: BaseException) -> str | None:
    """What to say if one side refused the other, None if it was something else."""
    match cause:
        case aiokafka_errors.UnsupportedSaslMechanismError():
            return "it does not offer our sasl.mechanism: name one that it does"
        case aiokafka_errors.SaslAuthenticationFailed() if cause.args and cause.args[0]:
            return f"it refuses the login: {cause.args[0]}; check sasl.jaas.config"
        case error if isinstance(error, _REFUSED_LOGIN):
            return "it refuses the login; check sasl.mechanism and sasl.jaas.config"
        case TokenRefused():
            return f"no token to log in with: {cause}"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {untrusted(cause)}"
        case ssl.SSLError() if is_refusal(cause):
            return refused(cause)
        case ValueError() if "signature" in str(cause) or "nonce" in str(cause):
            return "it cannot prove that it knows the user's password: is this the right cluster?"
        case _:
            return None


def _of_each(answers: list[tuple[str, str, str]]) -> str:
    """What each address of a host name answered: number of the error, address if it is told, text."""
    if all(int(number) == errno.ECONNREFUSED for number, *_ in answers):
        return _NOTHING_LISTENS
    words = (
        f"{address}: {os.strerror(int(number)).lower()}" if address else text.strip(" ,").lower()
        for number, address, text in answers
    )
    return f"its addresses answer: {'; '.join(dict.fromkeys(words))}"


def _obstacle(cause: BaseException, within: float) -> str:
    match cause:
        case ssl.SSLError():
            return broken(cause)
        case ExceptionGroup():
            return "; ".join(dict.fromkeys(_obstacle(each, within) for each in cause.exceptions))
        case socket.gaierror():
            return "the host name does not resolve: check bootstrap.servers, or advertised.listeners of the broker"
        case LookupTimedOut():
            return f"the host name was not resolved within {within:.0f} s: check the name servers of this machine"
        case TimeoutError():
            return f"no answer within {within:.0f} s: check the network, firewalls, and that the broker runs"
        case ConnectionRefusedError():
            return _NOTHING_LISTENS
        case OSError() if cause.strerror:
            return cause.strerror.lower()
        case OSError() if answers := _ONE_ADDRESS.findall(str(cause)):
            return _of_each(answers)
        case aiokafka_errors.KafkaConnectionError() | EOFError() | OSError():
            return "it closed the connection before its first answer: check security.protocol and the port"
        case _:
            return f"what answers does not speak Kafka's protocol ({type(cause).__name__})"
