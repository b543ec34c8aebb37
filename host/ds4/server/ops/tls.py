"""TLS from files: a certificate chain and its key in PEM, read at the start and again when the server is told to."""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from ds4.errors import SettingsError
from ds4.server.ops.reload import readable_again

log = logging.getLogger("ds4.server")

_LARGEST_PASSWORD = 1024


@dataclass(frozen=True)
class Tls:
    """cert: the server's certificate and those between it and the root; key: its private key; password: the first line
    of that file opens an encrypted key."""

    cert: Path
    key: Path
    password: Path | None = None

    @classmethod
    def of(cls, cert: Path | None, key: Path | None, password: Path | None) -> Tls | None:
        """None where TLS is not asked for. SettingsError for half of it."""
        if cert is None and key is None and password is None:
            return None
        if cert is None or key is None:
            missing = "--tls-cert" if cert is None else "--tls-key"
            raise SettingsError("TLS needs a certificate and its key", subject=missing, expected="a file", found="none")
        return cls(cert, key, password)

    def context(self) -> ssl.SSLContext:
        """SettingsError names the file that is wrong."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self._load(context)
        return context

    def reload(self, context: ssl.SSLContext) -> bool:
        """New connections get what the files hold now. What cannot be loaded changes nothing and is logged."""
        try:
            for file in (self.cert, self.key, self.password):
                if file is not None:
                    readable_again(file)
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a failure half-way would leave a mixed pair
            self._load(context)
        except SettingsError as error:
            log.error("the certificate stays as it was: %s", error)
            return False
        log.info("read the certificate again")
        return True

    def _load(self, context: ssl.SSLContext) -> None:
        for file in (self.cert, self.key):
            try:
                with file.open("rb") as stream:
                    text = stream.read(1 << 20)
            except OSError as error:
                raise SettingsError(f"cannot read it: {error.strerror}", subject=str(file)) from None
            if b"-----BEGIN " not in text:
                raise SettingsError("no PEM file", subject=str(file), expected="a line -----BEGIN …", found="none")
        password = self._password()
        asked = False

        def secret() -> str:
            nonlocal asked
            asked = True
            return password or ""

        try:
            context.load_cert_chain(self.cert, self.key, secret)
        except ssl.SSLError as error:
            if asked:
                how = "--tls-key-password-file opens it" if password is None else "the password does not open it"
                raise SettingsError(f"the key is encrypted: {how}", subject=str(self.key)) from None
            if error.reason == "KEY_VALUES_MISMATCH":
                raise SettingsError("is not the key of that certificate", subject=str(self.key)) from None
            raise SettingsError(
                f"cannot load the certificate or the key: {error.reason or error}", subject=f"{self.cert}, {self.key}"
            ) from None
        if os.stat(self.key).st_mode & 0o077:
            log.warning("%s can be read by others; chmod 600 it", self.key)

    def _password(self) -> str | None:
        if self.password is None:
            return None
        try:
            with self.password.open("rb") as stream:
                line = stream.readline(_LARGEST_PASSWORD + 2).rstrip(b"\r\n")
        except OSError as error:
            raise SettingsError(f"cannot read it: {error.strerror}", subject=str(self.password)) from None
        if not line or len(line) > _LARGEST_PASSWORD:
            raise SettingsError(
                "its first line is the password", subject=str(self.password),
                expected=f"1 to {_LARGEST_PASSWORD} bytes", found=len(line),
            )  # fmt: skip
        return line.decode("utf-8", "surrogateescape")
