"""Qwen3-Reranker's prompt, as the model's card assembles it.

The parts around query and document are tokenized on their own and are never cut.
"""

from typing import Any

INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
PREFIX = (
    "<|im_start|>system\n"
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def prompt(tokenizer: Any, query: str, document: str, max_tokens: int) -> list[int]:
    """Ids of a pair; `tokenizer` is one of transformers'."""
    prefix, suffix = (
        tokenizer(part, add_special_tokens=False)["input_ids"] for part in (PREFIX, SUFFIX)
    )
    body = f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}"
    room = max_tokens - len(prefix) - len(suffix)
    encoded = tokenizer(body, add_special_tokens=False, truncation=True, max_length=room)
    return [*prefix, *encoded["input_ids"], *suffix]
