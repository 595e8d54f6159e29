"""`--secure`: certificates, users and rules for one demo, all in one folder.

The brokers know an administrator from their settings (PLAIN, over TLS), as whom they also log in at each other. The
administrator adds the user `homecare` (SCRAM) with rights to topics, groups and transactions; as that user log in the
simulator, the pipelines in the driver and in the workers of Spark, and the verdict.
"""

import secrets
from collections.abc import Mapping
from pathlib import Path

from ottla.client.admin import Admin
from ottla.homecare.client import Client
from ottla.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from ottla.security.certificates import Authority

ADMINISTRATOR, USER = "administrator", "homecare"
MECHANISM = "SCRAM-SHA-512"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_RESOURCES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


class Secured:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._password, self._user_password, self._zookeeper_password = (
            secrets.token_urlsafe(24) for _ in range(3)
        )
        authority = Authority()
        server = authority.issue("homecare-broker", "localhost", "127.0.0.1")
        self._authority = self._write("ca.pem", authority.pem)
        self._server = self._write("server.pem", server.key + server.certificate)
        self.client_file = folder / "client.properties"

    def broker_file(self, number: int, port: int) -> Path:
        """The settings of one broker, for `ottla start --config`."""
        login = f'username="{ADMINISTRATOR}" password="{self._password}"'
        users = f'user_{ADMINISTRATOR}="{self._password}"'
        settings = {
            "listeners": f"SASL_SSL://127.0.0.1:{port}",
            "security.inter.broker.protocol": "SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._authority),
            "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"PlainLoginModule required {login} {users};",
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{ADMINISTRATOR}",
            # Several brokers share ZooKeeper, where users and rules are records: nobody else may write there.
            "zookeeper.set.acl": "true",
            "ottla.zookeeper.auth": f"digest:ottla:{self._zookeeper_password}",
        }
        return self._write(f"broker-{number}.properties", _properties(settings))

    def add_user(self, bootstrap: str) -> Client:
        """The user with its rights; the settings of its clients, which are in `client_file` too."""
        with Admin(self._client(bootstrap, ADMINISTRATOR, self._password, "PLAIN")) as admin:
            admin.set_user(USER, self._user_password, [MECHANISM])
            admin.create_acls([_everything(resource) for resource in _RESOURCES])
        client = self._client(bootstrap, USER, self._user_password, MECHANISM)
        self._write(self.client_file.name, _properties(client))
        return client

    def _client(self, bootstrap: str, user: str, password: str, mechanism: str) -> Client:
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._authority),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }

    def _write(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path


def _everything(resource: ResourceType) -> Acl:
    pattern, who = PatternType.LITERAL, f"User:{USER}"
    return Acl(resource, "*", pattern, who, "*", Operation.ALL, Permission.ALLOW)


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())
