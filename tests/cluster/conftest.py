"""One control plane for all tests of a process, and the product in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import ControlPlane


@pytest.fixture(scope="session")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane() as control_plane:
        yield control_plane


@pytest.fixture(scope="session")
def crds(cluster: ControlPlane) -> None:
    """The policies' CRDs, established."""
    cluster.kubectl("apply", "--server-side", "-f", "/tmp/team/crds.yaml")
    names = ("clustersparkpodpolicies.sparkwebhook.dev", "sparkpodpolicies.sparkwebhook.dev")
    cluster.kubectl(
        "wait", "--for=condition=Established", "--timeout=30s", *(f"crd/{name}" for name in names)
    )
