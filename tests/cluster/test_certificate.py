"""The certificate in its Secret and the caBundle: made, shared by replicas, put right when broken."""

from __future__ import annotations

import base64
import datetime
import json
import socket
import ssl
from pathlib import Path

import pytest

from certs import authority
from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import OPTED_IN, Json
from tests.cluster.webhook import BASE, Replica, Webhook

pytestmark = pytest.mark.xdist_group("cluster")

NAMESPACE = "certificate"
HOST = "spark-webhook.spark-webhook.svc"


@pytest.fixture(scope="module", autouse=True)
def _namespace(cluster: ControlPlane, webhook: Webhook) -> None:
    cluster.namespace(NAMESPACE, OPTED_IN)


def _served(webhook: Webhook) -> str:
    """The certificate of a new connection, PEM; valid for the Service under the Secret's authority."""
    context = ssl.create_default_context(cadata=base64.b64decode(webhook.secret()["ca.crt"]).decode())
    with (
        socket.create_connection((webhook.address, 443), 5) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as connection,
    ):
        found = connection.getpeercert(binary_form=True)
        assert found
        return ssl.DER_cert_to_PEM_cert(found)


def _serves(webhook: Webhook, certificate: str) -> bool:
    """True if every replica has it: which one takes a connection is chance."""
    try:
        return all(_served(webhook).strip() == certificate.strip() for _ in range(24))
    except ssl.SSLError:
        return False


def _secret_certificate(webhook: Webhook) -> str:
    return base64.b64decode(webhook.secret().get("tls.crt", "")).decode()


def _ca_bundles(cluster: ControlPlane) -> list[str]:
    answer = cluster.kubectl("get", "mutatingwebhookconfiguration", "spark-webhook", "-o", "json").stdout
    return [webhook["clientConfig"].get("caBundle", "") for webhook in json.loads(answer)["webhooks"]]


def _admits(cluster: ControlPlane) -> bool:
    """The API server trusts the server: with failurePolicy Fail, nothing is created otherwise."""
    pod = json.dumps(objects.driver())
    return cluster.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=pod, check=False).returncode == 0


def test_all_replicas_serve_what_the_secret_holds(cluster: ControlPlane, webhook: Webhook) -> None:
    assert len(webhook.replicas) == 2
    assert _serves(webhook, _secret_certificate(webhook))
    assert _ca_bundles(cluster) == [webhook.secret()["ca.crt"]]
    assert _admits(cluster)


def test_applying_the_manifests_again_changes_neither(cluster: ControlPlane, webhook: Webhook) -> None:
    before = webhook.secret(), _ca_bundles(cluster)
    cluster.kubectl("apply", "--server-side", "-k", str(BASE))
    assert (webhook.secret(), _ca_bundles(cluster)) == before
    assert _admits(cluster)


def test_a_ca_bundle_that_somebody_removed(cluster: ControlPlane, webhook: Webhook) -> None:
    patch = json.dumps([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}])
    cluster.kubectl(
        "patch", "mutatingwebhookconfiguration", "spark-webhook", "--type=json", f"--patch={patch}"
    )
    objects.until("it is back", lambda: _ca_bundles(cluster) == [webhook.secret()["ca.crt"]])
    objects.until("pods are admitted", lambda: _admits(cluster))


def test_a_configuration_that_was_made_anew(cluster: ControlPlane, webhook: Webhook) -> None:
    cluster.kubectl("delete", "mutatingwebhookconfiguration", "spark-webhook")
    webhook.install()
    objects.until("it has a caBundle", lambda: _ca_bundles(cluster) == [webhook.secret()["ca.crt"]])
    objects.until("pods are admitted", lambda: _admits(cluster))


def test_a_secret_that_was_emptied(cluster: ControlPlane, webhook: Webhook) -> None:
    before = _secret_certificate(webhook)
    cluster.kubectl(
        "patch", "secret", "-n", "spark-webhook", "spark-webhook-tls", "--type=merge", '-p={"data":null}'
    )
    objects.until("there is another", lambda: _secret_certificate(webhook) not in ("", before))
    objects.until("it is served", lambda: _serves(webhook, _secret_certificate(webhook)))
    objects.until("the caBundle", lambda: _ca_bundles(cluster) == [webhook.secret()["ca.crt"]])
    objects.until("pods are admitted", lambda: _admits(cluster))


def test_a_certificate_of_somebody_else(cluster: ControlPlane, webhook: Webhook) -> None:
    """It is served as it is; one that can't be used is never replaced, and readyz says what is wrong."""
    ours = webhook.secret()
    issued = authority.issue("the company's CA", [HOST], [], datetime.timedelta(days=2))
    try:
        _put(cluster, {"ca.crt": issued.ca, "tls.crt": issued.certificate, "tls.key": issued.key})
        objects.until("it is served", lambda: _serves(webhook, issued.certificate.decode()))
        wanted = [base64.b64encode(issued.ca).decode()]
        objects.until("the caBundle", lambda: _ca_bundles(cluster) == wanted)
        objects.until("pods are admitted", lambda: _admits(cluster))

        other = authority.issue("another", [HOST], [], datetime.timedelta(days=2))
        _put(cluster, {"tls.key": other.key})
        for replica in webhook.replicas:
            _until_readyz_says(replica, "do not belong together")
        assert base64.b64decode(webhook.secret()["tls.key"]) == other.key
        assert _serves(webhook, issued.certificate.decode())
        assert _admits(cluster)
    finally:
        _put(cluster, {name: base64.b64decode(value) for name, value in ours.items()})
    objects.until("ours is back", lambda: _serves(webhook, base64.b64decode(ours["tls.crt"]).decode()))
    objects.until("pods are admitted", lambda: _admits(cluster))


def _until_readyz_says(replica: Replica, text: str) -> None:
    objects.until(text, lambda: text in replica.probe("/readyz"))


def _put(cluster: ControlPlane, data: dict[str, bytes]) -> None:
    _patch(cluster, {"data": {name: base64.b64encode(value).decode() for name, value in data.items()}})


def _patch(cluster: ControlPlane, body: Json) -> None:
    secret = ("secret", "spark-webhook-tls", "-n", "spark-webhook")
    cluster.kubectl("patch", *secret, "--type=merge", f"--patch={json.dumps(body)}")


def test_a_replica_that_starts_later_serves_the_same(webhook: Webhook) -> None:
    before = _secret_certificate(webhook)
    with webhook.stopped():
        pass
    assert _secret_certificate(webhook) == before
    assert _serves(webhook, before)


def test_no_key_is_in_any_log(cluster: ControlPlane, webhook: Webhook) -> None:
    key = base64.b64decode(webhook.secret()["tls.key"]).decode().splitlines()[1]
    for log in Path(cluster.directory).glob("spark-webhook-*.log"):
        assert key not in log.read_text()
        assert webhook.secret()["tls.key"][:40] not in log.read_text()
