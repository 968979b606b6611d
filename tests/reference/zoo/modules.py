"""What follows the Transformer in modules.json, written as sentence-transformers saves it.

A `Module` is a function of the checkpoint's parameters, because a Dense has some of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reference.sharp import write_json
from reference.sharp_families import Parameters, Tensors
from safetensors.numpy import save_file

IDENTITY = "torch.nn.modules.linear.Identity"
TANH = "torch.nn.modules.activation.Tanh"
GELU = "torch.nn.modules.activation.GELU"


@dataclass(frozen=True, eq=False)
class Written:
    """One entry of modules.json and what its folder holds."""

    class_path: str
    config: Mapping[str, Any] | None = None  # None: no config.json
    tensors: Tensors = field(default_factory=dict)
    keywords: Sequence[str] = ()  # `kwargs` in modules.json
    folder: str | None = None  # instead of <index>_<kind>

    @property
    def kind(self) -> str:
        return self.class_path.rpartition(".")[2]


Module = Callable[[Parameters], Written]


def write_modules(modules: Sequence[Module], parameters: Parameters, directory: Path) -> None:
    """modules.json and the folders it names; the first module stands at the top."""
    entries: list[dict[str, Any]] = []
    for index, module in enumerate(modules):
        written = module(parameters)
        folder = written.folder
        if folder is None:
            folder = f"{index}_{written.kind}" if index else ""
        entry = {"idx": index, "name": str(index), "path": folder, "type": written.class_path}
        entries.append(entry | ({"kwargs": list(written.keywords)} if written.keywords else {}))
        if written.config is not None:
            name = "config.json" if index else "sentence_bert_config.json"
            write_json(directory / folder / name, written.config)
        if written.tensors:
            (directory / folder).mkdir(parents=True, exist_ok=True)
            save_file(
                written.tensors, directory / folder / "model.safetensors", metadata={"format": "pt"}
            )
    write_json(directory / "modules.json", entries)


# As saved by versions 2 to 5, and so by most of the repositories there are.


def transformer(max_tokens: int, kind: str = "models.Transformer") -> Module:
    config = {"max_seq_length": max_tokens, "do_lower_case": False}
    return lambda _: Written(f"sentence_transformers.{kind}", config)


def pooling(mode: str, width: int, include_prompt: bool = True) -> Module:
    """`mode` is the part after `pooling_mode_`."""
    config = {
        "word_embedding_dimension": width,
        **{f"pooling_mode_{name}": name == mode for name in POOLING_MODES},
        "include_prompt": include_prompt,
    }
    return lambda _: Written("sentence_transformers.models.Pooling", config)


POOLING_MODES = (
    "cls_token",
    "mean_tokens",
    "max_tokens",
    "mean_sqrt_len_tokens",
    "weightedmean_tokens",
    "lasttoken",
)


def dense(inputs: int, outputs: int, bias: bool = True, activation: str = TANH) -> Module:
    config = {
        "in_features": inputs,
        "out_features": outputs,
        "bias": bias,
        "activation_function": activation,
    }
    return lambda parameters: Written(
        "sentence_transformers.models.Dense",
        config,
        parameters.linear("linear", inputs, outputs, bias),
    )


def layer_norm(width: int) -> Module:
    return lambda parameters: Written(
        "sentence_transformers.models.LayerNorm",
        {"dimension": width},
        parameters.norm("norm", width),
    )


def splade_pooling(strategy: str, activation: str, width: int | None = None) -> Module:
    config = {
        "pooling_strategy": strategy,
        "activation_function": activation,
        "word_embedding_dimension": width,
    }
    return lambda _: Written("sentence_transformers.sparse_encoder.models.SpladePooling", config)


def normalize(_: Parameters) -> Written:
    return Written("sentence_transformers.models.Normalize")


# As saved from version 6 on.


def transformer_6(task: str, output: str, method_output: str = "last_hidden_state") -> Module:
    config = {
        "transformer_task": task,
        "modality_config": {"text": {"method": "forward", "method_output_name": method_output}},
        "module_output_name": output,
    }
    return lambda _: Written("sentence_transformers.base.modules.transformer.Transformer", config)


def pooling_6(mode: str, width: int, include_prompt: bool = True) -> Module:
    config = {
        "embedding_dimension": width,
        "pooling_mode": mode,
        "include_prompt": include_prompt,
    }
    return lambda _: Written(
        "sentence_transformers.sentence_transformer.modules.pooling.Pooling", config
    )


def dense_6(
    inputs: int, outputs: int, activation: str, reads: str, writes: str | None = None
) -> Module:
    config = {
        "in_features": inputs,
        "out_features": outputs,
        "bias": True,
        "activation_function": activation,
        "module_input_name": reads,
        "module_output_name": writes or reads,
    }
    return lambda parameters: Written(
        "sentence_transformers.base.modules.dense.Dense",
        config,
        parameters.linear("linear", inputs, outputs),
    )


def splade_pooling_6(strategy: str, activation: str) -> Module:
    config = {
        "pooling_strategy": strategy,
        "activation_function": activation,
        "embedding_dimension": None,
    }
    path = "sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling"
    return lambda _: Written(path, config)
