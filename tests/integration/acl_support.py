"""ACLs as an operator gives them, for tests of what happens with them and without."""

from __future__ import annotations

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

WITHIN_SECONDS = 20.0


def allow(
    servers: str, user: str, kind: str, name: str, *operations: str, prefixed: bool = False, host: str = "*"
) -> None:
    """`kind` is TOPIC, GROUP, CLUSTER or TRANSACTIONAL_ID; `prefixed` is for all names that begin with this one."""
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    _create(servers, user, kind, name, operations, pattern, host, AclPermissionType.ALLOW)


def deny(servers: str, user: str, kind: str, name: str, *operations: str, host: str = "*") -> None:
    """Whatever else is allowed."""
    _create(servers, user, kind, name, operations, ResourcePatternType.LITERAL, host, AclPermissionType.DENY)


def _create(
    servers: str, user: str, kind: str, name: str, operations: tuple[str, ...], pattern: ResourcePatternType, host: str,
    permission: AclPermissionType,
) -> None:  # fmt: skip
    # The client library's enumeration has no cluster: it calls the cluster a broker.
    resource = ResourceType.BROKER if kind == "CLUSTER" else ResourceType[kind]
    bindings = [
        AclBinding(resource, name, pattern, f"User:{user}", host, AclOperation[each], permission) for each in operations
    ]
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for future in admin.create_acls(bindings).values():
        future.result(WITHIN_SECONDS)
