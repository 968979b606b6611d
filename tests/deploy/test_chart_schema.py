"""What the chart renders is what Kubernetes takes, over a matrix of values; and what it refuses."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from helm_chart import (
    CHART,
    EVERYTHING,
    MATRIX,
    ChartRefused,
    Object,
    objects,
    of_kind,
    render,
    warnings,
)

VERSIONS = ("1.30", "1.32", "1.37")  # the oldest of Chart.yaml, one between, the newest known
CRDS = Path(__file__).with_name("crds")
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in CRDS.glob("*.json")}

RULES = """groups:
  - name: florilege
    rules:
      - alert: FlorilegeNoWorkers
        expr: florilege_live_workers == 0
        for: 1m
        annotations: {summary: "no worker of {{ $labels.model }}"}
"""

DASHBOARD = '{\n  "title": "{{ model }}"\n}\n'

each_case = pytest.mark.parametrize("case", MATRIX)


def check(thing: Object) -> None:
    """Raises what the validators raise."""
    if thing["kind"] in SCHEMAS:
        jsonschema.validate(thing, SCHEMAS[thing["kind"]])
    else:
        for version in VERSIONS:
            kubernetes_validate.validate(thing, version, strict=True)


@each_case
def test_every_object_is_valid_and_has_no_unknown_field(case: str) -> None:
    assert objects(case)
    for thing in objects(case):
        check(thing)


@each_case
def test_linter_has_nothing_to_say(case: str) -> None:
    assert warnings(MATRIX[case]) == {}


@each_case
def test_every_object_has_a_name_of_its_own(case: str) -> None:
    names = [(thing["kind"], thing["metadata"]["name"]) for thing in objects(case)]
    assert len(names) == len(set(names))


def test_everything_the_chart_knows_is_rendered_by_the_fullest_case() -> None:
    assert {thing["kind"] for thing in objects("everything")} >= {
        *("Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "Ingress"),
        *("NetworkPolicy", "ServiceMonitor", "ScaledObject", "ConfigMap", "Job", "CronJob"),
        *("PersistentVolumeClaim", "ServiceAccount"),
    }


def test_validation_finds_a_misspelt_field() -> None:
    """The validators themselves: strict, and strict for custom resources."""
    deployment = json.loads(json.dumps(of_kind(objects("defaults"), "Deployment")[0]))
    probe = deployment["spec"]["template"]["spec"]["containers"][0]
    probe["livenesProbe"] = probe.pop("livenessProbe")
    with pytest.raises(kubernetes_validate.ValidationError):
        check(deployment)
    scaled = json.loads(json.dumps(of_kind(objects("everything"), "ScaledObject")[0]))
    scaled["spec"]["minReplicas"] = 1
    with pytest.raises(jsonschema.ValidationError):
        check(scaled)


def test_two_releases_share_no_name() -> None:
    one, other = ({t["metadata"]["name"] for t in render({}, release=r)} for r in ("one", "two"))
    assert not one & other
    assert all(name.startswith("one-florilege") for name in one)


@pytest.mark.parametrize("release", ["a" * 53, "florilege-" + "b" * 43, "c" * 37], ids=len)
def test_names_of_a_long_release_are_as_long_as_they_may_be(release: str) -> None:
    """Kubernetes would refuse them, and no validator does."""
    things = render({"workers": [{"name": "m3", "model": "org/m"}]}, release=release)
    longest = {"CronJob": 52, "Service": 63, "Job": 63, "Deployment": 63}
    for thing in things:
        assert len(thing["metadata"]["name"]) <= longest.get(thing["kind"], 253)
        assert "florilege" in thing["metadata"]["name"]  # alerts know jobs by it
    other = render({}, release=release[:-1] + "x")
    assert {t["metadata"]["name"] for t in things}.isdisjoint(t["metadata"]["name"] for t in other)


@pytest.fixture
def chart_with_files(tmp_path: Path) -> Path:
    """The chart in a tree whose dashboards and rules are known."""
    for folder in ("grafana/dashboards", "prometheus/rules", "helm/florilege"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "grafana/dashboards/over_view.json").write_text(DASHBOARD)
    (tmp_path / "prometheus/rules/alerts.yaml").write_text(RULES)
    chart = tmp_path / "helm" / "florilege"
    for path in CHART.iterdir():
        # As they are: links that lead out of the chart, as in the repository.
        target = path.readlink() if path.is_symlink() else path
        (chart / path.name).symlink_to(target)
    return chart


def test_dashboards_and_rules_reach_the_cluster_as_they_are(chart_with_files: Path) -> None:
    things = render(EVERYTHING, chart=chart_with_files)
    (rule,) = of_kind(things, "PrometheusRule")
    check(rule)
    assert rule["metadata"]["name"] == "florilege-alerts"
    assert rule["spec"] == yaml.safe_load(RULES)
    dashboard = next(t for t in things if t["metadata"]["name"].endswith("dashboard-over-view"))
    assert dashboard["data"] == {"over_view.json": DASHBOARD}
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_every_dashboard_and_rule_of_the_repository_is_in_the_chart() -> None:
    deploy = CHART.parents[1]
    things = objects("everything")
    data = {name: text for t in of_kind(things, "ConfigMap") for name, text in t["data"].items()}
    for path in (deploy / "grafana" / "dashboards").glob("*.json"):
        assert json.loads(data[path.name]) == json.loads(path.read_text())
    rules = [t["spec"] for t in of_kind(things, "PrometheusRule")]
    for path in (deploy / "prometheus" / "rules").glob("*.yaml"):
        assert yaml.safe_load(path.read_text()) in rules


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown value": ({"gatewey": {}}, "gatewey"),
    "a flag among the other variables": (
        {"gateway": {"extraEnv": [{"name": "FLORILEGE_DRAIN_S", "value": "5"}]}},
        "extraEnv",
    ),
    "a variable that is two things": (
        {
            "workerDefaults": {
                "extraEnv": [{"name": "A", "value": "b", "valueFrom": {"fieldRef": {}}}]
            }
        },
        "extraEnv",
    ),
    "a variable from nowhere": (
        {"gateway": {"extraEnv": [{"name": "A", "valueFrom": {"bogus": {}}}]}},
        "extraEnv",
    ),
    "an unknown flag": ({"gateway": {"settings": {"max-queue": 5}}}, "max-queue"),
    "a flag that the chart sets": ({"gateway": {"settings": {"drain-s": 5}}}, "drain-s"),
    "a worker's flag of a gateway": ({"gateway": {"settings": {"graphs": "off"}}}, "graphs"),
    "a flag's value that cannot be": ({"gateway": {"settings": {"max-queue-s": 0}}}, "max-queue-s"),
    "a choice that is none": ({"gateway": {"settings": {"ready-when": "never"}}}, "ready-when"),
    "a secret among the settings": (
        {"gateway": {"settings": {"redis-password": "x"}}},
        "redis-password",
    ),
    "no worker": ({"workers": []}, "workers"),
    "a worker without a model": ({"workers": [{"name": "a"}]}, "model"),
    "a name that no object may have": ({"workers": [{"name": "A_b", "model": "m"}]}, "name"),
    "a number as text": ({"gateway": {"replicas": "2"}}, "replicas"),
    "a digest that is none": ({"image": {"gateway": {"digest": "latest"}}}, "digest"),
    "a worker scaled to nothing": (
        {"workerDefaults": {"autoscaling": {"minReplicas": 0}}},
        "minReplicas",
    ),
    "scaling by an unknown speed": (
        {"workers": [{"name": "a", "model": "m", "autoscaling": {"enabled": True}}]},
        "tokensPerSecond",
    ),
    "two workers of one name": (
        {"workers": [{"name": "a", "model": "m"}, {"name": "a", "model": "n"}]},
        "two are called a",
    ),
    "fewer gateways than there must be": (
        {"gateway": {"autoscaling": {"enabled": True, "minReplicas": 9}}},
        "gateway: autoscaling.maxReplicas 8 is below minReplicas 9",
    ),
    "fewer workers than there must be": (
        {
            "workerDefaults": {"autoscaling": {"enabled": True, "tokensPerSecond": 1}},
            "workers": [{"name": "a", "model": "m", "autoscaling": {"minReplicas": 5}}],
        },
        "worker a: autoscaling.maxReplicas 4 is below minReplicas 5",
    ),
    "an ingress without a host": ({"gateway": {"ingress": {"enabled": True}}}, "hosts"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_chart_refuses(what: str) -> None:
    values, named = REFUSED[what]
    with pytest.raises(ChartRefused, match=named):
        render(values)


def test_chart_refuses_a_worker_whose_objects_would_have_too_long_a_name() -> None:
    values = {"workers": [{"name": "w" * 30, "model": "org/m"}]}
    assert render(values, release="r" * 15)
    with pytest.raises(ChartRefused, match="longer than 63"):
        render(values, release="r" * 16)


def test_settings_of_the_schema_are_the_programs() -> None:
    source = CHART.parent / "settings_schema.py"
    spec = importlib.util.spec_from_file_location("settings_schema", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (CHART / "values.schema.json").read_text()
    assert text == module.text_of(module.with_settings(json.loads(text))), "run `make docs`"


def test_schema_is_one_and_leaves_no_object_of_ours_open() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    open_objects = [
        path for path, node in _nodes(schema) if "properties" in node and not _is_closed(node)
    ]
    assert open_objects == []


def _is_closed(node: dict[str, Any]) -> bool:
    return node.get("additionalProperties") is False or "type" not in node  # of an `if`


def _nodes(node: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    if isinstance(node, list):
        return [n for i, item in enumerate(node) for n in _nodes(item, f"{path}/{i}")]
    if not isinstance(node, dict):
        return []
    return [(path, node), *(n for k, v in node.items() for n in _nodes(v, f"{path}/{k}"))]
