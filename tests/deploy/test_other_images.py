"""The images of deploy/compose.yaml beside the broker's: the console's, and Spark's master, worker and job.

Minutes and 1.3 GB: `make soak PART=images`, or with OTTLA_OTHER_IMAGES=1 in the environment.
"""

import os

import pytest

from ottla.testing import Broker
from tests.console.consoles import Client, rows
from tests.deploy import containers
from tests.deploy.composition import Composition
from tests.deploy.containers import ROOT
from tests.deploy.test_pages import consecutive

yaml = pytest.importorskip("yaml", reason="needs the group deploy-tests")
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
CONSOLE, SPARK = "localhost/ottla-console", "localhost/ottla-spark"
WANTED = os.environ.get("OTTLA_OTHER_IMAGES")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(
        not WANTED, reason="the images of console and Spark take minutes: make soak PART=images"
    ),
]
JOB = """
from ottla.spark import session

spark = session("count", settings={"spark.master": "MASTER", "spark.executor.memory": "512m"})
topic = {"kafka.bootstrap.servers": "BROKER", "subscribe": "numbers"}
print("counted", spark.read.format("ottla").options(**topic).load().count())
spark.stop()
"""


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        running.create_topic("numbers", 2)
        for number in range(100):
            running.send("numbers", str(number))
        yield running


def test_the_console_of_the_file_shows_a_broker(image, wheel, broker, tmp_path):
    extras = COMPOSE["console"]["build"]["args"]["EXTRAS"]
    image.build(containers.make_context(tmp_path, wheel, extras), CONSOLE, "broker", extras)
    (port,) = consecutive(1)
    kafka = int(broker.bootstrap.rpartition(":")[2])
    services = Composition(image, COMPOSE, {"kafka-1:29092": kafka}, f"compose-{port}")
    services.start_command("console", CONSOLE, {"8080": str(port)})
    name = services.name("console")
    try:
        image.wait_for(name, "?token=")
        (address,) = (word for word in image.logs(name).split() if "?token=" in word)
        client = Client(f"http://localhost:{port}")
        client.get(f"/?{address.partition('/?')[2]}")
        assert [row["broker"] for row in rows(client.json("/"), "brokers")] == [1]
    finally:
        image.remove(name)
    print(f"the image with the console has {image.size_bytes(CONSOLE) >> 20} MB")


def test_a_job_on_the_master_and_worker_of_the_file_reads_a_topic(image, wheel, broker, tmp_path):
    extras = f"spark,{containers.EXTRAS}"
    image.build(containers.make_context(tmp_path / "context", wheel, extras), SPARK, "spark")
    port, page = consecutive(2)
    services = Composition(image, COMPOSE, {"spark-master:7077": port}, f"compose-{port}")
    here = {"spark-master": "127.0.0.1", "7077": str(port), "8081": str(page)}
    for service in ("spark-master", "spark-worker"):
        services.start_command(service, SPARK, here)
    try:
        image.wait_for(services.name("spark-master"), "Registering worker", 300)
        job = JOB.replace("MASTER", f"spark://127.0.0.1:{port}").replace("BROKER", broker.bootstrap)
        (tmp_path / "job.py").write_text(job)
        options = ["--tmpfs", "/tmp", "--entrypoint", "python", "-v", f"{tmp_path / 'job.py'}:/job.py:ro"]
        image.run("job", "/job.py", image=SPARK, options=options)
        image.wait_for("job", "counted 100", 300)
    finally:
        for name in ("job", services.name("spark-worker"), services.name("spark-master")):
            if image.has(name):
                image.remove(name)
    print(f"the image with Spark has {image.size_bytes(SPARK) >> 20} MB")
