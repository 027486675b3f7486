"""The server that the HTTP tests talk to: the real command, in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.policies import POLICIES
from tests.http.wire import Connection
from webhook.running import RunningServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A running server with the policies of these tests, shared by all tests that don't change it."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "policies").mkdir()
    (folder / "policies" / "policies.yaml").write_text(POLICIES)
    with RunningServer(folder / "policies", log=folder / "log") as running:
        yield running


@pytest.fixture
def connection(server: RunningServer) -> Iterator[Connection]:
    """A connection to it."""
    with Connection(server.port, server.ca) as opened:
        yield opened


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """A directory of policies that a test may change."""
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "policies.yaml").write_text(POLICIES)
    return folder
