"""GSSAPI: options of Java's login module for Kerberos to the credentials that log in."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from farshore.config.connection_keys import ConnectionKeys
from farshore.config.oauth import JAAS

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
LIBRARY = "gssapi"

_SERVICE = "sasl.kerberos.service.name"


@dataclass(frozen=True, slots=True)
class Kerberos:
    """Whose ticket is shown to the brokers, which are `service`.

    With a `keytab` a ticket is got by it, else there is one in the cache: that file, or the user's own.
    """

    service: str
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None

    mechanism = "GSSAPI"


def read_kerberos(keys: ConnectionKeys, options: Mapping[str, str]) -> Kerberos | None:
    """Whose ticket is shown; None after an error."""
    service, named = options.get("serviceName"), keys.text(_SERVICE)
    principal, keytab = options.get("principal"), options.get("keyTab")
    complaint = None
    if service and named and service != named:
        complaint = f"{JAAS}: serviceName is {service}, but {_SERVICE} is {named}: leave out one of them"
    elif not service and not named:
        complaint = f"{_SERVICE} is missing: the Kerberos name of the brokers, mostly kafka"
    elif _is_true(options, "useKeyTab") and not (principal and keytab):
        complaint = f"{JAAS} has useKeyTab=true, which needs the options keyTab and principal"
    elif not _is_true(options, "useKeyTab") and not _is_true(options, "useTicketCache"):
        complaint = (
            f"{JAAS} needs useKeyTab=true with keyTab and principal, or useTicketCache=true, since nobody is there "
            "to be asked for a password"
        )
    if complaint is not None:
        keys.error(JAAS, complaint)
        return None
    if not _is_true(options, "useKeyTab"):
        return Kerberos(service or named or "", principal, ticket_cache=options.get("ticketCache"))
    if keytab is not None and not Path(keytab.removeprefix("FILE:")).exists():
        keys.absent(JAAS, f"{JAAS}: the keytab {keytab} is not there")
    return Kerberos(service or named or "", principal, keytab)


def kerberos_is_installed() -> bool:
    return importlib.util.find_spec(LIBRARY) is not None


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"
