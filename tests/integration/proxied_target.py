"""A target whose requests can be lost, held back and repeated. One serves all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from request_proxy import RequestProxy

from farshore.local import Cluster, prepare
from farshore.local.java import Java


@pytest.fixture(scope="module")
def proxied_target(java: Java) -> Iterator[Cluster]:  # noqa: ARG001
    prepare()
    with Cluster("target", proxied=True, make_proxy=RequestProxy) as cluster:
        yield cluster


@pytest.fixture
def proxy(proxied_target: Cluster) -> Iterator[RequestProxy]:
    """Of `proxied_target`. Its traps are gone after the test."""
    assert isinstance(proxied_target.proxy, RequestProxy)
    yield proxied_target.proxy
    proxied_target.proxy.disarm()
