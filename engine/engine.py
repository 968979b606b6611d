"""Token ids in, vectors and scores out: `Engine.load`, then `step` after `step`."""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from checkpoint.spec import ModelFiles, ModelSpec
from engine.batch import Batch, Kind
from engine.encoder import Encoder
from engine.errors import EngineError
from engine.families import FAMILIES
from engine.heads.head import Backbone, Head
from engine.heads.load import load_heads
from engine.lazy import LazyTensor, ResolvedTensor, StepOutput
from engine.packing import pack
from engine.runtime import EngineConfig, Runtime, settle
from engine.self_test import SelfTest, Subject, run_self_test
from engine.weights import Weights

__all__ = ["Engine", "EngineConfig"]


class Engine:
    """One model on one device. `step` is for one thread at a time."""

    def __init__(
        self, spec: ModelSpec, runtime: Runtime, encoder: Encoder, heads: Mapping[Kind, Head]
    ) -> None:
        self.spec = spec
        self.device, self.dtype = runtime.device, runtime.dtype
        self._kernels = runtime.kernels
        self._encoder, self._heads = encoder, heads
        self._self_test: SelfTest | None = None

    @classmethod
    def load(cls, spec: ModelSpec, files: ModelFiles, config: EngineConfig) -> "Engine":
        """Read the weights. Raises EngineError (CheckpointError where the files are at fault)."""
        runtime = settle(config)
        if spec.family not in FAMILIES:
            known = ", ".join(FAMILIES)
            raise EngineError(f"{spec.id}: family {spec.family!r} is not known: {known}")
        family = FAMILIES[spec.family]
        weights = Weights(files.weights, family.prefixes)
        encoder = family.load_encoder(files.config, weights, runtime.kernels)
        width = encoder.embeddings.words.size(1)
        backbone = Backbone(files.config, weights, runtime.kernels, width)
        heads = load_heads(spec, files, family, backbone)
        for prefix in family.leftovers(files.config):
            weights.ignore(prefix)
        weights.finish()
        return cls(spec, runtime, encoder, heads)

    @property
    def runtime(self) -> Mapping[str, Any]:
        """What computes, as `/v1/models` shows it. JSON-able."""
        return {
            "device": self.device,
            "attention": self._encoder.blocks[0].attention.attend.name,
            "kernels": self._kernels.name,
            "dtype": self.dtype,
            "self_test": None if self._self_test is None else self._self_test.to_dict(),
        }

    def step(self, batch: Batch) -> LazyTensor:
        """Compute the rows of each sequence in float32, in the order of the batch.

        `embed`: one a sequence or span, not normalised; `score`: one logit; `tokens`: one a token;
        `sparse`: one weight for each entry of `indices`. Raises EngineError for a batch that this
        model cannot run.
        """
        self._check(batch)
        started_s = perf_counter()
        with torch.inference_mode():
            packed = pack(batch, self._kernels.bucket)
            packed_s = perf_counter()
            head = self._heads[batch.kind]
            answer = head.collect(head.compute(self._encoder(packed), packed).numpy(), packed)
        return ResolvedTensor(
            StepOutput(
                rows=answer.rows,
                finite=answer.finite,
                timings={"pack": packed_s - started_s, "infer": perf_counter() - packed_s},
                padded_tokens=packed.padded_tokens,
                row_offsets=answer.row_offsets,
                indices=answer.indices,
            )
        )

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What the model answers: what a batch may ask for."""
        return tuple(self._heads)

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
        embeddings = self._encoder.embeddings
        lengths, ids, types = batch.lengths, batch.input_ids, batch.type_ids
        if batch.kind not in self._heads:
            kinds = ", ".join(self._heads)
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
