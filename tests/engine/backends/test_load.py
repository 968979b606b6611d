"""What is found on a machine, and what is not."""

import logging
import sys
from typing import Any

import pytest
import torch
from fake_attention import FakeFlashAttention4, FakeFlashInfer, LaunchingDevice

from engine.attention import AttentionSpec
from engine.backends.backend import Layers
from engine.backends.load import Installed
from engine.errors import DeviceLost

FULL = AttentionSpec(heads=4, kv_heads=2, head_dim=64, scale=0.2)


@pytest.fixture
def device() -> LaunchingDevice:
    return LaunchingDevice()


def layers(device: LaunchingDevice, *specs: AttentionSpec) -> Layers:
    return Layers(specs or (FULL,), torch.float16, device)


def test_packages_that_are_absent_are_no_error(device: LaunchingDevice) -> None:
    installed = Installed(layers(device))
    for name in ("fa4", "flashinfer-fa3", "flashinfer-fa2"):
        assert str(installed[name]).startswith("is not installed: No module named")


def test_torch_without_a_gpu_says_what_it_lacks(device: LaunchingDevice) -> None:
    reason = Installed(layers(device))["varlen"]
    assert str(reason).startswith("does not run here: NotImplementedError: ")
    assert "\n" not in str(reason)


@pytest.mark.parametrize("name", ["flashinfer-fa2", "flashinfer-fa3"])
def test_flashinfer_is_tried_and_found(
    name: str, device: LaunchingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer", FakeFlashInfer(device))
    backend = Installed(layers(device))[name]
    assert not isinstance(backend, str)
    assert backend.name == name


@pytest.mark.parametrize(
    ("name", "library", "reason"),
    [
        ("flashinfer-fa2", {"version": "0.7.3"}, "needs flashinfer-python 0.7.4, not 0.7.3"),
        ("flashinfer-fa2", {"version": "0.6.13"}, "needs flashinfer-python 0.7.4, not 0.6.13"),
        ("flashinfer-fa3", {"hopper": False}, "needs a Hopper GPU and CUDA 12.3, not Simulated"),
    ],
)
def test_flashinfer_that_does_not_fit_is_not_used(
    name: str,
    library: dict[str, Any],
    reason: str,
    device: LaunchingDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer", FakeFlashInfer(device, **library))
    assert Installed(layers(device))[name] == reason


@pytest.mark.parametrize("version", ["0.7.4", "0.7.4.post1", "0.8.0rc1", "0.10.0", "1.0"])
def test_later_versions_of_flashinfer_are_used(
    version: str, device: LaunchingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer", FakeFlashInfer(device, version))
    assert not isinstance(Installed(layers(device))["flashinfer-fa2"], str)


def with_flash_attention_4(monkeypatch: pytest.MonkeyPatch, library: object) -> None:
    for package in ("flash_attn", "flash_attn.cute"):
        monkeypatch.setitem(sys.modules, package, object())
    monkeypatch.setitem(sys.modules, "flash_attn.cute.interface", library)


def test_flash_attention_4_is_tried_and_found(
    device: LaunchingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_flash_attention_4(monkeypatch, FakeFlashAttention4())
    assert not isinstance(Installed(layers(device))["fa4"], str)


class Failing(FakeFlashAttention4):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def _flash_attn_fwd(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        raise self._error


class Wrong(FakeFlashAttention4):
    def _flash_attn_fwd(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        answer = super()._flash_attn_fwd(*args, **kwargs)
        answer[0][3].mul_(2)
        return answer


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        (
            Failing(AssertionError("no such tile")),
            "does not run here: AssertionError: no such tile",
        ),
        (Wrong(), "computes wrong numbers on this machine"),
        (object(), "does not run here: AttributeError: "),
    ],
    ids=["fails", "wrong", "other version"],
)
def test_library_that_does_not_work_here_is_not_used(
    library: object, reason: str, device: LaunchingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_flash_attention_4(monkeypatch, library)
    assert str(Installed(layers(device))["fa4"]).startswith(reason)


def test_device_that_breaks_down_in_a_trial_is_lost(
    device: LaunchingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = RuntimeError("CUDA error: an illegal memory access was encountered")
    with_flash_attention_4(monkeypatch, Failing(error))
    with pytest.raises(DeviceLost):
        Installed(layers(device))["fa4"]


def test_library_that_no_layer_can_use_is_not_loaded(
    device: LaunchingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_flash_attention_4(monkeypatch, Failing(AssertionError("was run")))
    slopes = AttentionSpec(heads=1, kv_heads=1, head_dim=64, scale=0.2, alibi=torch.ones(1))
    assert Installed(layers(device, slopes))["fa4"] == "has no ALiBi"


def test_our_kernel_is_tried_with_every_mask(device: LaunchingDevice) -> None:
    slopes = AttentionSpec(heads=2, kv_heads=1, head_dim=32, scale=0.2, alibi=torch.ones(2))
    window = AttentionSpec(heads=2, kv_heads=1, head_dim=16, scale=0.2, window=9)
    assert not isinstance(Installed(layers(device, slopes, window))["triton"], str)


def test_each_backend_is_loaded_once(
    device: LaunchingDevice, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_flash_attention_4(monkeypatch, FakeFlashAttention4())
    installed = Installed(layers(device))
    with caplog.at_level(logging.INFO):
        assert installed["fa4"] is installed["fa4"]
    assert len(caplog.records) == 1
    assert "attention backend fa4 took" in caplog.text


def test_name_that_no_backend_has_is_unknown(device: LaunchingDevice) -> None:
    installed = Installed(layers(device))
    assert installed.get("fa5") is None
    assert len(list(installed)) == len(installed)
