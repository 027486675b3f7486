"""Where the programs of the test cluster come from."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster import tools


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of binaries that say they are Kubernetes 1.36."""
    for name in tools.CONTROL_PLANE:
        (tmp_path / name).write_text("#!/bin/sh\necho Kubernetes v1.36.4\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    return tmp_path


def _kubernetes(minor: str) -> Path:
    return tools.kubernetes.__wrapped__(minor)  # what it found before is of another environment


def test_binaries_of_ones_own_are_taken_for_their_minor(assets: Path) -> None:
    assert _kubernetes("1.36") == assets


def test_binaries_of_ones_own_never_stand_for_another_minor(
    assets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _kubernetes(tools.MINORS[0]) != assets
    assert f"has Kubernetes 1.36, which is not {tools.MINORS[0]}" in capsys.readouterr().err


def test_binaries_that_are_not_all_there(assets: Path) -> None:
    (assets / "etcd").unlink()
    with pytest.raises(tools.Missing, match=f"KUBEBUILDER_ASSETS={assets} has no etcd: unset it"):
        _kubernetes("1.36")


def test_a_minor_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(tools.Missing, match=r"Kubernetes 1\.12 can't be built here, only 1\.37 and 1\.34"):
        _kubernetes("1.12")


def test_a_folder_of_the_cache_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_CACHE", tmp_path / "cache")
    made = []
    start = threading.Barrier(4)

    def make(folder: Path) -> None:
        made.append(folder)
        time.sleep(0.2)
        (folder / "program").touch()

    def ask(_: int) -> bool:
        start.wait()
        return (tools._cached("thing", make) / "program").exists()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(4)))
    assert len(made) == 1


def test_what_could_not_be_made_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_CACHE", tmp_path)

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        tools._run(["sh", "-c", "echo no network; exit 4"])

    with pytest.raises(tools.Missing, match=r"failed with exit code 4:\nno network"):
        tools._cached("thing", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["thing.lock"]
