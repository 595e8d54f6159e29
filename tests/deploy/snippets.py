"""What each block of code on a page needs to be run by a test, and which are not run here, with the reason.

A block is named by its page and how its first line begins (50 characters).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Where = tuple[str, str]
_SHOP = """
import json, pytest
from confluent_kafka import KafkaException, Producer
class OrderRefused(Exception): ...
class Shop:
    def __init__(self, bootstrap):
        settings = {"bootstrap.servers": bootstrap, "client.id": "shop", "enable.idempotence": True}
        self.producer = Producer({**settings, "retry.backoff.ms": 20, "retry.backoff.max.ms": 50})
    def order(self, number):
        told = []
        self.producer.produce("orders", b"%d" % number, callback=lambda error, _: told.append(error and str(error)))
        self.producer.flush(30)
        if told != [None]:
            raise OrderRefused(told)
"""
_FRESH = (
    _SHOP + "from ottla.testing import Broker\nbroker = Broker().start()\nshop = Shop(broker.bootstrap)\n"
)
_STOP = "broker.stop()\n"
_START_SECURED = "ottla start --config ./secure/broker.properties --data ./data &"
_UNTIL_READY = "until grep -q ready own.log; do sleep 0.05; done"
_IS_COPIED = "ottla consume A.orders --offset start --count 1 --timeout-ms 1000 | grep -q one"


@dataclass(frozen=True)
class Python:
    """`replaced` makes an endless loop end, or fills in what the page leaves out."""

    before: str = ""
    after: str = ""
    replaced: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Shell:
    """`endless` commands (by how they begin) are asked to end once a condition holds. `dropped` ones are what the test
    does itself: the broker runs already."""

    before: str = ""
    after: str = ""
    replaced: Mapping[str, str] = field(default_factory=dict)
    endless: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ("ottla start", "pip install")


PYTHON: dict[Where, Python] = {
    ("docs/api.md", "import ottla"): Python(
        replaced={"record.value)": "record.value)\n        break"},
        after="assert record.value == 'Hello World'",
    ),
    ("docs/api.md", "async with ottla.aio.Producer(bootstrap_servers=.."): Python(
        "import ottla.aio",
        "assert record.value == b'x' and where.offset == 0",
        {
            "bootstrap_servers=...": "bootstrap_servers='localhost:9092'",
            'group_id="g"': 'group_id="g", auto_offset_reset="earliest"',
            "        ...": "        break",
        },
    ),
    ("docs/connect.md", "import sqlite3"): Python(
        after="""
Path("mail").mkdir()
Path("mail/1.txt").write_text("hello world hello")
box = Mailbox.__new__(Mailbox)
box.config = {"folder": "mail", "topic": "mail"}
from ottla.connect.spi import Limit
batch = box.read(*box.partitions(), None, Limit())
assert [(r.key, r.value) for r in batch.records] == [("1", "hello world hello")]
assert box.read(*box.partitions(), batch.offset, Limit()) is None
tally = Tally.__new__(Tally)
tally.config = {"database": "tally.db"}
assert tally.positions([TopicPartition("mail", 0)]) == {}
tally.write(batch)
tally.commit({TopicPartition("mail", 0): 1})
assert dict(tally.db.execute("SELECT word, n FROM tally")) == {"hello": 2, "world": 1}
assert tally.positions([]) == {TopicPartition("mail", 0): 1}
"""
    ),
    ("docs/metrics.md", "from ottla.client import Consumer, Producer, traci"): Python(
        """
import ottla
value = b"v"
producer = ottla.Producer(bootstrap_servers="localhost:9092")
with ottla.Consumer(bootstrap_servers="localhost:9092", auto_offset_reset="earliest", group_id="tracing") as reader:
    producer.send("traced", b"v", headers=[("traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01")]).result(60)
    reader.subscribe("traced")
    consumer = []
    while not consumer:
        consumer = list(reader.poll(1.0))
""",
        "producer.close()",
    ),
    ("docs/queues.md", "from datetime import UTC, datetime, timedelta"): Python(),
    ("docs/queues.md", "from ottla import Acknowledge, ShareConsumer"): Python(
        after="assert Acknowledge is not None"
    ),
    ("docs/registry.md", "from ottla.testing import Broker"): Python(),
    ("docs/registry.md", "from dataclasses import dataclass"): Python(
        "from ottla.testing import Broker\nbroker = Broker(registry=True).start()",
        "consumer.subscribe('orders')\nfound = []\nwhile not found:\n    found = list(consumer.poll(1.0))\n"
        "assert found[0].value['amount'] == 9.5\nconsumer.close()\n",
        {
            '"http://localhost:8081"': "broker.registry",
            "Producer(value": "Producer(bootstrap_servers=broker.bootstrap, value",
            "Consumer(value": "Consumer(bootstrap_servers=broker.bootstrap, group_id='g', value",
        },
    ),
    ("docs/registry.md", "from ottla.serialization import ArrowDecoder"): Python(
        "consumer = Consumer(bootstrap_servers=broker.bootstrap, group_id='a', auto_offset_reset='earliest')\n"
        "consumer.subscribe('orders')\npolled = None\nwhile not polled:\n    polled = consumer.poll_arrow(1.0)",
        "assert orders.to_pylist()[0]['amount'] == 9.5\nconsumer.close()\n" + _STOP,
        {"consumer.poll_arrow(1.0)": "polled"},
    ),
    ("docs/security.md", "# house_rules.py"): Python(
        after="""
assert Directory({}).authenticate("bob", "bob@home") and not Directory({}).authenticate("bob", "x")
assert Badges({}).validate("badge-7") == ("alice", None)
"""
    ),
    ("docs/security.md", 'with Broker(security="SASL_SSL", users={"alice": "'): Python(
        _SHOP + "from ottla.testing import Broker"
    ),
    ("docs/settings.md", 'ottla_topics_max = integer(100_000, "Topics in the'): Python(
        "from ottla.config.definitions import at_least\nfrom ottla.config.fields import integer"
    ),
    ("docs/streams.md", "from ottla.streams import App, int64, string"): Python(),
    ("docs/streams.md", "from ottla.streams import TestDriver"): Python(),
    ("docs/streams.md", "from ottla.streams import App, Context, Processor,"): Python(),
    ("docs/streams.md", "from ottla.streams import App, TestDriver, col, co"): Python(),
    ("docs/streams.md", "from ottla.streams import App, TestDriver, int64,"): Python(),
    ("docs/testing.md", "from ottla.testing import Broker"): Python(
        _SHOP, replaced={"    ...": "    producer.produce('orders', b'one')\n    producer.flush(30)"}
    ),
    ("docs/testing.md", "from ottla.testing import Cluster"): Python(
        _SHOP, replaced={"    ...": "    producer.produce('orders', b'one')\n    producer.flush(30)"}
    ),
    ("docs/testing.md", 'with Broker(security="SASL_SSL", users={"alice": "'): Python(
        _SHOP + "from ottla.testing import Broker"
    ),
    ("docs/testing.md", 'broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", t'): Python(_FRESH, _STOP),
    ("docs/testing.md", 'broker.fail("Produce", "TOPIC_AUTHORIZATION_FAILED'): Python(_FRESH, _STOP),
    ("docs/testing.md", 'broker.disconnect("Produce", after_effect=True)  #'): Python(_FRESH, _STOP),
    ("docs/testing.md", 'broker.delay("Fetch", 2_000, client_id="billing",'): Python(_FRESH, _STOP),
    ("docs/testing.md", "broker.fill_disk()"): Python(
        _FRESH
        + "def order(number):\n    shop.producer.produce('orders', b'%d' % number)\nshop.order = order\n",
        "shop.producer.flush(30)\n" + _STOP,
    ),
    ("docs/testing.md", "broker.crash()  # clients are refused; the port st"): Python(
        _FRESH + "broker.send('orders', 'x')\n", "broker.restart()\n" + _STOP
    ),
    ("docs/testing.md", 'broker.move_coordinator(group="billing")  # or tra'): Python(
        _FRESH + "broker.send('orders', 'x')\nfrom ottla import Consumer\n"
        "with Consumer(bootstrap_servers=broker.bootstrap, group_id='billing') as consumer:\n"
        "    consumer.subscribe('orders')\n    broker.wait_for_group('billing', members=1)\n",
        _STOP,
    ),
    ("docs/testing.md", 'broker.fence("billing")'): Python(
        _FRESH
        + "producer = Producer({'bootstrap.servers': broker.bootstrap, 'transactional.id': 'billing'})\n"
        "producer.init_transactions(30)\nproducer.begin_transaction()\nproducer.produce('invoices', b'x')\n"
        "producer.flush(30)\n",
        _STOP,
    ),
    ("docs/testing.md", "broker.advance(days=8)  # or advance(timedelta(day"): Python(
        _FRESH + "broker.send('orders', 'x')\n", _STOP
    ),
    ("docs/testing.md", 'broker.send("orders", "apple", key="7")  # input f'): Python(
        _FRESH
        + """
import threading
from ottla import Consumer
class worker:
    total = 6
broker.create_topic("orders", partitions=2)  # one for each member
over = threading.Event()
settings = {"bootstrap.servers": broker.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
def consume():
    with Consumer({**settings, "auto.commit.interval.ms": 50}) as consumer:
        consumer.subscribe("orders")
        while not over.is_set():
            consumer.poll(0.05)
broker.send("orders", "1")
broker.send("orders", "2")
members = [threading.Thread(target=consume, daemon=True) for _ in range(2)]
for member in members:
    member.start()
broker.wait_for_group("billing", members=2)
""",
        "over.set()\nfor member in members:\n    member.join()\n" + _STOP,
        {'"apple", key="7")': '"7", key="7")', "lambda: ...": "lambda: True"},
    ),
}

# Functions that pytest runs, with our plugin.
PYTEST: dict[Where, str] = {
    ("README.md", "from confluent_kafka import Producer"): "",
    ("docs/testing.md", "@pytest.mark.ottla(min_insync_replicas=2)"): _SHOP,
    ("docs/testing.md", '@pytest.mark.ottla(partitions=3, topic_configs={"c'): "import pytest",
}

SHELL: dict[Where, Shell] = {
    ("docs/queues.md", "ottla config set group queue ottla.share.release.b"): Shell(),
    ("docs/registry.md", "ottla topics create orders --config confluent.valu"): Shell(
        before="start_own --data own", replaced={"orders --config": "contract-orders --config"}
    ),
    ("README.md", "ottla start --data ./data &"): Shell(
        replaced={"ottla start --data ./data &": "start_own --data ./data"},
        dropped=(),
        after="ottla groups list",
    ),
    ("docs/connect.md", "ottla start &"): Shell(
        before="printf 'name=local-file-source\\nconnector.class=FileStreamSource\\ntasks.max=1\\nfile=test.txt\\n"
        "topic=connect-test\\n' > connect-file-source.properties\nprintf 'name=local-file-sink\\n"
        "connector.class=FileStreamSink\\ntasks.max=1\\nfile=test.sink.txt\\ntopics=connect-test\\n' "
        "> connect-file-sink.properties",
        replaced={"ottla connect ": "ottla connect -b localhost:9092 --runner process --port 0 "},
        endless={"ottla connect": "grep -qs bar test.sink.txt"},
    ),
    ("docs/course.md", "ottla start &                       # a broker on"): Shell(
        replaced={
            "~/kafka-bin": "./kafka-bin",
            "$HOME/kafka-bin": "$PWD/kafka-bin",
            "producer.sh --topic demo --bootstrap-server localhost:9092": "producer.sh --topic demo "
            "--bootstrap-server localhost:9092 <<< 'for the consumer'",
        },
        endless={"kafka-console-consumer.sh": "grep -q 'for the' endless.out"},
    ),
    ("docs/metrics.md", "ottla start --http 9464                 # on 127.0"): Shell(
        replaced={"ottla start --http 9464": "true"},
        endless={"ottla top": "test -s endless.out"},
        dropped=("ottla cluster start",),
        after="test -s alerts.yml && test -s prometheus.yml && test -s ottla.json",
    ),
    ("docs/metrics.md", "ottla kafka-configs --bootstrap-server 127.0.0.1:9"): Shell(),
    ("docs/mirror.md", "ottla mirror --from A=kafka-1:9092 --to B=localhos"): Shell(
        replaced={
            "A=kafka-1:9092": "A=$OTHER",
            "B=localhost:9092": "B=$OTTLA_BOOTSTRAP",
            "ottla mirror": "ottla mirror --local",
            "ottla mirror --local status": "ottla mirror status",
            "'.*' --once": "'orders' --once",
            "--watch": "",
        },
        before="printf 'clusters=A,B\\nA.bootstrap.servers=%s\\nB.bootstrap.servers=%s\\nA->B.enabled=true\\n"
        'A->B.topics=orders\\n\' "$OTHER" "$OTTLA_BOOTSTRAP" > mm2.properties\n'
        'ottla produce orders -b "$OTHER" <<< one',
        endless={
            "ottla mirror --local --from A=$OTHER --to B=$OTTLA_BOOTSTRAP --topics 'orders.*": _IS_COPIED,
            "ottla mirror --local --config": _IS_COPIED,
        },
    ),
    ("docs/queues.md", "ottla queue consume work --group queue --from-begi"): Shell(
        before="for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; done | ottla produce work"
    ),
    ("docs/registry.md", "ottla start --registry &"): Shell(
        before="""printf '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}' > order.avsc
sed 's/}]/},{"name":"n","type":"int","default":0}]/' order.avsc > order-2.avsc""",
        replaced={
            "ottla start --registry &": "export OTTLA_BOOTSTRAP=$REGISTRY_BROKER OTTLA_REGISTRY=$REGISTRY",
            "http://127.0.0.1:8081": "$REGISTRY",
            "--schema order.avsc": "--schema order.avsc --registry $REGISTRY",
        },
        dropped=(),
    ),
    ("docs/security.md", "$ pip install 'ottla[security]'"): Shell(
        before="echo open-sesame > password",
        replaced={
            "--host kafka.example.org": "--host localhost --port $OWN_PORT",
            "kafka.example.org:9093": "localhost:$OWN_PORT",
            _START_SECURED: f"{_START_SECURED[:-2]} > own.log 2>&1 &\n{_UNTIL_READY}",
            "users add alice": "users add alice --password-file password",
        },
        dropped=("pip install",),
        after="ottla acls list -b localhost:$OWN_PORT --command-config ./secure/client.properties | grep alice",
    ),
    ("docs/security.md", "$ ottla acls allow alice read --topic orders --gro"): Shell(
        before="ottla secure init ./secure --host localhost --port $OWN_PORT\n"
        f"{_START_SECURED[:-2]} > own.log 2>&1 &\n{_UNTIL_READY}",
        replaced={
            "ottla acls explain": "! ottla acls explain",  # its exit code says no, too
            "--topic orders": "--topic orders -b localhost:$OWN_PORT --command-config ./secure/client.properties",
        },
        dropped=("RESOURCE", "topic "),  # what it prints
    ),
    ("docs/deployment.md", "ottla backup ./monday --data ./data          # whi"): Shell(
        before="start_own --data ./data", dropped=(), after="test -e new-data/meta.properties"
    ),
}

# One after the other in one program with one Spark session.
SPARK: dict[Where, Python] = {
    ("README.md", "from ottla.spark import session"): Python(
        after="assert spark.read.format('ottla').options(**read).load().count() == 1000"
    ),
    ("docs/spark.md", "from ottla.spark import session"): Python(
        replaced={'"squares"': '"more-squares"'},
        after="""
query.processAllAvailable()
query.stop()
assert spark.read.format("ottla").options(**{**read, "subscribe": "copies"}).load().count() == 1000
""",
    ),
    ("docs/spark.md", "from ottla.spark import write_update"): Python(
        "events = squares",
        """
query.processAllAvailable()
query.stop()
counts = spark.read.format("ottla").options(**{**read, "subscribe": "counts"}).load()
assert {bytes(row.value) for row in counts.collect()} == {b"1"} and counts.count() == 1000
""",
        {'"checkpoint"': '"checkpoint-of-counts"'},
    ),
    ("docs/pipelines.md", "import numpy as np"): Python(
        """
import ottla
with ottla.Admin(bootstrap_servers="localhost:9092") as admin:
    for topic in ("words", "word-counts", "lines", "words-of-lines", "scored", "copied"):
        admin.create_topic(topic, 1)
with ottla.Producer(bootstrap_servers="localhost:9092") as producer:
    for word in ("to", "be", "or", "not", "to", "be"):
        producer.send("words", b"", key=word.encode())
""",
        """
table = spark.read.format("ottla").options(**{**read, "subscribe": "word-counts"}).load().collect()
assert {bytes(row.key): bytes(row.value) for row in table} == {b"to": b"2", b"be": b"2", b"or": b"1", b"not": b"1"}
""",
        {'"/var/lib/word-count")': '"state-of-words"),\n    once=True,'},
    ),
    ("docs/streams.md", "frame = words.dataframe("): Python(
        """
from ottla.streams import App, string
with ottla.Producer(bootstrap_servers="localhost:9092") as producer:
    producer.send("lines", "hello world", key="k")
app = App("frames", bootstrap="localhost:9092")
words = app.stream("lines", value=string).flat_map_values(lambda line: line.lower().split(), value=string)
""",
        """
back.to("copied", value=string)
for _ in range(2):  # what Spark reads in the second run is what the first one wrote
    app.run(spark, once=True, state_dir="state-of-frames")
copied = spark.read.format("ottla").options(**{**read, "subscribe": "copied"}).load()
assert [bytes(row.value) for row in copied.collect()] == [b"5", b"5"]
""",
        {'"words"': '"words-of-lines"'},
    ),
    ("docs/registry.md", "from pyspark.sql import functions as F"): Python(
        """
from dataclasses import dataclass
from ottla.serialization import AvroSerializer, RegistryClient
@dataclass
class Order:
    id: str
    amount: float
client = RegistryClient("http://localhost:8081")
serializer = AvroSerializer(client, Order, topic="orders")
with ottla.Producer(bootstrap_servers="localhost:9092", value_serializer=serializer) as producer:
    for amount in (9.5, 0.5):
        producer.send("orders", Order("7", amount))
""",
        "assert 'totals-value' in client.subjects()",
    ),
}

NOT_RUN: dict[Where, str] = {
    (
        "docs/queues.md",
        "ottla topics create dlq.work --config errors.deadl",
    ): "needs a dead letter; tests of queues have them",
    (
        "README.md",
        "pip install ottla             # the broker, the cl",
    ): "pip install from the index; tests/deploy/test_install.py installs the wheel",
    (
        "docs/metrics.md",
        "ottla console --hash-password                   #",
    ): "asks for a password; tests/metrics/test_guarded.py has a broker with TLS and users",
    (
        "docs/registry.md",
        'RegistryClient("https://registry:8081", user=("ann',
    ): "a host name that this machine has not; tests/registry/test_login.py makes these clients",
    (
        "docs/registry.md",
        "ottla registry serve --ssl-cert registry.pem --ssl",
    ): "serves for ever; tests/registry/test_login.py serves with logins and TLS",
    (
        "docs/streams-groups.md",
        "ottla groups list --type streams",
    ): "needs Java's Kafka Streams; tests/unit/cli/test_streams_groups.py runs the commands",
    (
        "docs/cluster.md",
        "ottla cluster start --brokers 3                  #",
    ): "three brokers and ZooKeeper; the tutorial for operators runs these commands",
    ("docs/console.md", "pip install 'ottla[console]'"): "serves pages for ever; tests/console starts it",
    (
        "docs/course.md",
        "ottla homecare lab --speed 10       # devices and",
    ): "a lab at a tenth of its time; tests/course runs it",
    (
        "docs/deployment.md",
        "docker build -f deploy/Dockerfile -t ottla .",
    ): "needs Docker; test_image.py builds and runs the image with buildah and podman",
    (
        "docs/deployment.md",
        "docker compose -f deploy/compose.yaml up --build",
    ): "needs Docker; test_compose.py starts the services with podman",
    (
        "docs/deployment.md",
        "docker compose -f deploy/compose.yaml run --rm -v",
    ): "needs Docker; test_other_images.py runs a job in that image (make soak PART=images)",
    (
        "docs/deployment.md",
        "kubectl apply -k deploy/kubernetes/base",
    ): "needs Kubernetes; test_kubernetes.py checks the manifests",
    (
        "docs/homecare.md",
        "ottla homecare demo                 # or `make dem",
    ): "minutes of Spark; tests/homecare runs the demo",
    (
        "docs/homecare.md",
        "ottla homecare simulate   --bootstrap ... --device",
    ): "for ever, on Spark; the demo runs these as its processes",
    (
        "docs/metrics.md",
        "ottla kafka-client-metrics --bootstrap-server 127.",
    ): "needs clients that send metrics; tests/metrics has them",
    (
        "docs/migration.md",
        "ottla import-kafka --from /var/lib/kafka/data --da",
    ): "needs Apache Kafka's folder; tests/integration/test_migration.py has one",
    (
        "docs/migration.md",
        "ottla import-kafka --from k1/data --from k2/data -",
    ): "needs a Kafka cluster's folders and ZooKeeper; tests/integration has them",
    (
        "docs/migration.md",
        "ottla export-kafka --data /var/lib/ottla --to /var",
    ): "into a folder of Apache Kafka's; tests/integration starts Kafka on it",
    (
        "docs/security.md",
        "$ ottla tokens create --renewer billing --lifetime",
    ): "needs a broker with logins; tests/integration/test_tokens.py runs the commands",
    ("docs/spark.md", 'pip install "ottla[spark]"'): "pip install from the index",
    (
        "docs/streams.md",
        "ottla streams run word_count.py",
    ): "Spark, for ever; tests/streams runs the commands",
    (
        "examples/clinic/README.md",
        "psql -d clinic -f clinic.sql",
    ): "needs PostgreSQL; the example's own test runs it",
}
