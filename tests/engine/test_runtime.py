"""What `auto` becomes, what a machine cannot do, and what the engine imports."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_checkpoint import TinyCheckpoint

from engine.engine import Engine, EngineConfig
from engine.errors import EngineError


def engine_of(directory: Path, **config: Any) -> Engine:
    tiny = TinyCheckpoint()
    tiny.write(directory)
    return Engine.load(tiny.spec(), tiny.files(directory), EngineConfig(**config))


def test_runtime_says_what_computes(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, dtype="float32", kernels="plain")
    expected = {
        "device": "cpu",
        "attention": "sequence",
        "kernels": "plain",
        "dtype": "float32",
        "self_test": None,
    }
    assert engine.runtime == expected
    engine.self_test()
    assert json.loads(json.dumps(engine.runtime))["self_test"]["sequences"] == 6


@pytest.mark.parametrize(
    ("capabilities", "dtype"),
    [
        ({"avx512_bf16": True}, "bfloat16"),
        ({"amx_bf16": True, "avx512_bf16": False}, "bfloat16"),
        ({"avx512_bf16": False, "avx512_f": True}, "float32"),
        ({}, "float32"),
    ],
)
def test_auto_dtype_is_bfloat16_where_the_cpu_computes_in_it(
    capabilities: dict[str, bool], dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert engine_of(tmp_path).dtype == dtype


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"device": "cuda"}, "device 'cuda': torch .* finds no CUDA device"),
        ({"device": "tpu"}, "device 'tpu' is not supported: auto, cpu, cuda or cuda:N"),
        ({"dtype": "float16"}, "'float16' is not supported on a CPU: auto, float32 or bfloat16"),
        ({"dtype": "int8"}, "dtype 'int8' is not known"),
        ({"kernels": "triton"}, "kernels 'triton' are not known"),
    ],
)
def test_setting_that_the_machine_lacks_is_refused(
    config: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match=message):
        engine_of(tmp_path, **config)


def test_engine_imports_torch_numpy_and_safetensors_alone() -> None:
    program = """
import sys
import engine.engine
others = {"api", "worker", "transport", "auth", "observability", "cli", "tokenizers"}
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & others), sorted(n for n in sys.modules if n.startswith("checkpoint.")))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.split("\n")[0] == "[] ['checkpoint.compiled', 'checkpoint.spec']"
