"""The head of a masked language model: hidden states to a logit for each token id."""

from dataclasses import dataclass

from torch import Tensor

from engine.heads.head import Backbone
from engine.linear import Linear
from engine.norm import LayerNorm, Norm
from engine.settings import Config, required


@dataclass(frozen=True)
class MlmHead:
    """Where a family keeps it: names of tensors, and keys of config.json."""

    dense: str
    norm: str
    decoder: str
    biases: tuple[str, ...]  # of the decoder: the first that is there
    embeddings: str  # the decoder's matrix where it has none of its own
    hidden_act: str | None = None  # a key; None: GELU whatever the other layers have
    eps: str | float = "layer_norm_eps"  # a key, or the value
    default_eps: float | None = None  # where config.json lacks the key; None: refused
    dense_bias: str | None = None  # a key that says whether there is one; None: there is
    norm_bias: str | None = None


_WORDS = "embeddings.word_embeddings.weight"

BERT_LM = MlmHead(
    dense="cls.predictions.transform.dense",
    norm="cls.predictions.transform.LayerNorm",
    decoder="cls.predictions.decoder",
    biases=("cls.predictions.bias", "cls.predictions.decoder.bias"),
    embeddings=_WORDS,
    hidden_act="hidden_act",
)
ROBERTA_LM = MlmHead(  # and MPNet's
    dense="lm_head.dense",
    norm="lm_head.layer_norm",
    decoder="lm_head.decoder",
    biases=("lm_head.bias", "lm_head.decoder.bias"),
    embeddings=_WORDS,
)
DISTILBERT_LM = MlmHead(
    dense="vocab_transform",
    norm="vocab_layer_norm",
    decoder="vocab_projector",
    biases=("vocab_projector.bias",),
    embeddings=_WORDS,
    hidden_act="activation",
    eps=1e-12,
)
MODERNBERT_LM = MlmHead(
    dense="head.dense",
    norm="head.norm",
    decoder="decoder",
    biases=("decoder.bias",),
    embeddings="embeddings.tok_embeddings.weight",
    hidden_act="classifier_activation",
    eps="norm_eps",
    default_eps=1e-5,
    dense_bias="classifier_bias",
    norm_bias="norm_bias",
)


@dataclass(frozen=True, eq=False)
class MaskedLm:
    dense: Linear  # the activation is its own
    norm: Norm
    decoder: Linear  # [T, H] -> [T, V]
    vocabulary: int  # V

    def states(self, hidden: Tensor) -> Tensor:
        """[T, H] -> [T, H], what the decoder reads."""
        return self.norm(self.dense(hidden))


def load_masked_lm(backbone: Backbone, names: MlmHead) -> MaskedLm:
    config, weights, width = backbone.config, backbone.weights, backbone.width
    kernels = backbone.kernels
    dense = kernels.linear(
        weights.take(f"{names.dense}.weight", width, width),
        _bias(backbone, names.dense, names.dense_bias),
        "gelu" if names.hidden_act is None else config.get(names.hidden_act, "gelu"),
    )
    norm_bias = _bias(backbone, names.norm, names.norm_bias)
    norm = LayerNorm(
        weights.take(f"{names.norm}.weight", width).to(kernels.dtype),
        None if norm_bias is None else norm_bias.to(kernels.dtype),
        _eps(config, names),
    )
    weight, bias = _decoder(backbone, names)
    return MaskedLm(dense, norm, kernels.linear(weight, bias), weight.size(0))


def _bias(backbone: Backbone, name: str, key: str | None) -> Tensor | None:
    if key is not None and not backbone.config.get(key):
        return None
    return backbone.weights.take(f"{name}.bias", backbone.width)


def _eps(config: Config, names: MlmHead) -> float:
    if not isinstance(names.eps, str):
        return names.eps
    if names.default_eps is not None and names.eps not in config:
        return names.default_eps
    return float(required(config, names.eps))


def _decoder(backbone: Backbone, names: MlmHead) -> tuple[Tensor, Tensor]:
    """Weight [V, H] and bias [V]; the embeddings are the weight unless config.json denies it."""
    weights = backbone.weights
    tied = backbone.config.get("tie_word_embeddings", True)
    matrix = names.embeddings if tied else f"{names.decoder}.weight"
    weight = weights.take(matrix, -1, backbone.width)
    bias = next((name for name in names.biases if name in weights), names.biases[0])
    taken = weight, weights.take(bias, weight.size(0))
    for copy in (f"{names.decoder}.", *names.biases):  # ties that were saved twice
        weights.ignore(copy)
    return taken
