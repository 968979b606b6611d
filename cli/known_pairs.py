"""Queries whose relevant text nobody disputes: what a reranker is asked before it serves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkpoint.prompts import templated_query
from checkpoint.spec import ModelSpec
from checkpoint.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from engine.batch import Batch

# A query, and texts of which the first answers it.
_KNOWN: Sequence[tuple[str, tuple[str, ...]]] = (
    (
        "What is the capital of France?",
        (
            "Paris is the capital of France.",
            "Bread is baked from flour, water and salt.",
            "The engine of a truck needs oil.",
        ),
    ),
    (
        "How do plants make sugar?",
        (
            "Plants make sugar from water and carbon dioxide by photosynthesis.",
            "The stock market fell by two percent on Monday.",
            "He tuned his guitar before the concert.",
        ),
    ),
)


def known_pairs(spec: ModelSpec, tokenizer: TextTokenizer) -> list["Batch"]:
    """One batch a query, its relevant text first, framed as requests are."""
    from engine.batch import Batch

    batches = []
    for query, texts in _KNOWN:
        if spec.template is None:
            encoded = tokenizer.encode_pairs(query, texts)
        else:
            encoded = tokenizer.encode_template(templated_query(spec, query), texts)
        batches.append(Batch("score", encoded.input_ids, encoded.lengths, encoded.type_ids))
    return batches
