"""A real kube-apiserver, kube-controller-manager and etcd on loopback.

There is no node: pods stay Pending, which is all that admission needs. The service range lies inside of
127.0.0.0/8, so the API server reaches whoever listens on a Service's cluster IP, and nobody outside of this
machine. No process outlives the one that made the control plane.
"""

from __future__ import annotations

import json
import os
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster import pki, tools

_READY_SECONDS = 60.0
_CONTROLLERS = (
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "statefulset-controller",
    "deployment-controller",
    "replicaset-controller",
    "clusterrole-aggregation-controller",
)
_KEEPER = Path(__file__).with_name("keeper.py")


class ControlPlaneFailed(Exception):
    """A process of the control plane did not start or died; the message has the end of its log."""


class ControlPlane:
    """A context manager.

    Attributes:
        version: the Kubernetes minor
        url: of the API server
        directory: private; keys, certificates, logs
        ca: file of the API server's certificate authority
        kubeconfig: of an administrator
        service_range: of cluster IPs
    """

    def __init__(self, minor: str = "") -> None:
        """`minor` is of tools.MINORS; default: $KUBERNETES_MINOR, else the newest."""
        self.version = minor or os.environ.get("KUBERNETES_MINOR") or tools.MINORS[0]
        self._stack = ExitStack()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._programs = tools.kubernetes(self.version)
        self._kubectl = tools.kubectl()
        with self._stack:
            self.directory = Path(
                self._stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-webhook-cluster-"))
            )
            self._stack.callback(self._stop_all)
            self._start()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator. With `check`, an error fails the test with what it said."""
        done = subprocess.run(
            [self._kubectl, *arguments],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.directory)},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done

    def apply(self, *documents: dict[str, Any]) -> None:
        """Server-side apply of these objects."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def namespace(self, name: str, labels: dict[str, str]) -> None:
        """Make a namespace, and wait for the service account that its pods need."""
        metadata = {"name": name, "labels": labels}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        deadline = time.monotonic() + _READY_SECONDS
        while self.kubectl("get", "serviceaccount", "default", "-n", name, check=False).returncode:
            self._check_processes()
            assert time.monotonic() < deadline, f"namespace {name} has no default service account"
            time.sleep(0.05)

    def token(self, namespace: str, service_account: str) -> str:
        """A token of a service account, good for a day."""
        return self.kubectl(
            "create", "token", service_account, "-n", namespace, "--duration", "24h"
        ).stdout.strip()

    def kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """A kubeconfig that acts as this service account."""
        path = self.directory / f"{namespace}.{service_account}.kubeconfig"
        self._write_kubeconfig(path, {"token": self.token(namespace, service_account)})
        return path

    def restart_api_server(self, *, down: float = 0.0) -> None:
        """Kill the API server, start it again after so many seconds on its port, wait until it is ready."""
        self._stop("kube-apiserver")
        time.sleep(down)
        self._start_api_server()
        self._wait_until_ready()

    def _start(self) -> None:
        network = self._stack.enter_context(_free_network())
        prefix = network.getsockname()[0].rsplit(".", 1)[0]
        self.service_range = f"{prefix}.0/24"
        self._etcd_port, peers, self._port, self._controllers_port = _free_ports(4)
        self.url = f"https://127.0.0.1:{self._port}"
        authority = pki.Authority(self.directory)
        self.ca = authority.ca
        names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        authority.issue("server", "kube-apiserver", names=names, addresses=("127.0.0.1", f"{prefix}.1"))
        certificate, key = authority.issue("admin", "admin", group="system:masters")
        pki.token_keys(self.directory)
        self.kubeconfig = self.directory / "admin.kubeconfig"
        self._write_kubeconfig(
            self.kubeconfig, {"client-certificate": str(certificate), "client-key": str(key)}
        )
        etcd = f"http://127.0.0.1:{self._etcd_port}"
        self._run(
            "etcd",
            *("--data-dir", str(self.directory / "etcd")),
            *("--listen-client-urls", etcd, "--advertise-client-urls", etcd),
            *("--listen-peer-urls", f"http://127.0.0.1:{peers}"),
            "--unsafe-no-fsync",
        )
        self._start_api_server()
        self._wait_until_ready()
        self._run(
            "kube-controller-manager",
            *("--kubeconfig", str(self.kubeconfig)),
            *("--service-account-private-key-file", str(self.directory / "tokens.key")),
            *("--root-ca-file", str(self.ca), "--use-service-account-credentials", "--leader-elect=false"),
            *("--bind-address", "127.0.0.1", "--secure-port", str(self._controllers_port)),
            *("--cert-dir", str(self.directory), f"--controllers={','.join(_CONTROLLERS)}"),
        )

    def _start_api_server(self) -> None:
        path = self.directory
        self._run(
            "kube-apiserver",
            *("--etcd-servers", f"http://127.0.0.1:{self._etcd_port}"),
            *("--secure-port", str(self._port), "--bind-address", "127.0.0.1"),
            *("--tls-cert-file", str(path / "server.crt")),
            *("--tls-private-key-file", str(path / "server.key")),
            *("--client-ca-file", str(self.ca)),
            *("--service-account-key-file", str(path / "tokens.pub")),
            *("--service-account-signing-key-file", str(path / "tokens.key")),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--authorization-mode", "RBAC", "--service-cluster-ip-range", self.service_range),
            *("--allow-privileged", "--endpoint-reconciler-type=none"),
        )

    def _run(self, program: str, *arguments: str) -> None:
        with (self.directory / f"{program}.log").open("ab") as log:
            self._processes[program] = subprocess.Popen(
                ["nice", sys.executable, _KEEPER, self._programs / program, *arguments],
                stdin=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for us: we end them in order
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait_until_ready(self) -> None:
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(self.directory / "admin.crt", self.directory / "admin.key")
        # Loopback is never asked for by way of a proxy, whatever the environment says.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            try:
                with opener.open(f"{self.url}/readyz", timeout=5):
                    return
            except OSError as error:
                self._check_processes()
                if time.monotonic() > deadline:
                    said = error.read().decode() if isinstance(error, urllib.error.HTTPError) else error
                    raise self._failed("kube-apiserver", f"is not ready: {said}") from None
            time.sleep(0.1)

    def _check_processes(self) -> None:
        for program, process in self._processes.items():
            if process.poll() is not None:
                raise self._failed(program, f"ended with exit code {process.returncode}") from None

    def _failed(self, program: str, what: str) -> ControlPlaneFailed:
        log = (self.directory / f"{program}.log").read_text(errors="replace")
        return ControlPlaneFailed(f"{program} {what}; the end of its log:\n{log[-3000:]}")

    def _stop(self, program: str) -> None:
        # Killed: nothing here is kept, and an API server takes its time to say goodbye to watches.
        process = self._processes.pop(program)
        process.communicate(b"kill\n")

    def _stop_all(self) -> None:
        for program in reversed(list(self._processes)):
            self._stop(program)

    def _write_kubeconfig(self, path: Path, user: dict[str, str]) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "test",
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                    "clusters": [{"name": "test", "cluster": cluster}],
                    "users": [{"name": "test", "user": user}],
                }
            )
        )


def _free_network() -> socket.socket:
    """A socket that holds a /24 inside of loopback: another control plane can't bind the same one."""
    for number in random.sample(range(1, 255), 254):
        holder = socket.socket()
        try:
            holder.bind((f"127.10.{number}.254", 1 + 1024))
        except OSError:
            holder.close()
        else:
            return holder
    raise ControlPlaneFailed("all networks 127.10.N.0/24 are taken by other control planes")


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
