"""One model's forward between buffers of the device, ready to be captured."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.backends.choice import Preference
from engine.batch import Batch, Kind
from engine.device.buckets import SLOTS, Configuration, seqlen_bucket, slot_bucket
from engine.device.device import Device
from engine.device.inputs import InputLimits, StaticInputs
from engine.device.staging import InputBuffer, InputRing
from engine.kernels import Kernels
from engine.runner import Model

STEPS_IN_FLIGHT = 2  # one runs, one waits: the device never idles between them
_BLANK_TOKENS = 256  # of a sequence, where a forward is only measured


@dataclass(frozen=True, eq=False)
class Equipment:
    """What a model runs on."""

    device: Device
    kernels: Kernels
    attention: Preference


class ModelProgram:
    """Everything here only enqueues; nothing waits for the device, but for a free input buffer."""

    def __init__(self, equipment: Equipment, model: Model, max_tokens: int) -> None:
        """`max_tokens`: of a step, at most."""
        embeddings = model.encoder.embeddings
        self._device, self._kernels = equipment.device, equipment.kernels
        self._attention, self._model = equipment.attention, model
        self.max_tokens = max(max_tokens, embeddings.max_positions)
        limits = InputLimits(self.max_tokens, embeddings.max_positions, embeddings.types > 0)
        self._inputs = StaticInputs(self._device, self._attention, limits)
        self._ring = InputRing(self._device, self._inputs.ints, STEPS_IN_FLIGHT + 1)
        self._outputs: dict[str, Tensor] = {}  # by kind: [rows, D + 1], where graphs write

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(self._model.heads)

    def reserve_outputs(self, graph_tokens: int) -> None:
        """Make what graphs of so many tokens at most write to. Waits for the device."""
        for kind, head in self._model.heads.items():
            configuration = self.blank(kind, 1)
            self.upload_blank(configuration)
            found = self.run_exact(configuration)
            self._device.synchronize()
            rows = graph_tokens if head.rows == "token" else SLOTS[-1]
            self._outputs[kind] = found[0].new_empty(max(rows, 1), found[0].size(1))

    def width(self, kind: str) -> int:
        """D, of the rows of a kind."""
        return self._outputs[kind].size(1) - 1

    def blank(self, kind: str, tokens: int) -> Configuration:
        """A configuration to run without a batch: that of texts of a few hundred tokens."""
        slots = slot_bucket(-(-tokens // _BLANK_TOKENS)) or SLOTS[-1]
        bound = seqlen_bucket(tokens) if self._attention.bakes_max_seqlen else 0
        return Configuration(kind, tokens, slots, bound)

    def upload(self, configuration: Configuration, batch: Batch) -> None:
        self._upload(configuration, partial(self._inputs.fill, batch=batch))

    def upload_blank(self, configuration: Configuration) -> None:
        self._upload(configuration, self._inputs.fill_blank)

    def _upload(
        self, configuration: Configuration, fill: Callable[[InputBuffer, Configuration], None]
    ) -> None:
        buffer = self._ring.take()
        try:
            fill(buffer, configuration)
            self._device.run(partial(self._inputs.upload, buffer, configuration))
        finally:
            self._ring.give(buffer)

    def forward(self, configuration: Configuration) -> None:
        """Of what was uploaded last, to `output`. Runs in the device's queue."""
        rows = self._compute(configuration)
        self._kernels.finish(rows, self.output(configuration))

    def output(self, configuration: Configuration) -> Tensor:
        """[rows, D + 1] float32: the last column is 1 where the whole row is finite."""
        output = self._outputs[configuration.kind]
        head = self._model.heads[configuration.kind]  # type: ignore[index]
        return output[: configuration.tokens if head.rows == "token" else configuration.slots]

    def run_exact(self, configuration: Configuration) -> list[Tensor]:
        """Enqueue a forward that no graph will hold. The list gets its output [rows, D + 1]."""
        found: list[Tensor] = []

        def work() -> None:
            rows = self._compute(configuration)
            out = rows.new_empty(rows.size(0), rows.size(1) + 1)
            self._kernels.finish(rows, out)
            found.append(out)

        self._device.run(work)
        return found

    def _compute(self, configuration: Configuration) -> Tensor:
        packed = self._inputs.packed(configuration)
        head = self._model.heads[configuration.kind]  # type: ignore[index]
        with torch.inference_mode():
            return head.compute(self._model.encoder(packed), packed)
