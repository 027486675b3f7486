"""What the serving process does with an API server: policies, certificate, leadership, the policies' status.

Wiring only. No admission waits for anything here.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from webhook.kube.client import KubeClient
from webhook.kube.lease import Leadership
from webhook.kube.policy_status import StatusWriter
from webhook.kube.serving_secret import ServingSecret
from webhook.metrics import Metrics
from webhook.sources.cluster import ClusterSource
from webhook.sources.reading import Reading

if TYPE_CHECKING:
    from webhook.serve import KubeOptions, ServeOptions


_LEASE = "spark-webhook"


class Cluster:
    """The parts that talk to the API server, for one serving process.

    Attributes:
        source: of policies and namespaces
        secret: of the certificate; None if it comes from files
    """

    def __init__(
        self,
        client: KubeClient,
        options: ServeOptions,
        kube: KubeOptions,
        *,
        directory: Path,
        metrics: Metrics,
        on_reading: Callable[[Reading], None],
    ) -> None:
        """`directory` is private to this process: the certificate and its key are written there."""
        self._client = client
        self.secret: ServingSecret | None = None
        if kube.tls_secret:
            self.secret = ServingSecret(
                client,
                namespace=options.own_namespace,
                secret=kube.tls_secret,
                service=kube.service,
                configuration=kube.webhook_configuration,
                directory=directory,
            )
        self.source = ClusterSource(
            client,
            allowed=options.allowed,
            own_namespace=options.own_namespace,
            on_reading=on_reading,
            on_connection=metrics.watch_connected,
            on_verdicts=self._wake,
        )
        self._leadership = Leadership(
            client,
            namespace=options.own_namespace,
            name=_LEASE,
            identity=os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}",
            on_change=self._wake,
        )
        self._status = StatusWriter(client, self.source, self._leadership)

    def troubles(self) -> list[str]:
        """What is not as it should be, a line each."""
        return [*self.source.problems(), *(self.secret.problems() if self.secret is not None else ())]

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.source.run())
            tasks.create_task(self._leadership.run())
            tasks.create_task(self._status.run())
            if self.secret is not None:
                tasks.create_task(self.secret.run())

    def _wake(self, *_: object) -> None:
        self._status.wake()

    async def close(self) -> None:
        """Give up the lead and close the connections, once `run` has ended."""
        await self._leadership.release()
        await self._client.close()
