"""The certificate that a listener serves, from two PEM files that may be replaced while it runs.

A new pair is taken for new connections only when certificate and key can be read and belong together; until
then the old one stays. Open connections are never touched.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from cryptography import x509

# (device, inode, change time in ns, size) of both files, links followed: a Secret volume swaps a link.
_Fingerprint = tuple[tuple[int, int, int, int], ...]


class UnusableCertificate(Exception):
    """The files are missing, unreadable, no PEM, or do not belong together. `str()` says which and why."""


class ServingCertificate:
    """A certificate file (leaf first, then intermediates) and its key file.

    `context` is for the listener, once and for all; `expires` is the end of the leaf that is served now;
    `problem` says why the newest files are not in use, "" if they are.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        """Load the files. Raises UnusableCertificate."""
        self._files = (certificate, key)
        self._seen = self._fingerprint()
        self.context, self.expires = self._load()
        self.problem = ""
        self._current = self.context
        self.context.sni_callback = self._choose

    def refresh(self) -> bool:
        """Look whether the files changed and take them if they can be used; True if anything changed."""
        try:
            seen = self._fingerprint()
            if seen == self._seen:
                return False
            current, expires = self._load()
        except UnusableCertificate as error:
            changed = self.problem != str(error)
            self.problem = str(error)
            return changed
        self._seen, self._current, self.expires, self.problem = seen, current, expires, ""
        return True

    async def watch(self, on_change: Callable[[], None], *, every: float = 2.0) -> None:
        """Refresh for ever, this many seconds apart, and tell of each change or new problem.

        Two stat calls are cheaper than a watch of two directories and see every kind of replacement.
        """
        while True:
            await asyncio.sleep(every)
            if self.refresh():
                on_change()

    def _choose(self, connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
        # The context of a listening socket can't be exchanged and loading into it is not atomic: a pair that
        # turns out not to match would leave half of it behind. So each handshake is pointed to a whole one.
        connection.context = self._current

    def _load(self) -> tuple[ssl.SSLContext, datetime]:
        certificate, key = self._files
        context = _context()
        try:
            # With a password at hand an encrypted key is an error; without one OpenSSL asks the terminal.
            context.load_cert_chain(certificate, key, password="")
            leaf = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
        except ssl.SSLError as error:
            mismatch = error.reason == "KEY_VALUES_MISMATCH"
            reason = "do not belong together" if mismatch else "are no unencrypted PEM files"
            raise UnusableCertificate(f"certificate {certificate} and key {key} {reason}") from None
        except (OSError, ValueError) as error:
            raise UnusableCertificate(f"certificate {certificate} or key {key}: {error}") from None
        return context, leaf.not_valid_after_utc

    def _fingerprint(self) -> _Fingerprint:
        try:
            stats = [file.stat() for file in self._files]
        except OSError as error:
            raise UnusableCertificate(f"cannot read {error.filename}: {error.strerror}") from None
        return tuple((stat.st_dev, stat.st_ino, stat.st_ctime_ns, stat.st_size) for stat in stats)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The API server keeps its connections; tickets would only make each handshake dearer and need rotation.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0
    return context
