"""Calls to the API server: JSON in, JSON out, on the connections of `kubernetes.aio`.

It must never build typed objects (they are slow and lose unknown fields), never retry by itself, and never
put the body of a request or an answer into a message: a Secret may be in it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
import orjson
import yaml
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
FIELD_MANAGER = "spark-webhook"

_CALL_SECONDS, _CONNECT_SECONDS = 10.0, 5.0
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"


class UnusableConfiguration(Exception):
    """There is no way to reach an API server; `str()` says what is missing."""


class KubeError(Exception):
    """A call that failed. `status` is the HTTP status, 0 without an answer; `str()` is for humans."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class KubeClient:
    """A client of one API server. Close it on the loop that made it."""

    def __init__(self, configuration: Configuration) -> None:
        self._api = ApiClient(configuration)
        self._api.user_agent = "spark-webhook"

    @classmethod
    async def connect(cls, kubeconfig: Path | None) -> Self:
        """By this file, else as the pod's service account, else by $KUBECONFIG or ~/.kube/config.

        Nothing is sent yet. Raises UnusableConfiguration.
        """
        configuration = Configuration()
        try:
            if kubeconfig is None and os.environ.get(_IN_CLUSTER):
                load_incluster_config(client_configuration=configuration)
            else:
                file = str(kubeconfig) if kubeconfig else _kubeconfig_files()
                await load_kube_config(config_file=file, client_configuration=configuration)
            return cls(configuration)
        except ConfigException as error:
            raise UnusableConfiguration(str(error)) from None
        except (OSError, yaml.YAMLError, LookupError, TypeError, ValueError, AttributeError) as error:
            # What is in the file is anybody's; the library does not check it.
            what = kubeconfig or "the kubeconfig"
            raise UnusableConfiguration(f"{what} can't be used: {type(error).__name__}") from None

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        seconds: float = _CALL_SECONDS,
    ) -> Any:
        """The decoded answer. Raises KubeError unless the API server says it was done."""
        limits = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)
        headers = {"Accept": accept, "Content-Type": content_type}
        async with self._request(method, path, query, headers, limits, body=body) as response:
            return orjson.loads(await response.read())

    async def apply(self, path: str, body: Mapping[str, Any]) -> Any:
        """Server-side apply of exactly the fields in `body`, which become this webhook's own."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self.call("PATCH", path, query=query, body=body, content_type=APPLY)

    @asynccontextmanager
    async def lines(
        self, path: str, *, query: Mapping[str, str], accept: str, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer without end; KubeError after so many seconds without any."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=silence)
        async with self._request("GET", path, query, {"Accept": accept}, limits) as response:
            yield aiter(response.content)

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        headers: dict[str, str],
        limits: aiohttp.ClientTimeout,
        *,
        body: Any = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer with a good status; whatever goes wrong while it is used becomes a KubeError."""
        try:
            request = await self._api.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = await self._api.call_api(*request, _request_timeout=limits)
            async with answer.response as response:
                if response.status >= 400:
                    raise KubeError(response.status, _said(response.status, await response.read()))
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, ConfigException) as error:
            # ValueError: a line or a body that is no JSON, or that is too long
            said = f"{type(error).__name__}: {error}" if str(error) else "no answer in time"
            raise KubeError(0, said) from None


def _kubeconfig_files() -> str:
    """What the library reads without --kubeconfig. Raises UnusableConfiguration if there is none."""
    files = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if not any(Path(file).is_file() for file in files.split(os.pathsep)):
        raise UnusableConfiguration(
            "there is no cluster to talk to: this is no pod of one, and there is no kubeconfig "
            "(--kubeconfig, $KUBECONFIG, ~/.kube/config)"
        )
    return files


def _said(status: int, body: bytes) -> str:
    """The message of a Status object."""
    try:
        message = orjson.loads(body)["message"]
    except (orjson.JSONDecodeError, TypeError, KeyError):
        return f"HTTP {status}"
    return f"HTTP {status}: {message}"
