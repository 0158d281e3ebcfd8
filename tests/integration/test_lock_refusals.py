"""What keeps us out of the group of a flow is said, in words that can be acted on, and passes when it is mended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from acl_support import allow
from locks import Contender, contest, until
from records import create_topic
from test_raw_client_security import connection_of

from farshore.errors import AuthenticationFailed, KafkaError, PermissionDenied
from farshore.local import Cluster, Security

USER, PASSWORD = "poor", "wave-breaker"


@pytest.fixture(scope="module")
def guarded(source_cluster: Cluster) -> Iterator[Cluster]:  # noqa: ARG001  # one start after the other
    with Cluster("guarded", security=Security.SASL_PLAINTEXT, users={USER: PASSWORD}, authorizer=True) as cluster:
        yield cluster


async def refusal_of(contender: Contender, kind: type[KafkaError]) -> str:
    await until(lambda: isinstance(contender.lock.refusal, kind), f"refused with {kind.__name__}")
    assert not contender.held
    return str(contender.lock.refusal)


def test_a_wrong_password_is_a_refusal(guarded: Cluster, topic: str) -> None:
    properties = guarded.client_properties(USER, mechanism="PLAIN")
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(PASSWORD, "open-sesame")

    async def story() -> None:
        async with contest(connection_of(properties), topic) as made:
            said = await refusal_of(made.farshore(), AuthenticationFailed)
            assert said.startswith("B: broker ")
            assert "it refuses the login: Authentication failed" in said

    asyncio.run(story())


def test_what_must_be_granted_is_said_and_the_flow_is_held_when_it_is(guarded: Cluster, topic: str) -> None:
    create_topic(guarded.direct_bootstrap_servers, topic, 1)

    async def story() -> None:
        async with contest(connection_of(guarded.client_properties(USER, mechanism="PLAIN")), topic) as made:
            ours = made.farshore()
            wanted = "B: the flow cannot be held: grant our principal READ on the {} ({}_AUTHORIZATION_FAILED)"
            assert await refusal_of(ours, PermissionDenied) == wanted.format(f"topic {topic}", "TOPIC")
            allow(guarded.direct_bootstrap_servers, USER, "TOPIC", topic, "READ")
            group = wanted.format(f"group {made.group}", "GROUP")
            await until(lambda: str(ours.lock.refusal) == group, "the group is what is missing now")
            allow(guarded.direct_bootstrap_servers, USER, "GROUP", made.group, "READ")
            await until(lambda: ours.held, "the flow is held")
            assert ours.lock.refusal is None

    asyncio.run(story())
