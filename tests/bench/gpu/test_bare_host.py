"""A GPU host has torch and little else."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

# Refuses every package but those of a bare host, as if it were not installed.
BARE = """
import importlib.abc, runpy, sys

BLOCKED = {blocked!r}

class Bare(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None

sys.meta_path.insert(0, Bare())
sys.argv = ["bench", {arguments}]
runpy.run_module("bench", run_name="__main__")
"""
BLOCKED = {
    *("rich", "uvloop", "aiohttp", "httpx", "orjson", "tokenizers", "huggingface_hub", "pydantic"),
    *("fastapi", "starlette", "structlog", "typer", "redis", "sqlalchemy", "prometheus_client"),
    *("api", "worker", "transport", "auth", "observability", "cli", "triton"),
}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = BARE.format(blocked=BLOCKED, arguments=", ".join(map(repr, arguments)))
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_gpu_bench_needs_torch_numpy_and_safetensors_alone() -> None:
    answer = bench("gpu", "--help")
    assert answer.returncode == 0, answer.stderr
    assert "python -m bench gpu" in answer.stdout


def test_host_without_a_gpu_is_told_so(tmp_path: Path) -> None:
    answer = bench("gpu", "--out", str(tmp_path))
    assert answer.returncode == 1
    assert "finds no device cuda:0" in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_bench_of_servers_needs_more() -> None:
    answer = bench("--help")
    assert "No module named 'uvloop'" in answer.stderr
