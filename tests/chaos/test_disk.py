"""A run does not fill the disk."""

from __future__ import annotations

from pathlib import Path

from chaos.disk import DiskWatch, used_bytes


def test_blocks_count_and_what_is_not_there_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "segment").write_bytes(b"x" * 100_000)
    with (tmp_path / "index").open("wb") as index:
        index.truncate(10 << 20)
    assert 100_000 <= used_bytes([tmp_path, tmp_path / "gone"]) < 1 << 20


def test_it_calls_once_when_there_is_too_much_and_never_before(tmp_path: Path) -> None:
    called: list[int] = []
    (tmp_path / "segment").write_bytes(b"x" * 100_000)
    for most in (1_000_000, 50_000):
        watch = DiskWatch([tmp_path], called.append, most)
        watch.start()
        watch.end()
    assert called == [used_bytes([tmp_path])]
