"""What no deployment may lack, and that the chart agrees with the program."""

import re
from pathlib import Path
from typing import Any

import pytest
from app_settings import (
    DRAIN_S,
    GATEWAY_ADMIN_PORT,
    PORT,
    SECRET_FILES,
    VARIABLES,
    WORKER_ADMIN_PORT,
    commands,
)
from dockerfile import Dockerfile
from helm_chart import (
    CHART,
    MATRIX,
    NAMESPACE,
    ROOT,
    Object,
    containers,
    named,
    objects,
    of_kind,
    pods,
    render,
)

from cli.settings import load_settings
from observability.metrics import Metrics

DOCKERFILE = Dockerfile(ROOT / "deploy" / "docker" / "Dockerfile")
START_S = 600  # a large model is loaded, proven and warmed up within this

each_case = pytest.mark.parametrize("case", MATRIX)


def _serving(case: str) -> list[tuple[Object, Object]]:
    """Deployments, each with its only container."""
    found = []
    for thing in of_kind(objects(case), "Deployment"):
        (container,) = thing["spec"]["template"]["spec"]["containers"]
        found.append((thing, container))
    return found


def _component(thing: Object) -> str:
    component: str = thing["metadata"]["labels"]["app.kubernetes.io/component"]
    return component


def _environment(container: Object) -> dict[str, str]:
    return {e["name"]: e["value"] for e in container.get("env", []) if "value" in e}


def _selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


@each_case
def test_no_pod_runs_as_root_or_reaches_the_api_server(case: str) -> None:
    for name, template in pods(objects(case)):
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False, name
        security = spec["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] == security["runAsGroup"] == 10001
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            assert key not in spec


@each_case
def test_pod_runs_as_the_user_of_the_image(case: str) -> None:
    for _, template in pods(objects(case)):
        security = template["spec"]["securityContext"]
        user = f"{security['runAsUser']}:{security['runAsGroup']}"
        assert user == DOCKERFILE.last("gateway", "USER").text


@each_case
def test_no_container_can_gain_rights_or_write_outside_its_volumes(case: str) -> None:
    for name, template in pods(objects(case)):
        for container in containers(template):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
        assert not any("hostPath" in volume for volume in template["spec"]["volumes"])


@each_case
def test_every_container_has_requests_and_limits(case: str) -> None:
    for name, template in pods(objects(case)):
        for container in containers(template):
            for kind in ("requests", "limits"):
                assert container["resources"][kind].keys() >= {"cpu", "memory"}, name


@each_case
def test_every_mounted_volume_is_there_and_every_volume_is_mounted(case: str) -> None:
    for name, template in pods(objects(case)):
        there = {volume["name"] for volume in template["spec"]["volumes"]}
        mounted = {m["name"] for c in containers(template) for m in c["volumeMounts"]}
        assert there == mounted, name


@each_case
def test_service_variables_of_the_cluster_stay_out(case: str) -> None:
    """A Service named florilege-… makes FLORILEGE_…_SERVICE_HOST, and that stops the start."""
    for name, template in pods(objects(case)):
        assert template["spec"]["enableServiceLinks"] is False, name


@each_case
def test_every_variable_is_a_setting_with_a_value_it_may_have(case: str) -> None:
    for name, template in pods(objects(case)):
        for container in containers(template):
            own = {k: v for k, v in _environment(container).items() if k.startswith("FLORILEGE_")}
            assert own.keys() <= VARIABLES | SECRET_FILES, name
            load_settings({}, {k: v for k, v in own.items() if k not in SECRET_FILES})


def test_large_numbers_reach_the_program_as_they_were_written() -> None:
    gateway = named(objects("everything"), "Deployment", "florilege-gateway")
    variables = _environment(gateway["spec"]["template"]["spec"]["containers"][0])
    settings = load_settings({}, {k: v for k, v in variables.items() if k not in SECRET_FILES})
    assert settings.max_request_tokens == 2_097_152
    assert settings.max_queue_s == 7.5


def test_variables_of_no_flag_reach_their_containers() -> None:
    gateway, worker = (
        named(objects("everything"), "Deployment", f"florilege-{name}")["spec"]["template"]["spec"]
        for name in ("gateway", "worker-m3")
    )
    headers = {"secretKeyRef": {"name": "collector", "key": "headers"}}
    assert gateway["containers"][0]["env"][-1] == {
        "name": "OTEL_EXPORTER_OTLP_HEADERS",
        "valueFrom": headers,
    }
    assert worker["containers"][0]["env"][-1] == {
        "name": "OTEL_RESOURCE_ATTRIBUTES",
        "value": "zone=a",
    }


@each_case
def test_every_command_is_the_programs(case: str) -> None:
    for name, template in pods(objects(case)):
        for container in containers(template):
            if "command" not in container:
                words = [word for word in container["args"] if not word.startswith("-")]
                known = commands()
                assert words[0] in known or " ".join(words) in known, name


@each_case
def test_secrets_are_files_and_only_named(case: str) -> None:
    assert not of_kind(objects(case), "Secret")
    for name, template in pods(objects(case)):
        mounts = {m["mountPath"] for c in containers(template) for m in c["volumeMounts"]}
        for container in containers(template):
            assert "envFrom" not in container
            for variable, value in _environment(container).items():
                if variable in SECRET_FILES:
                    assert str(Path(value).parent) in mounts, name
        for volume in template["spec"]["volumes"]:
            if "secret" in volume:
                assert volume["secret"]["defaultMode"] == 0o440


@each_case
def test_every_secret_file_is_among_the_mounted_keys(case: str) -> None:
    for name, template in pods(objects(case)):
        (keys,) = [
            {item["path"] for item in volume["secret"]["items"]}
            for volume in template["spec"]["volumes"]
            if volume["name"] == "secrets"
        ] or [set()]
        used = {
            Path(value).name
            for container in containers(template)
            for variable, value in _environment(container).items()
            if variable in SECRET_FILES
        }
        assert used == keys, name


@each_case
def test_worker_has_neither_keys_nor_database(case: str) -> None:
    for thing, container in _serving(case):
        if _component(thing) == "worker":
            spec = thing["spec"]["template"]["spec"]
            (secret,) = [v["secret"] for v in spec["volumes"] if v["name"] == "secrets"]
            assert secret["secretName"] == "florilege-worker"
            assert (
                not {"FLORILEGE_DATABASE_URL_FILE", "FLORILEGE_PEPPER_FILE"}
                & _environment(container).keys()
            )


@each_case
def test_ports_are_the_programs(case: str) -> None:
    for thing, container in _serving(case):
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        if _component(thing) == "gateway":
            assert ports == {"http": PORT, "admin": GATEWAY_ADMIN_PORT}
        else:
            assert ports == {"admin": WORKER_ADMIN_PORT}


@each_case
def test_process_listens_where_the_ports_say(case: str) -> None:
    """Nothing in the pod moves them: neither a variable nor an argument."""
    moved = {f"FLORILEGE_{name}" for name in ("HOST", "PORT", "ADMIN_HOST", "ADMIN_PORT")}
    for _, container in _serving(case):
        assert not moved & _environment(container).keys()
        assert {word for word in container["args"] if word.startswith("-")} <= {"--model"}


@each_case
def test_probes_ask_the_admin_port(case: str) -> None:
    for thing, container in _serving(case):
        asked = {
            name: container[f"{name}Probe"]["httpGet"]
            for name in ("startup", "liveness", "readiness")
        }
        assert all(get["port"] == "admin" for get in asked.values())
        # Liveness never depends on Redis, on workers or on the database.
        assert asked["liveness"]["path"] == "/health/live"
        assert asked["readiness"]["path"] == "/health/ready"
        worker = _component(thing) == "worker"
        assert asked["startup"]["path"] == ("/health/ready" if worker else "/health/live")


@each_case
def test_worker_has_time_to_load_its_model(case: str) -> None:
    for thing, container in _serving(case):
        if _component(thing) == "worker":
            probe = container["startupProbe"]
            patience_s = probe["periodSeconds"] * probe["failureThreshold"]
            assert patience_s >= START_S
            assert thing["spec"]["progressDeadlineSeconds"] > patience_s


def test_patience_of_the_start_is_at_least_what_was_asked() -> None:
    own = named(objects("everything"), "Deployment", "florilege-worker-own")
    probe = own["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 1801


@each_case
def test_process_is_not_killed_while_it_drains(case: str) -> None:
    for thing, container in _serving(case):
        grace_s = thing["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        drain_s = float(_environment(container)["FLORILEGE_DRAIN_S"])
        sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {"seconds": 0})
        assert grace_s >= sleep["seconds"] + drain_s + 15
        assert sleep["seconds"] == (5 if _component(thing) == "gateway" else 0)


def test_defaults_are_those_of_the_operators_page() -> None:
    graces = {
        _component(thing): thing["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        for thing, _ in _serving("defaults")
    }
    assert graces == {"gateway": 45, "worker": 60}
    assert all(
        float(_environment(container)["FLORILEGE_DRAIN_S"]) == DRAIN_S
        for _, container in _serving("defaults")
    )


@each_case
def test_no_gateway_goes_before_another_has_come(case: str) -> None:
    for thing, _ in _serving(case):
        if _component(thing) == "gateway":
            rolling = thing["spec"]["strategy"]["rollingUpdate"]
            assert rolling == {"maxUnavailable": 0, "maxSurge": 1}


def test_worker_is_replaced_without_a_spare_gpu_unless_there_is_one() -> None:
    rolling = {
        thing["metadata"]["name"]: thing["spec"]["strategy"]["rollingUpdate"]
        for thing, _ in _serving("everything")
    }
    assert rolling["florilege-worker-own"] == {"maxUnavailable": 1, "maxSurge": 0}
    assert rolling["florilege-worker-m3"] == {"maxUnavailable": 0, "maxSurge": 1}


@each_case
def test_selector_of_each_deployment_matches_its_own_pods_alone(case: str) -> None:
    things = objects(case)
    for thing in of_kind(things, "Deployment"):
        selector = thing["spec"]["selector"]["matchLabels"]
        selected = [n for n, t in pods(things) if _selects(selector, t["metadata"]["labels"])]
        assert selected == [f"Deployment {thing['metadata']['name']}"]


@each_case
def test_every_deployment_has_a_disruption_budget_that_lets_nodes_drain(case: str) -> None:
    things = objects(case)
    budgets = of_kind(things, "PodDisruptionBudget")
    for thing in of_kind(things, "Deployment"):
        labels = thing["spec"]["template"]["metadata"]["labels"]
        (budget,) = [b for b in budgets if _selects(b["spec"]["selector"]["matchLabels"], labels)]
        assert budget["spec"]["maxUnavailable"] == 1
        assert budget["spec"]["selector"] == thing["spec"]["selector"]


@each_case
def test_every_service_reaches_a_port_of_the_pods_it_selects(case: str) -> None:
    things = objects(case)
    for service in of_kind(things, "Service"):
        selected = [
            template
            for name, template in pods(things)
            if _selects(service["spec"]["selector"], template["metadata"]["labels"])
        ]
        assert selected
        for template in selected:
            names = {p["name"] for c in template["spec"]["containers"] for p in c["ports"]}
            assert {port["targetPort"] for port in service["spec"]["ports"]} <= names


def test_public_service_of_the_ingress_and_the_admin_services_have_the_ports_they_say() -> None:
    things = objects("everything")
    ports = {t["metadata"]["name"]: t["spec"]["ports"] for t in of_kind(things, "Service")}
    assert ports == {
        "florilege-gateway": [{"name": "http", "port": 443, "targetPort": "http"}],
        "florilege-gateway-admin": [
            {"name": "admin", "port": GATEWAY_ADMIN_PORT, "targetPort": "admin"}
        ],
        "florilege-worker-admin": [
            {"name": "admin", "port": WORKER_ADMIN_PORT, "targetPort": "admin"}
        ],
    }
    (ingress,) = of_kind(things, "Ingress")
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"] == {"service": {"name": "florilege-gateway", "port": {"name": "http"}}}


def test_release_may_call_and_scrape_only_the_ports_of_its_pods() -> None:
    things = objects("everything")
    for component, names in (("gateway", ["http", "admin"]), ("worker", ["admin"])):
        policy = named(things, "NetworkPolicy", f"florilege-{component}")
        assert [p["port"] for rule in policy["spec"]["ingress"] for p in rule["ports"]] == names
    for component in ("database", "fetch"):
        assert named(things, "NetworkPolicy", f"florilege-{component}")["spec"]["ingress"] == []


@each_case
def test_admin_port_is_in_no_service_that_leaves_the_cluster(case: str) -> None:
    for service in of_kind(objects(case), "Service"):
        targets = {port["targetPort"] for port in service["spec"]["ports"]}
        if "admin" in targets:
            assert targets == {"admin"}
            assert service["spec"]["clusterIP"] == "None"


def test_monitor_selects_the_admin_services_of_gateways_and_workers() -> None:
    things = objects("everything")
    (monitor,) = of_kind(things, "ServiceMonitor")
    selector = monitor["spec"]["selector"]["matchLabels"]
    names = [
        service["metadata"]["name"]
        for service in of_kind(things, "Service")
        if _selects(selector, service["metadata"]["labels"])
    ]
    assert names == ["florilege-gateway-admin", "florilege-worker-admin"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("admin", "/metrics")


@pytest.mark.parametrize("case", ["defaults", "everything"])
def test_every_pod_has_a_network_policy_for_both_directions(case: str) -> None:
    things = objects(case)
    policies = of_kind(things, "NetworkPolicy")
    for name, template in pods(things):
        (policy,) = [
            p
            for p in policies
            if _selects(p["spec"]["podSelector"]["matchLabels"], template["metadata"]["labels"])
        ]
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"], name


def test_only_what_fetches_models_may_leave_the_cluster_for_them() -> None:
    def ports(component: str) -> set[int]:
        policy = named(objects("everything"), "NetworkPolicy", f"florilege-{component}")
        return {p["port"] for rule in policy["spec"]["egress"] for p in rule["ports"]}

    assert ports("fetch") == {53, 443}
    assert ports("gateway") == {53, 5432, 6379, 26379, 4317}
    assert ports("worker") == {53, 6379, 26379, 4317}  # no database
    assert ports("database") == {53, 5432, 6379, 26379}


def test_stores_are_reached_on_their_own_ports_unless_the_values_say_others() -> None:
    def ports(component: str) -> set[int]:
        policy = named(objects("defaults"), "NetworkPolicy", f"florilege-{component}")
        return {p["port"] for rule in policy["spec"]["egress"] for p in rule["ports"]}

    assert ports("gateway") == ports("database") == {53, 5432, 6379}
    assert ports("worker") == {53, 6379}


def test_trigger_of_one_release_counts_nothing_of_another() -> None:
    """Both serve the same model in one namespace: the job tells them apart."""
    scaling = {"enabled": True, "tokensPerSecond": 1000}
    values = {
        "workers": [{"name": "a", "model": "org/a", "autoscaling": scaling}],
        "prometheus": {"serviceMonitor": {"enabled": True}},
    }
    for release in ("one", "two"):
        things = render(values, release=release)
        (scaled,) = of_kind(things, "ScaledObject")
        job = re.search(r'job="([^"]*)"', scaled["spec"]["triggers"][0]["metadata"]["query"])
        assert job is not None
        service = named(things, "Service", job[1])
        (gateway,) = [t for n, t in pods(things) if n == f"Deployment {release}-florilege-gateway"]
        assert _selects(service["spec"]["selector"], gateway["metadata"]["labels"])


@each_case
def test_replicas_are_left_to_the_autoscaler_where_there_is_one(case: str) -> None:
    things = objects(case)
    scaled = {
        thing["spec"]["scaleTargetRef"]["name"]
        for thing in of_kind(things, "HorizontalPodAutoscaler", "ScaledObject")
    }
    names = {thing["metadata"]["name"] for thing in of_kind(things, "Deployment")}
    assert scaled <= names
    for thing in of_kind(things, "Deployment"):
        assert ("replicas" in thing["spec"]) == (thing["metadata"]["name"] not in scaled)


def test_trigger_counts_tokens_that_wait_by_metrics_that_exist() -> None:
    queries = {
        thing["metadata"]["name"]: thing["spec"]["triggers"][0]["metadata"]
        for thing in of_kind(objects("everything"), "ScaledObject")
    }
    waiting = "sum by (model) (max by (model, lane) (florilege_queue_tokens{%s})) / %s"
    place = f'namespace="{NAMESPACE}",job="florilege-gateway-admin"'
    first = queries["florilege-worker-m3"]
    assert first["query"] == waiting % (f'model="BAAI/bge-m3",{place}', "250000")
    second = queries["florilege-worker-own"]
    assert second["query"] == waiting % (f'model="own-model",{place}', "812.5")
    assert (first["threshold"], second["threshold"]) == ("2", "1.5")

    known = {
        sample: set(metric._labelnames)  # type: ignore[attr-defined]
        for metric in vars(Metrics()).values()
        if hasattr(metric, "_labelnames")
        for sample in [metric.describe()[0].name]
    }
    for metadata in queries.values():
        for name in re.findall(r"\bflorilege_\w+", metadata["query"]):
            assert known[name] == {"model", "lane"}


def test_trigger_without_the_operator_asks_for_no_label_of_it() -> None:
    scaling = {"enabled": True, "tokensPerSecond": 1000}
    things = render({"workers": [{"name": "a", "model": "org/a", "autoscaling": scaling}]})
    query = of_kind(things, "ScaledObject")[0]["spec"]["triggers"][0]["metadata"]["query"]
    assert 'florilege_queue_tokens{model="org/a"}' in query


def test_model_of_a_trigger_is_called_as_the_program_calls_it(tmp_path: Path) -> None:
    from checkpoint.find import find_model

    directory = tmp_path / "my-model"
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    scaling = {"enabled": True, "tokensPerSecond": 1000}
    for name in (str(directory), f"{directory}=short,other", f"{directory}/"):
        things = render({"workers": [{"name": "a", "model": name, "autoscaling": scaling}]})
        query = of_kind(things, "ScaledObject")[0]["spec"]["triggers"][0]["metadata"]["query"]
        assert f'model="{find_model(name).id}"' in query


def test_gpu_is_asked_for_tolerated_and_used() -> None:
    first, second = (
        named(objects("bare"), "Deployment", f"florilege-worker-{name}")["spec"]["template"]["spec"]
        for name in ("a", "b")
    )
    assert first["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert second["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 2
    tolerated = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert first["tolerations"] == [tolerated]
    assert _environment(first["containers"][0])["FLORILEGE_DEVICE"] == "cuda"
    cpu = named(objects("defaults"), "Deployment", "florilege-worker-minilm")
    container = cpu["spec"]["template"]["spec"]["containers"][0]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert _environment(container)["FLORILEGE_DEVICE"] == "cpu"


def test_changed_model_config_restarts_the_gateways() -> None:
    def checksum(config: str) -> str:
        things = render({"gateway": {"modelConfig": config}})
        gateway = named(things, "Deployment", "florilege-gateway")
        annotations: dict[str, Any] = gateway["spec"]["template"]["metadata"]["annotations"]
        return str(annotations["checksum/models"])

    assert checksum("") != checksum("a = 1\n")


def test_migration_runs_before_the_gateways_of_a_release() -> None:
    job = named(objects("defaults"), "Job", "florilege-migrate")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    spec = job["spec"]["template"]["spec"]
    assert "serviceAccountName" not in spec  # none of the chart's is there yet
    assert spec["containers"][0]["args"] == ["db", "upgrade"]


def test_weights_are_read_only_and_checked_where_asked() -> None:
    for thing, container in _serving("everything"):
        if _component(thing) == "worker":
            mounts = {m["name"]: m for m in container["volumeMounts"]}
            assert mounts["weights"]["readOnly"] is True
            (check,) = thing["spec"]["template"]["spec"]["initContainers"]
            assert check["command"][0] == "sha256sum"
            assert check["workingDir"] == mounts["weights"]["mountPath"]


def test_image_is_named_by_digest_where_one_is_given() -> None:
    gateway = named(objects("everything"), "Deployment", "florilege-gateway")
    image = gateway["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == f"registry.example.com/team/gateway@sha256:{'0' * 64}"
    worker = named(objects("everything"), "Deployment", "florilege-worker-m3")
    image = worker["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == "registry.example.com/team/florilege-worker:0.1.0"


def test_volumes_of_the_pods_are_where_the_image_looks() -> None:
    environment = DOCKERFILE.environment("worker", {})
    worker = named(objects("defaults"), "Deployment", "florilege-worker-minilm")
    mounts = {
        m["name"]: m["mountPath"]
        for m in worker["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    }
    assert mounts["weights"] == environment["HF_HOME"]
    assert mounts["cache"] == environment["FLORILEGE_CACHE_DIR"]


def test_version_of_the_chart_is_the_programs() -> None:
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert f"appVersion: {version[1]}" in (CHART / "Chart.yaml").read_text().splitlines()
