"""What a person sees when the server is ready. On stderr: stdout carries JSON logs."""

from collections.abc import Sequence

from rich.console import Console

from checkpoint.spec import ModelSpec


def show_banner(url: str, admin_url: str, specs: Sequence[ModelSpec]) -> None:
    console = Console(stderr=True, highlight=False)
    console.print(f"Florilege serves {url}/v1  (health and metrics: {admin_url})", style="bold")
    for spec in specs:
        limit = f"{spec.max_tokens} tokens"
        console.print(
            f"  {spec.id}  {spec.task}  device {spec.runtime.get('device')}  dtype {spec.dtype}  "
            f"{limit}",
            markup=False,
        )
    console.print("Try:\n  " + _curl(url, specs[0]), markup=False, soft_wrap=True)


def _curl(url: str, spec: ModelSpec) -> str:
    if spec.task == "score":
        path, body = "rerank", '"query": "flowers", "documents": ["a rose", "a truck"]'
    else:
        path, body = "embeddings", '"input": "a gathering of flowers"'
    return (
        f"curl {url}/v1/{path} -H 'content-type: application/json' "
        f'-d \'{{"model": "{spec.id}", {body}}}\''
    )
