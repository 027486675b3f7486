"""The product in the test cluster: the shipped manifests, and the server as processes of this machine.

There is no node to run the Deployment's pods, so each replica is a process with the arguments and variables
that the Deployment states and the rights of its service account. It listens on the Service's cluster IP,
where the API server finds it through the webhook configuration as it is shipped.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster.control_plane import ControlPlane
from tests.cluster.tools import Missing

ROOT = Path(__file__).parents[2]
BASE = ROOT / "manifests" / "base"
NAMESPACE = NAME = "spark-webhook"

_KEEPER = Path(__file__).with_name("keeper.py")
_SECONDS = 30.0
_HTTPS = 443
# Loopback is never asked for by way of a proxy, whatever the environment says.
_PROBES = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_SERVING = re.compile(r"serving https on (.*):(\d+), probes on .*:(\d+)$")


class Replica:
    """One server process. `name` is its pod's, `log` the file of its log."""

    def __init__(self, name: str, options: list[str], environment: dict[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        self._options = options
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._probes = ""

    def start(self, *, wait: bool = True) -> None:
        """Start it and wait until it listens, and until it is ready too."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, _KEEPER, sys.executable, "-P", "-m", "webhook", *self._options],
                env={**_without_proxy(), **self._environment, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for us: we end them in order
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := _SERVING.match(line):
                self._probes = f"http://{found[1]}:{found[3]}"
                break
        else:
            raise AssertionError(f"the server ended before it served:\n{self._end_of_log()}")
        deadline = time.monotonic() + _SECONDS
        while wait and not self.ready():
            assert time.monotonic() < deadline, f"the server is not ready:\n{self._end_of_log()}"
            time.sleep(0.02)

    def stop(self) -> int:
        """SIGTERM, as a rolling update does it; the exit code."""
        return self._end("")

    def kill(self) -> int:
        """SIGKILL."""
        return self._end("kill\n")

    def ready(self) -> bool:
        """What a kubelet would find."""
        try:
            self.probe("/readyz")
        except OSError:
            return False
        return True

    def probe(self, path: str) -> str:
        """The body that a path of the probe port answers. Raises OSError if it is none with status 200."""
        with _PROBES.open(self._probes + path, timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that have these labels."""
        total = 0.0
        for line in self.probe("/metrics").splitlines():
            series, _, value = line.rpartition(" ")
            if re.match(rf"{name}(\{{|$)", series) and all(f'{k}="{v}"' in series for k, v in labels.items()):
                total += float(value)
        return total

    def _end(self, word: str) -> int:
        assert self._process is not None
        self._process.communicate(word)
        return self._process.returncode

    def _end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


class Webhook:
    """A context manager: on entry the product is installed and its replicas are ready.

    Attributes:
        address: the Service's cluster IP
        replicas: the running ones
    """

    def __init__(self, cluster: ControlPlane, *, manifests: Path = BASE, replicas: int = 1) -> None:
        self.cluster = cluster
        self.address = ""
        self.replicas: list[Replica] = []
        self._manifests = manifests
        self._wanted = replicas
        self._made = 0

    def __enter__(self) -> Self:
        self.install()
        self.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def install(self) -> None:
        """Apply the manifests, as a user does."""
        self.cluster.kubectl("apply", "--server-side", "-k", str(self._manifests))
        _wait_for_crds(self.cluster)

    def start(self) -> None:
        """Start the replicas of what is installed, one after the other."""
        self.address = self._get("service", NAME)["spec"]["clusterIP"]
        _check_port(self.address)
        for _ in range(self._wanted):
            replica = self.replica()
            replica.start()
            self.replicas.append(replica)
        self.wait_for_ca_bundle()

    def stop(self) -> None:
        """Stop all replicas, gracefully."""
        while self.replicas:
            assert self.replicas.pop().stop() == 0

    def replica(self, *, kubeconfig: Path | None = None, tls_from_files: bool = False) -> Replica:
        """One more, not started: as the Deployment states it, perhaps by another way to the API server."""
        self._made += 1
        container = self._get("deployment", NAME)["spec"]["template"]["spec"]["containers"][0]
        name = f"{NAME}-{self._made}"
        fields = {"metadata.name": name, "metadata.namespace": NAMESPACE}
        environment = {
            item["name"]: item.get("value") or fields[item["valueFrom"]["fieldRef"]["fieldPath"]]
            for item in container.get("env", ())
        }
        options = list(container["args"])
        if tls_from_files:
            options = [option for option in options if not option.startswith("--tls-secret")]
            options += self._certificate_files()
        account = kubeconfig or self.cluster.kubeconfig_for(NAMESPACE, NAME)
        options += ["--kubeconfig", str(account), "--host", self.address, "--port", str(_HTTPS)]
        options += ["--probe-port", "0", "--reuse-port", "--shutdown-delay", "0.2"]
        return Replica(name, options, environment, self.cluster.directory / f"{name}.log")

    def wait_for_policies(self, number: int) -> None:
        """Wait until so many are in force in every replica."""
        loaded = "spark_webhook_policies_loaded"
        self._until(
            f"{number} policies in force",
            lambda: all(replica.metric(loaded) == number for replica in self.replicas),
        )

    def wait_for_ca_bundle(self) -> None:
        """Wait until the API server has been told whom to trust."""
        self._until("the caBundle", lambda: bool(self._ca_bundle()))

    def admissions(self) -> float:
        """Reviews answered so far."""
        return sum(replica.metric("spark_webhook_admissions_total") for replica in self.replicas)

    def secret(self) -> dict[str, str]:
        """The data of the certificate's Secret, in base64."""
        data: dict[str, str] = self._get("secret", f"{NAME}-tls").get("data", {})
        return data

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Without any replica."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def _ca_bundle(self) -> str:
        configuration = self._get("mutatingwebhookconfiguration", NAME)
        return str(configuration["webhooks"][0]["clientConfig"].get("caBundle", ""))

    def _certificate_files(self) -> list[str]:
        data = self.secret()
        options = []
        for option, key in (("--tls-cert", "tls.crt"), ("--tls-key", "tls.key")):
            path = self.cluster.directory / key
            path.write_bytes(base64.b64decode(data[key]))
            options += [option, str(path)]
        return options

    def _get(self, kind: str, name: str) -> dict[str, Any]:
        answer = self.cluster.kubectl("get", kind, name, "-n", NAMESPACE, "-o", "json").stdout
        value: dict[str, Any] = json.loads(answer)
        return value

    def _until(self, what: str, ask: Any) -> None:
        deadline = time.monotonic() + _SECONDS
        while not ask():
            assert time.monotonic() < deadline, f"not after {_SECONDS} s: {what}"
            time.sleep(0.02)


def _without_proxy() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


def _check_port(address: str) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            listener.bind((address, _HTTPS))
        except PermissionError:
            raise Missing(
                f"only root may listen on {address} port {_HTTPS}, where the API server calls the webhook: "
                f"be root, or say sudo sysctl net.ipv4.ip_unprivileged_port_start={_HTTPS}"
            ) from None


def install_crds(cluster: ControlPlane) -> None:
    """Only the policies' CRDs."""
    cluster.kubectl("apply", "--server-side", "-k", str(ROOT / "manifests" / "crds"))
    _wait_for_crds(cluster)


def _wait_for_crds(cluster: ControlPlane) -> None:
    names = (f"crd/{kind}.sparkwebhook.dev" for kind in ("clustersparkpodpolicies", "sparkpodpolicies"))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
