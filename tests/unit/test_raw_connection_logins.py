"""Logging in with a password leaves nothing behind that the end of the process would wait for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from farshore.kafka.raw_connection import BrokerConnection

# RFC 7677, section 3
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
CLIENT_FINAL = f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def connection(mechanism: str) -> BrokerConnection:
    """Not opened: the broker's part is played by the test."""
    return BrokerConnection(
        "broker",
        9092,
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        sasl_plain_username="user",
        sasl_plain_password="pencil",
    )


async def plain() -> None:
    login: Any = connection("PLAIN").authenticator_plain()
    assert await login.step(None) == (b"\0".join([b"user", b"user", b"pencil"]), True)
    assert await login.step(b"") is None


async def scram(server_final: bytes = SERVER_FINAL) -> None:
    login: Any = connection("SCRAM-SHA-256").authenticator_scram()
    login._nonce = NONCE
    assert await login.step(None) == (f"n,,n=user,r={NONCE}".encode(), True)
    assert await login.step(SERVER_FIRST) == (CLIENT_FINAL, True)
    assert await login.step(server_final) is None


def test_a_login_with_a_password_takes_no_thread_of_the_executor_that_is_joined_at_exit() -> None:
    async def log_in() -> None:
        loop: Any = asyncio.get_running_loop()
        await plain()
        assert loop._default_executor is None, "PLAIN"
        await scram()
        assert loop._default_executor is None, "SCRAM"

    asyncio.run(log_in())


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    with pytest.raises(ValueError, match="wrong signature"):
        asyncio.run(scram(b"v=AAAA"))
