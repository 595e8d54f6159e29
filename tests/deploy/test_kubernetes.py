"""deploy/kubernetes: manifests that Kubernetes' own schemas accept, and that fit each other and the image."""

import argparse
import re
import shutil
import subprocess
from importlib import import_module

import pytest

from ottla.cli.main import COMMANDS
from ottla.config.environment import read_environment
from ottla.config.settings import Config, read_properties
from tests.deploy.containers import ROOT

yaml = pytest.importorskip("yaml", reason="needs the group deploy-tests")
validate = pytest.importorskip("kubernetes_validate", reason="needs the group deploy-tests")

HOME = ROOT / "deploy" / "kubernetes"
FILES = sorted(path for path in HOME.rglob("*.yaml") if path.name != "kustomization.yaml")
FOLDERS = sorted(path.parent for path in HOME.rglob("kustomization.yaml"))


def documents(path):
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def of_kind(kind, folder="base"):
    return [
        each
        for path in sorted((HOME / folder).glob("*.yaml"))
        for each in documents(path)
        if each["kind"] == kind
    ]


@pytest.mark.parametrize("path", FILES, ids=[path.relative_to(HOME).as_posix() for path in FILES])
def test_the_schemas_accept_it(path):
    for document in documents(path):
        if "$patch" in document or "overlays" in path.parts:
            continue  # a patch is not whole
        validate.validate(document, "1.30", strict=True)


def test_an_unknown_field_is_refused():
    (brokers,) = [each for each in of_kind("StatefulSet") if each["metadata"]["name"] == "ottla"]
    brokers["spec"]["replcas"] = 3
    with pytest.raises(validate.ValidationError):
        validate.validate(brokers, "1.30", strict=True)


@pytest.mark.parametrize("folder", FOLDERS, ids=[path.relative_to(HOME).as_posix() for path in FOLDERS])
def test_kustomization_names_every_file_of_its_folder(folder):
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    patches = [each["path"] for each in kustomization.get("patches", ()) if "path" in each]
    named = {*kustomization["resources"], *patches}
    files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert {name for name in named if name.endswith(".yaml")} == files
    assert all((folder / name).exists() for name in named)


def rendered(folder):
    """As `kubectl apply -k` would send it."""
    for program in (["kustomize", "build"], ["kubectl", "kustomize"]):
        if shutil.which(program[0]):
            done = subprocess.run([*program, str(folder)], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr[-2000:]
            return list(yaml.safe_load_all(done.stdout))
    pytest.skip("needs kubectl, or kustomize (go install sigs.k8s.io/kustomize/kustomize/v5@latest)")


@pytest.mark.parametrize("folder", FOLDERS, ids=[path.relative_to(HOME).as_posix() for path in FOLDERS])
def test_kustomize_renders_what_the_schemas_accept(folder):
    found = rendered(folder)
    for document in found:
        validate.validate(document, "1.30", strict=True)
    namespaces = {each["metadata"].get("namespace") for each in found if each["kind"] != "Namespace"}
    assert namespaces <= {"ottla", None}
    images = re.findall(r"'image': '([^']+)'", str(found))
    assert images and all(":" in image and not image.endswith(":latest") for image in images)


def test_one_broker_is_one_broker_without_zookeeper():
    found = rendered(HOME / "overlays" / "one-broker")
    assert not [each for each in found if "zookeeper" in each["metadata"]["name"]]
    (brokers,) = [each for each in found if each["kind"] == "StatefulSet"]
    assert brokers["spec"]["replicas"] == 1
    (settings,) = [each for each in found if each["kind"] == "ConfigMap"]
    assert "zookeeper" not in settings["data"]["server.properties"]


@pytest.fixture
def brokers():
    (found,) = [each for each in of_kind("StatefulSet") if each["metadata"]["name"] == "ottla"]
    return found


def container(stateful_set):
    (found,) = stateful_set["spec"]["template"]["spec"]["containers"]
    return found


def environment(stateful_set, pod):
    """As Kubernetes would make it, on nodes without zones."""
    variables = {"POD_NAME": pod}
    for variable in container(stateful_set)["env"]:
        value = variable.get("value", variables.get(variable["name"], ""))
        variables[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], value)
    return variables


@pytest.mark.parametrize("ordinal", [0, 2])
def test_a_broker_understands_its_settings(brokers, ordinal):
    (settings,) = of_kind("ConfigMap")
    pod = f"ottla-{ordinal}"
    file_settings = read_properties(settings["data"]["server.properties"])
    found = read_environment(environment(brokers, pod), file_settings, hostname=pod)
    config = Config(found.settings)
    assert config.node_id == ordinal
    assert config.advertised_listeners == (f"PLAINTEXT://{pod}.ottla.ottla.svc:9092",)
    assert config.broker_rack is None
    assert not found.notes and not config.ignored


def test_selectors_find_the_brokers(brokers):
    labels = brokers["spec"]["template"]["metadata"]["labels"]
    wanted = [
        each["spec"]["selector"] for each in of_kind("Service") if each["metadata"]["name"] != "zookeeper"
    ]
    wanted += [
        each["spec"]["selector"]["matchLabels"]
        for each in of_kind("PodDisruptionBudget")
        if each["metadata"]["name"] == "ottla"
    ]
    wanted.append(brokers["spec"]["selector"]["matchLabels"])
    assert len(wanted) == 4
    assert all(selector.items() <= labels.items() for selector in wanted)


def test_brokers_find_each_other_before_they_are_ready(brokers):
    (headless,) = [
        each for each in of_kind("Service") if each["metadata"]["name"] == brokers["spec"]["serviceName"]
    ]
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["publishNotReadyAddresses"] is True


def test_it_runs_with_the_uid_and_folders_of_the_image(brokers):
    image = (ROOT / "deploy" / "Dockerfile").read_text()
    pod = brokers["spec"]["template"]["spec"]
    assert f"USER {pod['securityContext']['runAsUser']}:" in image
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"]
    (data,) = [each for each in container(brokers)["volumeMounts"] if each["name"] == "data"]
    assert f"VOLUME {data['mountPath']}" in image
    assert container(brokers)["readinessProbe"]["httpGet"]["path"] == "/health/ready"


def test_one_broker_may_be_away_and_records_are_still_taken(brokers):
    (budget,) = [each for each in of_kind("PodDisruptionBudget") if each["metadata"]["name"] == "ottla"]
    (settings,) = of_kind("ConfigMap")
    config = Config(read_properties(settings["data"]["server.properties"]))
    left = brokers["spec"]["replicas"] - budget["spec"]["maxUnavailable"]
    assert config.integer("min.insync.replicas") <= left


def test_the_spark_job_is_let_in(brokers):
    (job,) = of_kind("Job", "spark")
    labels = job["spec"]["template"]["metadata"]["labels"]
    policies = [each for each in of_kind("NetworkPolicy") if each["metadata"]["name"] == "ottla"]
    allowed = policies[0]["spec"]["ingress"][0]["from"][1]["podSelector"]["matchLabels"]
    assert allowed.items() <= labels.items()
    (program,) = of_kind("ConfigMap", "spark")
    compile(program["data"]["word_count.py"], "word_count.py", "exec")


def test_the_topics_of_the_spark_job_are_created_first(brokers):
    (job,) = of_kind("Job", "spark")
    (first,) = job["spec"]["template"]["spec"]["initContainers"]
    ottla, name, *words = first["command"]
    parser = argparse.ArgumentParser()
    import_module(COMMANDS[name][0]).add_arguments(parser)
    parsed = parser.parse_args(words)
    (program,) = of_kind("ConfigMap", "spark")
    assert ottla == "ottla" and parsed.if_not_exists
    assert all(f'"{topic}"' in program["data"]["word_count.py"] for topic in parsed.topic)


def test_zookeeper_keeps_its_transactions_in_its_volume():
    """By itself the image has them in /datalog, which is gone with the container."""
    (server,) = [each for each in of_kind("StatefulSet") if each["metadata"]["name"] == "zookeeper"]
    (container,) = server["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    volumes = tuple(each["mountPath"] + "/" for each in container["volumeMounts"])
    assert variables["ZOO_DATA_LOG_DIR"].startswith(volumes)
