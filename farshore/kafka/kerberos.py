"""Logging in with Kerberos, by the library of this machine: pip install 'farshore[gssapi]'."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Generator
from typing import Any

from aiokafka.conn import SaslGSSAPIAuthenticator

from farshore.config.security import Kerberos
from farshore.errors import TokenRefused
from farshore.threads import in_thread


def require_kerberos() -> None:
    """Raises TokenRefused where the library is missing, as on an executor that was set up without it."""
    if importlib.util.find_spec("gssapi") is None:
        raise TokenRefused("GSSAPI needs Kerberos, which is not installed here: pip install 'farshore[gssapi]'")


class KerberosLogin(SaslGSSAPIAuthenticator):  # type: ignore[misc]
    """aiokafka's way to speak, with the credentials that the configuration names instead of the user's own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, login: Kerberos, host: str) -> None:
        self._login = login
        super().__init__(loop=loop, principal=f"{login.service}@{host}")

    async def step(self, payload: bytes | None) -> Any:
        return await in_thread(lambda: self._step(payload), "Kerberos")

    def authenticator_gssapi(self) -> Generator[tuple[bytes, bool], bytes, None]:
        gssapi: Any = importlib.import_module("gssapi")
        try:
            yield from self._speak(gssapi)
        except gssapi.exceptions.GSSError as error:
            raise TokenRefused(f"Kerberos has no ticket for {self._principal}: {_reason(error)}") from None

    def _speak(self, gssapi: Any) -> Generator[tuple[bytes, bool], bytes, None]:
        service = gssapi.Name(self._principal, name_type=gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(name=service, creds=self._credentials(gssapi), usage="initiate")
        answer: bytes | None = None
        while not context.complete:
            answer = yield context.step(answer) or b"", True
        # RFC 4752: the broker offers layers of security and its largest message; we take none, and act as ourselves.
        context.unwrap(answer)
        yield context.wrap(b"\x01\0\0\0", False).message, False

    def _credentials(self, gssapi: Any) -> Any:
        login = self._login
        name = gssapi.Name(login.principal, name_type=gssapi.NameType.kerberos_principal) if login.principal else None
        store: dict[str, str] = {}
        if login.keytab is not None:
            # A cache of its own, in memory: nobody else's ticket is taken, or written over.
            store = {"ccache": f"MEMORY:farshore-{login.principal}", "client_keytab": login.keytab}
        elif login.ticket_cache:
            store["ccache"] = login.ticket_cache
        return gssapi.Credentials(name=name, usage="initiate", store=store or None)


def _reason(error: Exception) -> str:
    """What the library says, in one line: it tells the major and the minor code, mostly with the same word twice."""
    return " ".join(str(error).split())
