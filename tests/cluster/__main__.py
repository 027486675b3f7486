"""`make cluster`: the test cluster with the product in it, to play with, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

from tests.cluster import tools
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import OPTED_IN
from tests.cluster.webhook import ROOT, Webhook

_TEXT = """
Kubernetes {version} and the webhook are running (no nodes: pods stay Pending). In another terminal:

  export KUBECONFIG={kubeconfig}
  alias kubectl={kubectl}
  cd {root}

  kubectl get cspp,spp -A                                   # policies, and whether they are accepted
  kubectl create -n jobs -f {pod}
  kubectl get pods -n jobs -o yaml                          # with what the policies gave it
  kubectl apply -n jobs --dry-run=server -o yaml -f {pod}
  kubectl edit cspp lake-access                             # in force at once
  kubectl explain cspp.spec

The namespace jobs has opted in; default has not. The server's log: {log}
Ctrl-C ends all of it.
"""


def main() -> None:
    """Run until interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print("starting the test cluster", file=sys.stderr)
    with ControlPlane() as cluster, Webhook(cluster) as webhook:
        cluster.namespace("jobs", {**OPTED_IN, "example.com/lake": "read", "team": "data-platform"})
        cluster.kubectl("apply", "-f", str(ROOT / "manifests" / "examples"))
        pod = "tests/captures/pods/4.3.0/cluster-bare-01.json"
        print(
            _TEXT.format(
                version=cluster.version,
                kubeconfig=cluster.kubeconfig,
                kubectl=tools.kubectl(),
                root=ROOT,
                pod=pod,
                log=webhook.replicas[0].log,
            ),
            flush=True,
        )
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    try:
        main()
    except tools.Missing as missing:
        sys.exit(f"test cluster: {missing}")
