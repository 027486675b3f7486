"""Real Spark as a client of the test cluster: submissions, and drivers that run on this machine.

There is no node, so the driver pod of cluster mode never starts. What it would do is done here, as the
image's entrypoint.sh does it: its own arguments, spark.properties from its own config map, a token of its
service account that is bound to the pod. Executors are asked for and never come. Nothing here speaks to the
API server in Spark's place.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster.control_plane import ControlPlane
from tests.cluster.spark_submit import SparkSubmit

Json = dict[str, Any]

APP = Path(__file__).parent / "data" / "spark" / "app.py"
ACCOUNT = "spark"
EXECUTORS = 2

_RUNNING = "the application is running"
_PROPERTIES = "/opt/spark/conf/spark.properties"
_DRIVER_HERE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.port": "0",
    "spark.driver.blockManager.port": "0",
    # Half a minute is not worth waiting for executors that never come.
    "spark.scheduler.minRegisteredResourcesRatio": "0",
}
_RULES = [
    ("", ["pods", "services", "configmaps", "persistentvolumeclaims"]),
    ("apps", ["statefulsets", "deployments"]),
    ("networking.k8s.io", ["networkpolicies"]),
]


class Spark:
    """A release of Spark, used by the service account `spark` of one namespace."""

    def __init__(self, cluster: ControlPlane, version: str, namespace: str) -> None:
        self.cluster, self.version, self.namespace = cluster, version, namespace

    def submit(self, name: str, conf: Mapping[str, str]) -> Json:
        """Submit the application in cluster mode; the driver pod as the API server has it."""
        directory = self._directory()
        settings = {
            **self._settings(),
            **self._credentials("spark.kubernetes.authenticate.submission", directory),
            "spark.kubernetes.authenticate.driver.serviceAccountName": ACCOUNT,
            "spark.kubernetes.submission.waitAppCompletion": "false",
            **conf,
        }
        options = ["--deploy-mode", "cluster", "--name", name, *_options(settings), f"local://{APP}"]
        process = SparkSubmit(self.version, options, directory, {})
        process.start()
        process.wait()
        found = self.pods(f"spark-role=driver,spark-app-name={name}")
        if len(found) != 1:
            raise process.failed(f"made {len(found)} driver pods")
        return found[0]

    def client(self, name: str, conf: Mapping[str, str]) -> Driver:
        """A driver in client mode, outside of the cluster or in the pod that `conf` names."""
        directory = self._directory()
        settings = {
            **self._settings(),
            **self._credentials("spark.kubernetes.authenticate", directory),
            **_DRIVER_HERE,
            **conf,
        }
        options = ["--deploy-mode", "client", "--name", name, *_options(settings), str(APP)]
        return Driver(self, SparkSubmit(self.version, options, directory, {}), f"spark-app-name={name}")

    def driver_of(self, pod: Json, conf: Mapping[str, str]) -> Driver:
        """The driver that this driver pod of cluster mode would run."""
        self._set_running(pod)
        directory = self._directory()
        prefix = "spark.kubernetes.authenticate.driver.mounted"
        settings = {
            **_DRIVER_HERE,
            **self._credentials(prefix, directory, pod),
            "spark.kubernetes.driver.master": self.cluster.url,
            "spark.executorEnv.SPARK_DRIVER_POD_IP": "127.0.0.1",
            **conf,
        }
        properties = directory / "spark.properties"
        properties.write_text(self._config_map(pod)["spark.properties"])
        word, *arguments = pod["spec"]["containers"][0]["args"]
        assert word == "driver", pod["spec"]["containers"][0]["args"]
        arguments = [str(properties) if argument == _PROPERTIES else argument for argument in arguments]
        options = [*_options(settings), "--deploy-mode", "client", *arguments]
        application = pod["metadata"]["labels"]["spark-app-selector"]
        process = SparkSubmit(self.version, options, directory, {"SPARK_APPLICATION_ID": application})
        return Driver(self, process, f"spark-app-selector={application}")

    def pods(self, selector: str) -> list[Json]:
        """This release's pods in the namespace with these labels, by name."""
        return pods(self.cluster, self.namespace, f"spark-version={self.version},{selector}")

    def _settings(self) -> dict[str, str]:
        return {
            "spark.master": f"k8s://{self.cluster.url}",
            "spark.kubernetes.namespace": self.namespace,
            "spark.kubernetes.container.image": f"registry.example.com/spark:{self.version}",
            "spark.executor.instances": str(EXECUTORS),
            "spark.ui.enabled": "false",
        }

    def _credentials(self, prefix: str, directory: Path, pod: Json | None = None) -> dict[str, str]:
        bound: list[str] = []
        if pod:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            bound = ["--bound-object-kind=Pod", f"--bound-object-name={name}", f"--bound-object-uid={uid}"]
        token = self.cluster.kubectl("create", "token", ACCOUNT, "-n", self.namespace, *bound).stdout
        file = directory / "token"
        file.write_text(token.strip())
        return {f"{prefix}.oauthTokenFile": str(file), f"{prefix}.caCertFile": str(self.cluster.ca)}

    def _set_running(self, pod: Json) -> None:
        """What a kubelet would write: Spark's driver waits until its own pod is ready."""
        conditions = [{"type": "Ready", "status": "True"}]
        patch = json.dumps({"status": {"phase": "Running", "podIP": "127.0.0.1", "conditions": conditions}})
        name = pod["metadata"]["name"]
        self.cluster.kubectl("patch", "pod", name, "-n", self.namespace, "--subresource=status", "-p", patch)

    def _config_map(self, pod: Json) -> dict[str, str]:
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        name = volumes["spark-conf-volume-driver"]["configMap"]["name"]
        answer = self.cluster.kubectl("get", "configmap", name, "-n", self.namespace, "-o", "json")
        data: dict[str, str] = json.loads(answer.stdout)["data"]
        return data

    def _directory(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="spark-", dir=self.cluster.directory))


class Driver:
    """A context manager: in it, the driver runs and its executor pods exist; at the end it gets SIGTERM.

    Attributes:
        executors: those pods, as the API server has them, by name
    """

    def __init__(self, spark: Spark, process: SparkSubmit, selector: str) -> None:
        self._spark, self._process = spark, process
        self._selector = f"spark-role=executor,{selector}"
        self.executors: list[Json] = []

    def __enter__(self) -> Self:
        self._process.start()
        try:
            # Only once its context is complete does Spark clean up after itself.
            while not self._process.has_said(_RUNNING):
                self._wait("its context is not complete")
            while len(self.executors) < EXECUTORS:
                self._wait(f"of {EXECUTORS} executor pods, {len(self.executors)} exist")
                self.executors = self._spark.pods(self._selector)
        except BaseException:
            self._process.stop()
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._process.stop()

    def _wait(self, state: str) -> None:
        self._process.check(state)
        time.sleep(0.2)


def pods(cluster: ControlPlane, namespace: str, selector: str) -> list[Json]:
    """A namespace's pods with these labels, by name."""
    answer = cluster.kubectl("get", "pods", "-n", namespace, "-l", selector, "-o", "json")
    found: list[Json] = json.loads(answer.stdout)["items"]
    return found


def make_account(cluster: ControlPlane, namespace: str) -> None:
    """The service account that submits and that drivers run as, with the rights that Spark needs."""
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
    rules = [{"apiGroups": [group], "resources": resources, "verbs": verbs} for group, resources in _RULES]
    metadata = {"name": ACCOUNT, "namespace": namespace}
    authorization = "rbac.authorization.k8s.io"
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{authorization}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{authorization}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": authorization, "kind": "Role", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        },
    )


def _options(conf: Mapping[str, str]) -> list[str]:
    return [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
