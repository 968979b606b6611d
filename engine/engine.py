"""Token ids in, vectors and scores out: `Engine.load`, then `step` after `step`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoint.spec import ModelFiles, ModelSpec
from engine.backends.backend import Layers
from engine.backends.choice import choose
from engine.backends.load import Installed
from engine.batch import Batch, Kind
from engine.cpu.heap import keep_freed_memory
from engine.device.device import Device
from engine.device.hot_list import HotList
from engine.device.memory import is_out_of_memory, translated
from engine.device.program import Equipment
from engine.device.runner import DeviceConfig, DeviceRunner
from engine.errors import EngineError
from engine.lazy import DeviceStats, LazyTensor
from engine.load import load_model
from engine.runner import CpuRunner, Model, Runner
from engine.runtime import EngineConfig, Runtime, settle
from engine.self_test import SelfTest, Subject, run_self_test

__all__ = ["Engine", "EngineConfig"]

# A quarter of a batch: jobs of several requests share one, and one request several devices.
_DEVICE_SHARD_TOKENS = 8192


class Engine:
    """One model on one device. `step` is for one thread at a time."""

    def __init__(self, spec: ModelSpec, runtime: Runtime, model: Model, runner: Runner) -> None:
        self.spec = spec
        self.device, self.dtype = runtime.device_name, runtime.dtype
        self._kernels, self._max_batch_tokens = runtime.kernels, runtime.max_batch_tokens
        self._model, self._runner = model, runner
        self._self_test: SelfTest | None = None

    @classmethod
    def load(
        cls,
        spec: ModelSpec,
        files: ModelFiles,
        config: EngineConfig,
        device: Device | None = None,
    ) -> "Engine":
        """Read the weights. Raises EngineError (CheckpointError where the files are at fault), and
        DeviceLost.

        `device` is one that is open already, whatever the configuration says.
        """
        runtime = settle(config, device)
        try:
            model = load_model(spec, files, runtime.kernels)
        except RuntimeError as error:
            if is_out_of_memory(error):
                message = f"{spec.id}: {runtime.device_name} has too little memory for the weights"
                raise EngineError(f"{message}: {error}".partition("\n")[0]) from error
            raise translated(error)  # noqa: B904 - which knows its cause
        try:
            return cls(spec, runtime, model, _runner(spec, runtime, model, config))
        except RuntimeError as error:
            raise translated(error)  # noqa: B904
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # Not of the checkpoint, which has been read by now.
            raise RuntimeError(f"{spec.id} cannot be started on {runtime.device_name}") from error

    @property
    def runtime(self) -> Mapping[str, Any]:
        """What computes, as `/v1/models` shows it. JSON-able."""
        return {
            "device": self.device,
            "kernels": self._kernels.name,
            "dtype": self.dtype,
            **self._runner.runtime(),
            "self_test": None if self._self_test is None else self._self_test.to_dict(),
        }

    def step(self, batch: Batch) -> LazyTensor:
        """Compute the rows of each sequence in float32, in the order of the batch.

        `embed`: one a sequence or span, not normalised; `score`: one logit; `tokens`: one a token;
        `sparse`: one weight for each entry of `indices`. Raises EngineError for a batch that this
        model cannot run.
        """
        self._check(batch)
        return self._runner.step(batch)

    def after_step(self) -> None:
        """Capture what the last step was due for, while the device runs it; or the next step does.

        For when the step's callback is attached, so that its rows do not wait for the capture.
        """
        self._runner.after_step()

    def idle(self) -> bool:
        """For when no step waits: do a piece of work that makes later ones faster, of a few
        milliseconds. False: there is nothing left to do.
        """
        return self._runner.idle()

    def stats(self) -> DeviceStats | None:
        """Of the accelerator; None on a CPU."""
        return self._runner.stats()

    def close(self) -> None:
        """After the last step."""
        self._runner.close()

    @property
    def max_batch_tokens(self) -> int:
        """What a batch should hold at most; a longer sequence runs alone."""
        return self._max_batch_tokens

    @property
    def max_positions(self) -> int:
        """The longest sequence that the model can read."""
        return self._model.encoder.embeddings.max_positions

    @property
    def shard_tokens(self) -> int:
        """What a job should hold at most, so that several workers share a large request."""
        if self.device == "cpu":
            return self._max_batch_tokens
        return min(self._max_batch_tokens, _DEVICE_SHARD_TOKENS)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What the model answers: what a batch may ask for."""
        return tuple(self._model.heads)

    def self_test(self, known_pairs: Sequence[Batch] = ()) -> SelfTest:
        """Compute fixed inputs together and alone. Raises SelfTestFailed if they differ.

        `known_pairs`, of a reranker: each batch is one query with several texts, the relevant one
        first. Raises if those of a query get the same score; a wrong order is part of the result.
        """
        subject = Subject(self.step, self.spec, self.dtype, self.kinds)
        self._self_test = run_self_test(subject, known_pairs)
        return self._self_test

    def _check(self, batch: Batch) -> None:
        """What torch would answer with garbage or a crash."""
        embeddings = self._model.encoder.embeddings
        lengths, ids, types = batch.lengths, batch.input_ids, batch.type_ids
        if batch.kind not in self._model.heads:
            kinds = ", ".join(self._model.heads)
            raise EngineError(f"{self.spec.id} answers {kinds}, not {batch.kind}")
        if not lengths.size or lengths.min() < 1 or lengths.sum() != ids.size:
            raise EngineError(
                "a batch needs a sequence, no sequence is empty, and lengths sum to T"
            )
        if lengths.max() > embeddings.max_positions:
            raise EngineError(
                f"a sequence has {lengths.max()} tokens; "
                f"{self.spec.id} has {embeddings.max_positions} positions"
            )
        if ids.min() < 0 or ids.max() >= embeddings.words.size(0):
            raise EngineError(f"a token id is not below {embeddings.words.size(0)}")
        if batch.spans is not None:
            _check_spans(batch, batch.spans)
        # A model without types ignores them: its tokenizer may number the texts of a pair.
        if types is not None and (
            types.size != ids.size or (embeddings.types and types.max() >= embeddings.types)
        ):
            raise EngineError(f"type ids must be T values below {embeddings.types}")


def _runner(spec: ModelSpec, runtime: Runtime, model: Model, config: EngineConfig) -> Runner:
    kernels = runtime.kernels
    if runtime.device is None:
        if config.keep_freed_memory:  # now: what loading needed has gone back
            keep_freed_memory()
        return CpuRunner(model, kernels.bucket)
    # Weights were read and cast in another queue, whose memory no other can use.
    runtime.device.synchronize()
    runtime.device.release_unused()
    specs = model.encoder.attention_specs
    available = Installed(Layers(specs, kernels.dtype, runtime.device))
    attention = choose(specs, kernels.dtype, available, config.attention_backend)
    hot_list = None
    if config.graph_cache is not None:
        key = (spec.id, spec.revision, runtime.dtype, runtime.device.model, kernels.name)
        hot_list = partial(HotList, config.graph_cache, " ".join((*key, *attention.names)))
    return DeviceRunner(
        Equipment(runtime.device, kernels, attention),
        model,
        DeviceConfig(runtime.max_batch_tokens, config.graphs, hot_list),
    )


def _check_spans(batch: Batch, spans: NDArray[np.int32]) -> None:
    if batch.kind != "embed":
        raise EngineError(f"spans are for embed, not for {batch.kind}")
    if spans.ndim != 2 or spans.shape[1] != 3:
        raise EngineError(f"spans have shape [S, 3], not {list(spans.shape)}")
    sequences, starts, ends = spans.T
    if not np.array_equal(np.unique(sequences), np.arange(batch.sequences)):
        raise EngineError("every sequence of a batch with spans needs one, and there are no others")
    if (np.diff(sequences) < 0).any():
        raise EngineError("spans must be sorted by their sequence")
    if (starts < 0).any() or (starts >= ends).any() or (ends > batch.lengths[sequences]).any():
        raise EngineError("a span is empty or leaves its sequence")
