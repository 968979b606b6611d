"""What is known of model families besides their files: architectures, positions, prompts.

The other half of each family, its layers, stands in `engine/families/` under the same key.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from checkpoint.spec import Task


@dataclass(frozen=True)
class Family:
    """Architectures that share their layers, as config.json names them."""

    name: str
    embed: tuple[str, ...]  # a bare encoder: its hidden states are pooled
    score: tuple[str, ...]  # with a classification head over a query-document pair
    positions_after_padding: bool = False  # the first position is pad_token_id + 1, not 0

    def task_of(self, architecture: str) -> Task | None:
        if architecture in self.embed:
            return "embed"
        return "score" if architecture in self.score else None


FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family(
            name="bert",
            embed=("BertModel",),
            score=("BertForSequenceClassification",),
        ),
        Family(
            name="roberta",
            embed=("RobertaModel", "XLMRobertaModel", "CamembertModel"),
            score=(
                "RobertaForSequenceClassification",
                "XLMRobertaForSequenceClassification",
                "CamembertForSequenceClassification",
            ),
            positions_after_padding=True,
        ),
    )
}

_E5 = {"query": "query: ", "passage": "passage: "}
_SEARCH = {"query": "Represent this sentence for searching relevant passages: "}

# Models whose repositories came without prompts, by the last element of the id in lower case.
PROMPTS: Mapping[str, Mapping[str, str]] = {
    **{f"e5-{size}": _E5 for size in ("small", "base", "large")},
    **{f"e5-{size}-v2": _E5 for size in ("small", "base", "large")},
    **{f"multilingual-e5-{size}": _E5 for size in ("small", "base", "large")},
    **{f"bge-{size}-en-v1.5": _SEARCH for size in ("small", "base", "large")},
    **{f"snowflake-arctic-embed-{size}": _SEARCH for size in ("xs", "s", "m", "l")},
    "mxbai-embed-large-v1": _SEARCH,
}
