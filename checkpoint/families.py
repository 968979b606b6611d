"""What is known of model families besides their files: names, positions, templates, dtypes.

The other half of each family, its layers, stands in `engine/families/` under the same key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from checkpoint.rerank_template import QWEN3_RERANKER, RerankTemplate


@dataclass(frozen=True)
class Family:
    """Architectures that share their layers, and where their config.json says what."""

    name: str
    model_types: tuple[str, ...]
    embed: tuple[str, ...]  # an encoder, or one with another head: its hidden states are pooled
    score: tuple[str, ...] = ()  # with a classification head over a query-document pair
    masked_lm: tuple[str, ...] = ()  # with logits over the vocabulary, which SPLADE pools
    causal_lm: tuple[str, ...] = ()  # with logits of the next token, which rerankers compare
    templates: Mapping[str, RerankTemplate] = field(default_factory=dict)  # by causal_lm
    hidden_size: tuple[str, ...] = ("hidden_size",)  # keys of config.json, the first that is there
    positions: tuple[str, ...] = ("max_position_embeddings",)
    most_positions: str | None = None  # a key: how far the operator may go beyond `positions`
    first_position: int | None = 0  # of a learned table; None: pad_token_id + 1
    # By model_type and dtype: what goes wrong there.
    refused_dtypes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def pooled(self) -> tuple[str, ...]:
        """Architectures whose hidden states can be pooled."""
        return (*self.embed, *self.masked_lm, *self.causal_lm)


_OVERFLOWS = {"float16": "its activations leave float16's range and the vectors become NaN"}

# Of transformers, which sees both ways with the same classes where config.json says so.
_LLAMA_EMBED = ("LlamaModel", "MistralModel", "Qwen2Model", "Qwen3Model")
_LLAMA_SCORE = ("Qwen2ForSequenceClassification", "Qwen3ForSequenceClassification")
_LLAMA_CAUSAL_LM = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
)
_LLAMA_TEMPLATES = {"Qwen3ForCausalLM": QWEN3_RERANKER}

# An architecture of two families is of the first, unless its config.json says otherwise.
FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family(
            "bert",
            model_types=("bert",),
            embed=("BertModel", "BertForPreTraining"),
            score=("BertForSequenceClassification",),
            masked_lm=("BertForMaskedLM",),
        ),
        Family(
            "roberta",
            model_types=("roberta", "xlm-roberta", "camembert"),
            embed=("RobertaModel", "XLMRobertaModel", "CamembertModel"),
            score=(
                "RobertaForSequenceClassification",
                "XLMRobertaForSequenceClassification",
                "CamembertForSequenceClassification",
            ),
            masked_lm=("RobertaForMaskedLM", "XLMRobertaForMaskedLM", "CamembertForMaskedLM"),
            first_position=None,
        ),
        Family(
            "distilbert",
            model_types=("distilbert",),
            embed=("DistilBertModel",),
            score=("DistilBertForSequenceClassification",),
            masked_lm=("DistilBertForMaskedLM",),
            hidden_size=("dim",),
        ),
        Family(
            "mpnet",
            model_types=("mpnet",),
            embed=("MPNetModel",),
            masked_lm=("MPNetForMaskedLM",),
            first_position=2,  # whatever pad_token_id says
        ),
        Family(
            "nomic_bert",
            model_types=("nomic_bert",),
            embed=("NomicBertModel", "NomicBertForPreTraining"),
            hidden_size=("hidden_size", "n_embd"),
            positions=("max_trained_positions", "max_position_embeddings", "n_positions"),
            most_positions="n_positions",
        ),
        Family(
            "new",
            model_types=("new", "gte"),
            # gte-multilingual-base names the class that weighs tokens, and is pooled all the same.
            embed=("NewModel", "NewForTokenClassification", "GteModel"),
            score=("NewForSequenceClassification", "GteForSequenceClassification"),
            masked_lm=("NewForMaskedLM",),
        ),
        Family(
            "modernbert",
            model_types=("modernbert",),
            embed=("ModernBertModel",),
            score=("ModernBertForSequenceClassification",),
            masked_lm=("ModernBertForMaskedLM",),
        ),
        Family(
            "llama",
            model_types=("llama", "mistral", "qwen2", "qwen3"),
            embed=_LLAMA_EMBED,
            score=_LLAMA_SCORE,
            causal_lm=_LLAMA_CAUSAL_LM,
            templates=_LLAMA_TEMPLATES,
        ),
        Family(
            "llama_bidirectional",
            model_types=("bidirectional_pplx_qwen3", "llama_bidirec"),
            embed=(
                "PPLXQwen3Model",
                "PPLXQwen3ContextualModel",
                "LlamaBidirectionalModel",
                *_LLAMA_EMBED,
            ),
            score=_LLAMA_SCORE,
            causal_lm=_LLAMA_CAUSAL_LM,
            templates=_LLAMA_TEMPLATES,
            refused_dtypes={"bidirectional_pplx_qwen3": _OVERFLOWS},
        ),
        Family(
            "gemma3",
            model_types=("gemma3_text",),
            embed=("Gemma3TextModel",),
            refused_dtypes={"gemma3_text": _OVERFLOWS},
        ),
    )
}
