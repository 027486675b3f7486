"""The test cluster itself: what it promises to the tests that stand on it, and that nothing of it stays."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster import control_plane, keeper, tools
from tests.cluster.control_plane import ControlPlane, ControlPlaneFailed
from tests.cluster.objects import until

pytestmark = pytest.mark.xdist_group("cluster")

KEEPER = [sys.executable, keeper.__file__]


def _config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


@pytest.mark.older
def test_it_is_the_version_that_was_asked_for_and_on_loopback(cluster: ControlPlane) -> None:
    version = json.loads(cluster.kubectl("version", "-o", "json").stdout)["serverVersion"]
    assert f"{version['major']}.{version['minor']}" == cluster.version
    assert version["gitVersion"].startswith(f"v{cluster.version}.")
    assert cluster.url.startswith("https://127.0.0.1:")
    service = json.loads(cluster.kubectl("get", "service", "kubernetes", "-o", "json").stdout)
    prefix = cluster.service_range.removesuffix("0/24")
    assert prefix.startswith("127.10.")
    assert service["spec"]["clusterIP"].startswith(prefix)


def test_a_service_account_has_its_own_name_and_rights(cluster: ControlPlane) -> None:
    cluster.namespace("accounts", {"team": "a"})
    kubeconfig = str(cluster.kubeconfig_for("accounts", "default"))
    answer = cluster.kubectl("--kubeconfig", kubeconfig, "auth", "whoami", "-o", "json").stdout
    assert json.loads(answer)["status"]["userInfo"]["username"] == "system:serviceaccount:accounts:default"
    refused = cluster.kubectl("--kubeconfig", kubeconfig, "get", "pods", "-n", "accounts", check=False)
    assert "Forbidden" in refused.stderr


def test_an_error_of_kubectl_fails_the_test_with_what_it_said(cluster: ControlPlane) -> None:
    with pytest.raises(AssertionError, match='pods "nobody" not found'):
        cluster.kubectl("get", "pod", "nobody")


@pytest.mark.older
def test_a_restarted_api_server_has_its_address_and_its_data(cluster: ControlPlane) -> None:
    cluster.apply(_config_map("before-the-restart"))
    address = cluster.url
    with ThreadPoolExecutor(1) as pool:
        restart = pool.submit(cluster.restart_api_server, down=1.0)
        until("nobody answers", lambda: cluster.kubectl("get", "--raw=/livez", check=False).returncode)
        restart.result()
    assert cluster.url == address
    cluster.kubectl("get", "configmap", "before-the-restart")
    cluster.namespace("after-the-restart", {})  # the controllers are back too


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_two_control_planes_have_different_networks() -> None:
    holders = [control_plane._free_network() for _ in range(20)]
    try:
        assert len({holder.getsockname()[0] for holder in holders}) == len(holders)
    finally:
        for holder in holders:
            holder.close()


def test_one_that_does_not_start_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd, pid = tools.kubernetes(tools.MINORS[0]) / "etcd", tmp_path / "pid"
    _script(tmp_path / "etcd", f'echo $$ > {pid}; exec {etcd} "$@"')
    _script(tmp_path / "kube-apiserver", "echo no such option >&2; exit 3")
    monkeypatch.setattr(tools, "kubernetes", lambda _minor: tmp_path)
    plane = ControlPlane()
    with pytest.raises(ControlPlaneFailed, match=r"kube-apiserver ended with exit code 3.*\nno such option"):
        plane.__enter__()
    assert not plane.directory.exists()
    assert not Path(f"/proc/{int(pid.read_text())}").exists()


def test_a_controller_manager_that_died_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tools.kubernetes(tools.MINORS[0])
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).symlink_to(folder / name)
    _script(tmp_path / "kube-controller-manager", "echo port taken; exit 1")
    monkeypatch.setattr(tools, "kubernetes", lambda _minor: tmp_path)
    with (
        ControlPlane() as plane,
        pytest.raises(
            ControlPlaneFailed, match=r"kube-controller-manager ended with exit code 1.*\nport taken"
        ),
    ):
        plane.namespace("never", {})


@pytest.mark.parametrize(
    ("command", "word", "code"),
    [
        ("sleep 100", "", 128 + signal.SIGTERM),
        ("sleep 100", "kill\n", 128 + signal.SIGKILL),
    ],
)
def test_the_keeper_ends_its_program(command: str, word: str, code: int) -> None:
    process = subprocess.Popen([*KEEPER, "sh", "-c", f"exec {command}"], stdin=subprocess.PIPE, text=True)
    process.communicate(word)
    assert process.returncode == code


def test_the_keeper_ends_as_its_program_does() -> None:
    with subprocess.Popen([*KEEPER, "sh", "-c", "exit 7"], stdin=subprocess.PIPE) as process:
        assert process.wait(10) == 7


def test_a_killed_test_run_leaves_no_process() -> None:
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(1000)"
    parent = f"""if True:
        import subprocess, time
        child = subprocess.Popen({[*KEEPER, sys.executable, "-c", program]!r}, stdin=subprocess.PIPE)
        time.sleep(1000)
    """
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    until("the program of a killed parent has ended", lambda: not Path(f"/proc/{pid}").exists())
