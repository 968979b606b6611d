"""The Helm chart: the objects it renders to, and the values it is tried with."""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "helm" / "florilege"
RELEASE, NAMESPACE = "florilege", "search"
DIGEST = "sha256:" + "0" * 64

Values = dict[str, Any]
Object = dict[str, Any]

EVERYTHING: Values = {
    "image": {
        "registry": "registry.example.com/team/",
        "pullSecrets": ["pull"],
        "gateway": {"repository": "gateway", "digest": DIGEST},
    },
    "secrets": {
        "redisTls": {"name": "redis-tls", "clientCertificate": True},
        "sentinelPassword": True,
    },
    "gateway": {
        "autoscaling": {"enabled": True},
        "settings": {
            "max-queue-s": 7.5,
            "max-request-tokens": 2097152,
            "ready-when": "every",
            "log-level": "debug",
        },
        "extraEnv": [
            {
                "name": "OTEL_EXPORTER_OTLP_HEADERS",
                "valueFrom": {"secretKeyRef": {"name": "collector", "key": "headers"}},
            }
        ],
        "modelConfig": '["org/model"]\naliases = ["text-embedding-3-small"]\n',
        "drainSeconds": 50,
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "annotations": {"nginx.ingress.kubernetes.io/proxy-body-size": "25m"},
            "hosts": ["embed.example.com"],
            "tls": [{"hosts": ["embed.example.com"], "secretName": "embed-tls"}],
        },
        "service": {"type": "LoadBalancer", "port": 443, "annotations": {"a": "b"}},
        "podAnnotations": {"c": "d"},
        "nodeSelector": {"pool": "cpu"},
        "tolerations": [{"key": "pool", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
    },
    "workerDefaults": {
        "priorityClassName": "low",
        "extraEnv": [{"name": "OTEL_RESOURCE_ATTRIBUTES", "value": "zone=a"}],
    },
    "workers": [
        {
            "name": "m3",
            "model": "BAAI/bge-m3=m3,embed",
            "surge": True,
            "settings": {"max-batch-tokens": 65536, "matryoshka": ["BAAI/bge-m3=256,512"]},
            "runtimeClassName": "nvidia",
            "nodeSelector": {"pool": "gpu"},
            "tolerations": [{"key": "pool", "operator": "Exists"}],
            "podAnnotations": {"e": "f"},
            "autoscaling": {"enabled": True, "tokensPerSecond": 250000, "maxReplicas": 8},
        },
        {
            "name": "own",
            "model": "/models/own-model",
            "gpus": 0,
            "drainSeconds": 40,
            "startSeconds": 1801,
            "autoscaling": {"enabled": True, "tokensPerSecond": 812.5, "queueSeconds": 1.5},
        },
    ],
    "weights": {
        "fetch": ["BAAI/bge-m3"],
        "hubTokenSecret": "hub",
        "verify": True,
        "create": {"storageClassName": "fast"},
    },
    "networkPolicy": {
        "callers": [{"podSelector": {"matchLabels": {"app": "search"}}}],
        "scrapers": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "redis": {
            "to": [{"podSelector": {"matchLabels": {"app": "redis"}}}],
            "ports": [6379, 26379],
        },
        "database": {"to": [{"ipBlock": {"cidr": "10.0.0.0/24"}}]},
        "extraEgress": [{"ports": [{"port": 4317}]}],
    },
    "prometheus": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "rules": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "dashboards": {"enabled": True},
}

BARE: Values = {
    "migrate": {"enabled": False},
    "shell": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "weights": {"existingClaim": "models"},
    "gateway": {"replicas": 1, "settings": {"no-auth": True}},
    "workers": [{"name": "a", "model": "org/a"}, {"name": "b", "model": "org/b", "gpus": 2}],
}

MATRIX: dict[str, Values] = {"defaults": {}, "everything": EVERYTHING, "bare": BARE}


class ChartRefused(Exception):
    """By its schema or by a template; the message is Helm's."""


def render(
    values: Values, chart: Path = CHART, release: str = RELEASE, namespace: str = NAMESPACE
) -> list[Object]:
    """Every object, as Helm would send it. Raises ChartRefused."""
    question = {
        "chart": str(chart),
        "values": values,
        "release": release,
        "namespace": namespace,
    }
    files = _ask(json.dumps(question))
    manifests = [text for name, text in files.items() if name.endswith(".yaml")]
    return [thing for text in manifests for thing in yaml.safe_load_all(text) if thing]


def warnings(values: Values) -> dict[str, str]:
    """What `helm lint` has to say, by file; its advice aside."""
    question = {"chart": str(CHART), "values": values, "lint": True}
    return _ask(json.dumps(question))


@cache
def objects(case: str) -> list[Object]:
    """Of one row of the matrix."""
    return render(MATRIX[case])


def of_kind(things: list[Object], *kinds: str) -> list[Object]:
    return [thing for thing in things if thing["kind"] in kinds]


def named(things: list[Object], kind: str, name: str) -> Object:
    return next(t for t in of_kind(things, kind) if t["metadata"]["name"] == name)


def pods(things: list[Object]) -> Iterator[tuple[str, Object]]:
    """`Kind name` and pod template of whatever makes pods."""
    for thing in of_kind(things, "Deployment", "Job", "CronJob"):
        spec = thing["spec"]
        if thing["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        yield f"{thing['kind']} {thing['metadata']['name']}", spec["template"]


def containers(template: Object) -> list[Object]:
    spec = template["spec"]
    return [*spec.get("initContainers", []), *spec["containers"]]


@cache
def _ask(question: str) -> dict[str, str]:
    command = [sys.executable, str(Path(__file__).with_name("helm_render.py"))]
    done = subprocess.run(command, input=question, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise ChartRefused(answer["error"])
    files: dict[str, str] = answer["files"]
    return files
