"""One control plane for all tests of a process, and the product in it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.webhook import Webhook, install_crds


@pytest.fixture(scope="session")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane() as control_plane, pytest.MonkeyPatch.context() as patch:
        # The clients in this process must not go by way of a proxy. Lower case wins where both are set.
        patch.setenv("no_proxy", f"{os.environ.get('no_proxy', '')},127.0.0.1")
        yield control_plane


@pytest.fixture(scope="session")
def webhook(cluster: ControlPlane) -> Iterator[Webhook]:
    """The product in the cluster, with two replicas."""
    with Webhook(cluster, replicas=2) as webhook:
        yield webhook


@pytest.fixture(scope="session")
def crds(cluster: ControlPlane) -> None:
    """The policies' CRDs, established."""
    install_crds(cluster)
