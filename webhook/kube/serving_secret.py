"""The serving certificate in a Secret of our own namespace, made by the server itself, and its caBundle.

All replicas serve what the Secret holds; the first one that finds it empty fills it. It must never replace a
certificate that somebody else put there, and never writes a key anywhere but into the Secret and the private
directory that the listener reads.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from certs.authority import Issued, issue
from webhook.kube.client import JSON_PATCH, MERGE_PATCH, KubeClient, KubeError
from webhook.kube.watch import Object, Resource, Watch
from webhook.logs import fields, frames

_log = logging.getLogger(__name__)

AUTHORITY = "spark-webhook CA"
CA, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"

# Nothing renews it while the server runs; a start does, once this much or less is left.
LIFETIME = datetime.timedelta(days=3650)
_RENEW_BEFORE = datetime.timedelta(days=365)
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_CONFLICT = 409
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 10.0  # seconds between two attempts


class ServingSecret:
    """Keeps two PEM files as the Secret has them, and the Secret's authority in the webhook configuration.

    Attributes:
        certificate, key: the files; they are there once `ready` is set
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        secret: str,
        service: str,
        configuration: str,
        directory: Path,
    ) -> None:
        """`directory` is private to this process; `service` is what clients call, a Service's name."""
        self.certificate, self.key = directory / CERTIFICATE, directory / KEY
        self.ready = asyncio.Event()
        self._problem = ""
        self._client = client
        self._names = [f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"]
        self._service = (namespace, service)
        self._written: Issued | None = None
        self._changed = asyncio.Event()
        self._secret = self._watch(f"/api/v1/namespaces/{namespace}/secrets", secret)
        self._configuration = self._watch(_CONFIGURATIONS, configuration)

    async def run(self) -> None:
        """Follow Secret and configuration for ever."""
        wait = _FIRST_WAIT
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._secret.run())
            tasks.create_task(self._configuration.run())
            while True:
                await self._changed.wait()
                self._changed.clear()
                try:
                    self._tell(await self._reconcile())
                    wait = _FIRST_WAIT
                    continue
                except KubeError as error:
                    # In conflict, another replica was faster, and the watch tells of what it did.
                    if error.status != _CONFLICT:
                        self._tell(str(error))
                except Exception as error:
                    # What is served stays, and whoever else follows the cluster goes on.
                    more = fields(traceback=frames(error))
                    _log.error("keeping the certificate failed, this is a bug", extra=more)
                    self._tell(f"failed with {type(error).__name__}, see the log")
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
                self._changed.set()

    def problems(self) -> list[str]:
        """What keeps the certificate or the caBundle from being right."""
        watches = (self._secret, self._configuration)
        found = [f"{watch.resource.name}: {watch.problem}" for watch in watches if watch.problem]
        return [*found, self._problem] if self._problem else found

    def _watch(self, collection: str, name: str) -> Watch[Object]:
        title = f"{collection.rsplit('/', 1)[1]} {name}"
        resource = Resource(title, collection, field_selector=f"metadata.name={name}")
        return Watch(self._client, resource, lambda item: item, self._changed.set)

    async def _reconcile(self) -> str:
        """Bring both to what they should be, and say what stands in the way."""
        if not self._secret.synced:
            return self._problem
        item = next(iter(self._secret.objects.values()), None)
        if item is None:
            return f"{self._secret.resource.name} is missing: apply the manifests again"
        try:
            issued = _usable(item.get("data") or {}, self._names)
        except _Unusable as unusable:
            if not unusable.ours:
                return (
                    f"{self._secret.resource.name} {unusable}: remove its data, and the server makes its own"
                )
            issued = await self._make(item)
        self._write(issued)
        return await self._write_ca_bundle(issued.ca)

    async def _make(self, item: Object) -> Issued:
        issued = issue(AUTHORITY, self._names, [], LIFETIME)
        data = {CA: issued.ca, CERTIFICATE: issued.certificate, KEY: issued.key}
        encoded = {name: base64.b64encode(pem).decode() for name, pem in data.items()}
        metadata = item["metadata"]
        # with the version: of several replicas that found it empty, one wins
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "data": encoded}
        path = f"{self._secret.resource.path}/{metadata['name']}"
        self._secret.put(await self._client.call("PATCH", path, body=body, content_type=MERGE_PATCH))
        _log.info("made a serving certificate", extra=fields(secret=metadata["name"], names=self._names))
        return issued

    def _write(self, issued: Issued) -> None:
        if issued == self._written:
            return
        self.key.touch(mode=0o600)
        self.key.write_bytes(issued.key)
        self.certificate.write_bytes(issued.certificate)
        self._written = issued
        self.ready.set()

    async def _write_ca_bundle(self, ca: bytes) -> str:
        if not self._configuration.synced:
            return ""
        item = next(iter(self._configuration.objects.values()), None)
        if item is None:
            return f"{self._configuration.resource.name} is missing: apply the manifests again"
        wanted = base64.b64encode(ca).decode()
        operations: list[dict[str, Any]] = []
        for index, webhook in enumerate(item.get("webhooks") or ()):
            config = webhook["clientConfig"]
            service = config.get("service") or {}
            if (service.get("namespace"), service.get("name")) != self._service or not ca:
                continue
            if config.get("caBundle") != wanted:
                at = f"/webhooks/{index}"
                operations.append({"op": "test", "path": f"{at}/name", "value": webhook["name"]})
                operations.append({"op": "add", "path": f"{at}/clientConfig/caBundle", "value": wanted})
        if operations:
            path = f"{self._configuration.resource.path}/{item['metadata']['name']}"
            done = await self._client.call("PATCH", path, body=operations, content_type=JSON_PATCH)
            self._configuration.put(done)
            _log.info("wrote the caBundle", extra=fields(configuration=item["metadata"]["name"]))
        return ""

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:
            _log.error("certificate or caBundle is not as it should be", extra=fields(problem=problem))
        self._problem = problem


class _Unusable(Exception):
    """What the Secret holds can't be served; `ours`: nobody else put it there, so it may be replaced."""

    def __init__(self, message: str, *, ours: bool) -> None:
        super().__init__(message)
        self.ours = ours


def _usable(data: dict[str, str], names: Sequence[str]) -> Issued:
    """What the Secret's data holds, if it can be served. Raises _Unusable."""
    if not any(data.get(name) for name in (CA, CERTIFICATE, KEY)):
        raise _Unusable("is empty", ours=True)
    issued = Issued(*(base64.b64decode(data.get(name, "")) for name in (CA, CERTIFICATE, KEY)))
    try:
        leaf = x509.load_pem_x509_certificates(issued.certificate)[0]
        key = load_pem_private_key(issued.key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _Unusable(f"holds no {CERTIFICATE} and {KEY} in PEM", ours=False) from None
    common = leaf.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    ours = bool(common) and common[0].value == AUTHORITY
    if key.public_key() != leaf.public_key():
        raise _Unusable(f"holds a {CERTIFICATE} and a {KEY} that do not belong together", ours=ours)
    if ours:
        _check_ours(issued, leaf, names)
    return issued


def _check_ours(issued: Issued, leaf: x509.Certificate, names: Sequence[str]) -> None:
    try:
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(issued.ca))
        alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        raise _Unusable(f"holds a {CERTIFICATE} that its {CA} did not sign", ours=True) from None
    if not set(names) <= set(alternatives.get_values_for_type(x509.DNSName)):
        raise _Unusable("holds a certificate for other names", ours=True)
    if leaf.not_valid_after_utc - datetime.datetime.now(datetime.UTC) < _RENEW_BEFORE:
        raise _Unusable("holds a certificate that expires soon", ours=True)
