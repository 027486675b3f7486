"""The credentials of a policy: Kerberos, the driver's access to the API server, and identities of clouds.

Each is one feature: it is applied whole or not at all. Names and paths that Spark or a cloud's own webhook
uses are those of `webhook.steps`; a model here only says what an author may choose. It must never hold a
credential: only names of Secrets and of keys in them, and names of identities.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from webhook.policy import values
from webhook.policy.items import ContainerItem, Model, cel
from webhook.policy.values import DnsSubdomain, fault

ConfigKey = Annotated[str, values.rule(values.config_key)]

_NO_KERBEROS = "asks for nothing: state at least one of krb5ConfigMap, keytabSecret and tokenSecret"
_NO_TOKEN_SECRET = "only goes with tokenSecret, whose key it names"
_KEY_AND_CERTIFICATE = "clientKey and clientCert only work together: state both, or none"


class KerberosItem(ContainerItem):
    """Kerberos as Spark itself sets it up: krb5.conf, a keytab, delegation tokens."""

    model_config = cel(
        ("has(self.krb5ConfigMap) || has(self.keytabSecret) || has(self.tokenSecret)", _NO_KERBEROS, ""),
        ("!has(self.tokenItemKey) || has(self.tokenSecret)", _NO_TOKEN_SECRET, "tokenItemKey"),
    )

    krb5ConfigMap: DnsSubdomain | None = Field(
        default=None,
        description="A ConfigMap whose key krb5.conf becomes the file /etc/krb5.conf.",
        examples=["krb5-conf"],
    )
    keytabSecret: DnsSubdomain | None = Field(
        default=None,
        description=(
            "A Secret whose keys become files in /mnt/secrets/kerberos-keytab. Spark logs in with one of "
            "them if its properties spark.kerberos.keytab (the file's path there) and "
            "spark.kerberos.principal say so."
        ),
        examples=["etl-keytab"],
    )
    tokenSecret: DnsSubdomain | None = Field(
        default=None,
        description=(
            "A Secret with Hadoop delegation tokens, mounted at /mnt/secrets/hadoop-credentials; "
            "HADOOP_TOKEN_FILE_LOCATION says where they are."
        ),
        examples=["hdfs-tokens"],
    )
    tokenItemKey: ConfigKey | None = Field(
        default=None,
        description="The key of tokenSecret that holds the tokens; by default hadoop-tokens, as in Spark.",
        examples=["hadoop-tokens"],
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.krb5ConfigMap is None and self.keytabSecret is None and self.tokenSecret is None:
            raise fault(_NO_KERBEROS)
        if self.tokenItemKey is not None and self.tokenSecret is None:
            raise fault(_NO_TOKEN_SECRET, "tokenItemKey")
        return self


class KubernetesCredentialsItem(ContainerItem):
    """With what the driver shows itself to the API server, instead of its service account's token."""

    model_config = cel(("has(self.clientKey) == has(self.clientCert)", _KEY_AND_CERTIFICATE, ""))

    secret: DnsSubdomain = Field(
        description=(
            "The Secret with the credentials. Its keys become files in "
            "/mnt/secrets/spark-kubernetes-credentials: all of them, or those that the fields beside it "
            "name. Spark uses them if its properties spark.kubernetes.authenticate.driver.mounted.* name "
            "the files."
        ),
        examples=["driver-credentials"],
    )
    caCert: ConfigKey | None = Field(
        default=None,
        description="The key of the API server's CA certificate, which becomes the file ca-cert.",
        examples=["ca.crt"],
    )
    oauthToken: ConfigKey | None = Field(
        default=None,
        description="The key of the OAuth token, which becomes the file oauth-token.",
        examples=["token"],
    )
    clientKey: ConfigKey | None = Field(
        default=None,
        description="The key of the client's private key, which becomes the file client-key.",
        examples=["tls.key"],
    )
    clientCert: ConfigKey | None = Field(
        default=None,
        description="The key of the client's certificate, which becomes the file client-cert.",
        examples=["tls.crt"],
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.clientKey is None) != (self.clientCert is None):
            raise fault(_KEY_AND_CERTIFICATE)
        return self


class IdentityFields(Model):
    """The credentials and identities of a pod."""

    kerberos: KerberosItem | None = Field(
        default=None,
        description="krb5.conf, a keytab and Hadoop delegation tokens, where Spark itself would mount them.",
        examples=[{"krb5ConfigMap": "krb5-conf", "keytabSecret": "etl-keytab"}],
    )
    kubernetesCredentials: KubernetesCredentialsItem | None = Field(
        default=None,
        description=(
            "With what a driver shows itself to the API server, mounted where Spark itself would; "
            "only in the block driver."
        ),
        examples=[{"secret": "driver-credentials", "oauthToken": "token", "caCert": "ca.crt"}],
    )
