"""A cluster of processes without a plain connection: clients, brokers and ZooKeeper speak TLS and log in."""

import importlib.util
import os
from pathlib import Path

from ottla.client import Admin
from ottla.ensemble import Ensemble, NoZooKeeper
from ottla.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from ottla.security.certificates import Authority
from tests.cluster.processes import ProcessCluster
from tests.oracle.ports import free_ports

ADMINISTRATOR, USER, PASSWORD = "administrator", "load", "a-secret"
ZOOKEEPER_AUTH = "digest:ottla:another-secret"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Papers:
    """Certificates in a folder."""

    def __init__(self, folder):
        authority = Authority()
        identity = authority.issue("ottla-broker", "localhost", "127.0.0.1")
        self.authority = _written(folder / "ca.pem", authority.pem)
        self.server = _written(folder / "server.pem", identity.key + identity.certificate)


class SecuredEnsemble(Ensemble):
    """Clients connect by TLS; the plain ports are for the question whether a server is up, which nothing else uses."""

    def __init__(self, folder, ports, quorum_ports, papers):
        super().__init__(folder, ports, quorum_ports)
        self.secure_ports = free_ports(len(ports))
        self._papers = papers

    @property
    def connect(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.secure_ports)

    def _jars(self):
        return [*super()._jars(), *netty()]

    def _config(self, home, index):
        lines = {
            "secureClientPort": self.secure_ports[index],
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": self._papers.server,
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": self._papers.authority,
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "need",  # brokers show their certificates
            "ssl.hostnameVerification": "false",
        }
        return super()._config(home, index) + "".join(f"{name}={value}\n" for name, value in lines.items())


class SecuredCluster(ProcessCluster):
    def __init__(self, brokers=3, zookeepers=1, **options):
        super().__init__(brokers, zookeepers, **options)
        self.papers = Papers(self.folder)
        plain = self.zookeepers
        self.zookeepers = SecuredEnsemble(self.folder, plain._ports, plain._quorum_ports, self.papers)
        self._zookeeper_ports = self.zookeepers.secure_ports
        login = f'username="{ADMINISTRATOR}" password="{PASSWORD}" user_{ADMINISTRATOR}="{PASSWORD}"'
        self.settings |= {
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,INSIDE:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            **{
                f"listener.name.{name}.plain.sasl.jaas.config": f"PlainLoginModule required {login};"
                for name in ("clients", "inside")
            },
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.papers.server,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.papers.authority,
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{ADMINISTRATOR}",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": self.papers.authority,
            "zookeeper.ssl.keystore.location": self.papers.server,
            "zookeeper.set.acl": "true",
            "ottla.zookeeper.auth": ZOOKEEPER_AUTH,
        }

    def __enter__(self):
        super().__enter__()
        with Admin(self._login(ADMINISTRATOR, "PLAIN")) as admin:
            admin.set_user(USER, PASSWORD, ["SCRAM-SHA-256"])
            admin.create_acls([_everything(each) for each in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")])
        return self

    @property
    def client(self):
        return self._login(USER, "SCRAM-SHA-256")

    def listeners(self, broker_id, inside):
        return f"CLIENTS://127.0.0.1:{self.ports[broker_id]},INSIDE://127.0.0.1:{inside}"

    def _login(self, user, mechanism):
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.papers.authority,
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": PASSWORD,
        }


def _everything(resource):
    who, pattern = f"User:{USER}", PatternType.LITERAL
    return Acl(ResourceType[resource], "*", pattern, who, "*", Operation.ALL, Permission.ALLOW)


def netty():
    """Of ZooKeeper's jars: TLS is Netty's, and SASL asks for a class of it."""
    folder = Path(importlib.util.find_spec("pyspark").origin).parent / "jars"
    found = [str(each) for each in sorted(folder.glob("netty-*.jar")) if "tcnative" not in each.name]
    if not found:
        raise NoZooKeeper(f"{folder} has no netty")
    return found


def _written(path, text):
    path.touch(mode=0o600)
    path.write_text(text)
    return os.fspath(path)
