"""What a person sees when the server is ready."""

from collections.abc import Sequence

from checkpoint.spec import ModelSpec
from cli.console import say


def show_banner(url: str, admin_url: str, specs: Sequence[ModelSpec]) -> None:
    lines = [f"Florilege serves {url}/v1  (health and metrics: {admin_url})"]
    for spec in specs:
        device = spec.runtime.get("device")
        lines.append(
            f"  {spec.id}  task {spec.task}  device {device}  dtype {spec.dtype}  "
            f"up to {spec.max_tokens} tokens"
        )
    say(*lines, "Try:", "  " + _curl(url, specs[0]))


def _curl(url: str, spec: ModelSpec) -> str:
    if spec.task == "score":
        path, body = "rerank", '"query": "flowers", "documents": ["a rose", "a truck"]'
    else:
        path, body = "embeddings", '"input": "a gathering of flowers"'
    return (
        f"curl {url}/v1/{path} -H 'content-type: application/json' "
        f'-d \'{{"model": "{spec.id}", {body}}}\''
    )
