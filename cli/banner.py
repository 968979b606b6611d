"""What a person sees when the server is ready."""

from collections.abc import Sequence

from checkpoint.spec import ModelSpec
from cli.console import say


def show_banner(url: str, admin_url: str, specs: Sequence[ModelSpec]) -> None:
    lines = [f"Florilege serves {url}/v1  (health and metrics: {admin_url})"]
    lines += [_line(spec) for spec in specs]
    lines += ["Try:", "  " + _curl(url, specs[0])] if specs else ["  no model yet"]
    say(*lines)


def show_worker_banner(name: str, admin_url: str, specs: Sequence[ModelSpec]) -> None:
    say(f"Florilege worker {name}  (health and metrics: {admin_url})", *map(_line, specs))


def _line(spec: ModelSpec) -> str:
    device = spec.runtime.get("device")
    return (
        f"  {spec.id}  task {spec.task}  device {device}  dtype {spec.dtype}  "
        f"up to {spec.max_tokens} tokens"
    )


def _curl(url: str, spec: ModelSpec) -> str:
    if spec.task == "score":
        path, body = "rerank", '"query": "flowers", "documents": ["a rose", "a truck"]'
    else:
        path, body = "embeddings", '"input": "a gathering of flowers"'
    return (
        f"curl {url}/v1/{path} -H 'content-type: application/json' "
        f'-d \'{{"model": "{spec.id}", {body}}}\''
    )
