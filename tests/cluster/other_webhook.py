"""Another team's mutating webhook, as clusters have them: it adds a sidecar and shuffles every list it may.

It talks TLS on 127.0.0.1 and is registered by URL, before or after ours by its name, since the API server
calls webhooks in the order of their configurations' names.
"""

from __future__ import annotations

import base64
import json
import random
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from certs import throwaway
from tests.cluster.control_plane import ControlPlane

SIDECAR = "log-shipper"


class OtherWebhook:
    """A context manager: while it is open, pods of the namespace with this label get the sidecar."""

    def __init__(self, cluster: ControlPlane, name: str, label: tuple[str, str], directory: Path) -> None:
        self._cluster, self._name, self._label = cluster, name, label
        self._files = throwaway.make(directory)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._files.certificate, self._files.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._cluster.apply(self._configuration())
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._cluster.kubectl("delete", "mutatingwebhookconfiguration", self._name)
        self._server.shutdown()
        self._server.server_close()

    def _configuration(self) -> dict[str, Any]:
        key, value = self._label
        webhook = {
            "name": "sidecar.example.com",
            "clientConfig": {
                "url": f"https://localhost:{self._server.server_port}/",
                "caBundle": base64.b64encode(self._files.ca.read_bytes()).decode(),
            },
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 5,
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "namespaceSelector": {"matchLabels": {key: value}},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ],
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": self._name},
            "webhooks": [webhook],
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        if patch := _patch(request["object"]):
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        body = json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        """Nothing: requests are not worth a line in the tests' output."""


def _patch(pod: dict[str, Any]) -> list[dict[str, Any]]:
    spec = pod["spec"]
    if any(container["name"] == SIDECAR for container in spec["containers"]):
        return []
    shuffled = random.Random(7)
    containers = [*spec["containers"], {"name": SIDECAR, "image": "registry.example.com/log-shipper:1"}]
    for container in containers:
        for field in ("env", "volumeMounts"):
            if field in container:
                container[field] = shuffled.sample(container[field], len(container[field]))
    patch = [{"op": "replace", "path": "/spec/containers", "value": containers[::-1]}]
    for field in ("volumes", "tolerations"):
        if field in spec:
            value = shuffled.sample(spec[field], len(spec[field]))
            patch.append({"op": "replace", "path": f"/spec/{field}", "value": value})
    return patch
