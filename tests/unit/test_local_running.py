"""What `farshore local` is asked for, the files it writes, and the record of what runs. No broker."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.errors import LocalClusterError
from farshore.local import registry
from farshore.local.broker_settings import Node, broker_settings, write_properties
from farshore.local.cluster import Kept, _nodes
from farshore.local.ports import free_port
from farshore.local.registry import Claim, Record
from farshore.local.running import Wanted, _cluster, parse_wanted, take_down


def test_names_and_counts_are_read() -> None:
    assert parse_wanted(["A", "eu-west_1:3"]) == [Wanted("A", 1), Wanted("eu-west_1", 3)]
    fixed = parse_wanted(["A@19092", "B@29092:3"])
    assert fixed == [Wanted("A", 1, 19092), Wanted("B", 3, 29092)]
    assert parse_wanted([str(each) for each in fixed]) == fixed


@pytest.mark.parametrize("text", ["A@", "A@x", "A@80", "A@70000:3", "A@-1"])
def test_a_port_that_makes_no_sense_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(LocalClusterError, match=r"a port must be 1024 to 65000, as in A@19092 or A@19092:3"):
        parse_wanted([text])


def test_a_port_that_is_taken_is_told_before_anything_is_started() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LocalClusterError, match=f"port {port} is taken: ask for another one"):
            _nodes(1, False, port)
    fixed = free_port() + 20_000  # nobody was given it, and two clusters of one call must not both have it
    assert [node.advertised_port for node in _nodes(2, False, fixed)] == [fixed, fixed + 1]
    with pytest.raises(LocalClusterError, match=f"port {fixed + 1} is taken"):
        _nodes(1, False, fixed + 1)


@pytest.mark.parametrize("text", ["A:0", "A:10", "A:x", "A:", "A:1:2", "A:-1", "A:٣"])
def test_a_count_that_makes_no_sense_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(LocalClusterError, match=r"the number of brokers must be 1 to 9, as in A:3"):
        parse_wanted([text])


@pytest.mark.parametrize("text", ["", ":3", "../A", "a b", "ä", "A.B"])
def test_a_name_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(LocalClusterError, match=r"a cluster's name consists of letters, digits, _ and -"):
        parse_wanted([text])


def test_the_same_name_twice_is_refused() -> None:
    with pytest.raises(LocalClusterError, match="cluster A is asked for more than once"):
        parse_wanted(["A", "B", "A:3"])


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "farshore" / "clusters"


def record(name: str) -> Record:
    return Record(name, "127.0.0.1:1", (1,), "/nowhere", os.getpid())


@pytest.mark.usefixtures("state")
def test_a_published_cluster_is_seen_until_it_is_released() -> None:
    claim = Claim("A")
    assert registry.running() == []
    claim.publish(record("A"))
    assert registry.running() == [record("A")]
    claim.release()
    assert registry.running() == []


@pytest.mark.usefixtures("state")
def test_a_name_in_use_cannot_be_claimed_again() -> None:
    claim = Claim("A")
    with pytest.raises(LocalClusterError, match="a cluster named A is already running: end it with"):
        Claim("A")
    claim.release()
    Claim("A").release()


def test_a_record_whose_owner_is_gone_is_noticed_and_removed(state: Path) -> None:
    state.mkdir(parents=True)
    stale = state / "A.json"
    stale.write_text(json.dumps({"name": "A", "owner": os.getpid()}))
    assert registry.running() == []
    assert not stale.exists()


@pytest.mark.usefixtures("state")
def test_an_old_request_to_end_does_not_end_a_new_cluster(state: Path) -> None:
    state.mkdir(parents=True)
    registry.ask_to_end("A")
    claim = Claim("A")
    requests = [claim.asked_to_end]
    registry.ask_to_end("A")
    requests.append(claim.asked_to_end)
    claim.release()
    assert requests == [False, True]
    assert list(state.iterdir()) == []


@pytest.mark.usefixtures("state")
def test_taking_down_an_unknown_cluster_names_the_known_ones() -> None:
    claim = Claim("B")
    claim.publish(record("B"))
    with pytest.raises(LocalClusterError, match="no cluster named A to take down; running: B"):
        take_down(["A"])
    assert not claim.asked_to_end
    claim.release()
    with pytest.raises(LocalClusterError, match="no cluster named A to take down; none is running"):
        take_down(["A"])
    assert take_down([]) == []


@given(settings=st.dictionaries(st.text(min_size=1), st.text()))
def test_a_properties_file_means_to_java_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.properties"
    write_properties(path, settings)
    assert javaproperties.loads(path.read_bytes().decode("latin-1")) == settings


def test_a_properties_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "broker.properties"
    write_properties(path, {"password": "secret"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_settings_given_win_over_the_defaults_and_copies_fit_the_cluster(tmp_path: Path) -> None:
    nodes = [Node(number, 10, 20, 30, 10) for number in (1, 2)]
    settings = broker_settings(nodes[0], nodes, tmp_path, "SSL", {"num.partitions": "7", "log.dirs": "/elsewhere"})
    assert settings["offsets.topic.replication.factor"] == "2"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:30,2@127.0.0.1:30"
    assert settings["num.partitions"] == "7"
    assert settings["log.dirs"] == "/elsewhere"


@pytest.mark.usefixtures("state")
def test_what_was_kept_is_found_by_its_name_until_it_is_taken_down(tmp_path: Path) -> None:
    directory = tmp_path / "farshore-A-x"
    directory.mkdir()
    Claim("B").release()  # makes the directory of the records
    kept = Kept(directory, "id", (Node(1, 19092, 20001, 20002, 19092),))
    registry.note_kept("A", kept)
    assert registry.kept("A") == kept
    assert registry.kept("B") is None
    with pytest.raises(LocalClusterError, match="A was kept as A@19092:1: ask for that, or remove it"):
        _cluster(Wanted("A", 3))
    assert take_down([]) == ["A"]
    assert not directory.exists()
    assert registry.kept("A") is None
