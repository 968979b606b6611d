"""Kernels of a CPU that tests run through; processors and installations other than this one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from sequences import random_sequences
from tiny_checkpoint import TinyCheckpoint

import engine.cpu.binding
import engine.cpu.kernels
import engine.runtime
from engine.cpu.binding import Features, compiled, cpu_fault
from engine.engine import Engine, EngineConfig

# Why those in C++ do not run here; that they are compiled if they can be is a test of its own.
FAULT = cpu_fault(torch.bfloat16)
ONLY_IN_CPP = pytest.mark.skipif(FAULT is not None, reason=f"kernels in C++: {FAULT}")
_CPP = pytest.param("cpu", marks=ONLY_IN_CPP)
KERNELS = ("plain", "onednn", _CPP)
OUR_KERNELS = ("plain", _CPP)  # oneDNN's differ from plain ones in linear layers alone

ALL_FEATURES = Features.AVX512 | Features.BFLOAT16
SEQUENCES = random_sequences([7, 1, 40, 7, 150], 97)


def tiny_engine(directory: Path, **config: Any) -> Engine:
    tiny = TinyCheckpoint()
    tiny.write(directory)
    return Engine.load(tiny.spec(), tiny.files(directory), EngineConfig(**config))


def processor(monkeypatch: pytest.MonkeyPatch, features: Features) -> None:
    """One that can do this, asked of a library that need not be there."""
    path = compiled() or Path("_kernels.so")
    monkeypatch.setattr(engine.cpu.binding, "compiled", lambda: path)
    monkeypatch.setattr(engine.cpu.binding, "load", lambda _: None)
    for module in (engine.cpu.binding, engine.cpu.kernels):
        monkeypatch.setattr(module, "features", lambda _: features)


def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing had been compiled at install."""
    for module in (engine.cpu.binding, engine.cpu.kernels, engine.runtime):
        monkeypatch.setattr(module, "compiled", lambda: None)
