"""What a causal LM is asked to judge a pair: the template, and the parts it is tokenized in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from checkpoint.errors import UnsupportedCheckpoint

_PLACEHOLDER = re.compile(r"\{(instruction|query|document)\}")


@dataclass(frozen=True)
class RerankTemplate:
    """A published reranker's. `yes` and `no` are the tokens whose logits are compared."""

    models: str  # of ids, their last element in lower case
    text: str
    instruction: str  # where the request has none
    yes: str = "yes"
    no: str = "no"


QWEN3_RERANKER = RerankTemplate(
    models="qwen3-reranker-*",
    # https://huggingface.co/Qwen/Qwen3-Reranker-0.6B, "Transformers usage"
    text=(
        "<|im_start|>system\n"
        "Judge whether the Document meets the requirements based on the Query and the Instruct "
        'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
        "<|im_start|>user\n"
        "<Instruct>: {instruction}\n"
        "<Query>: {query}\n"
        "<Document>: {document}"
        "<|im_end|>\n"
        "<|im_start|>assistant\n"
        "<think>\n\n</think>\n\n"
    ),
    instruction="Given a web search query, retrieve relevant passages that answer the query",
)


@dataclass(frozen=True)
class TemplatedQuery:
    """What all documents of a call are asked with."""

    template: str
    instruction: str
    query: str


@dataclass(frozen=True)
class TemplateParts:
    """A template as its model's authors tokenize it: three texts, each on its own.

    Names of special tokens are special in `prefix` and `suffix`, which are never cut. Between them
    stands one text, which the document ends.
    """

    prefix: str  # the lines above the one with the first placeholder
    head: tuple[str, ...]  # literal, placeholder, literal, … up to the document
    suffix: str  # all behind the document

    def before_document(self, asked: TemplatedQuery) -> str:
        values: Mapping[str, str] = {"instruction": asked.instruction, "query": asked.query}
        # Not str.format: a query may hold braces, and even the name of a placeholder.
        return "".join(values[part] if i % 2 else part for i, part in enumerate(self.head))


@cache
def template_parts(template: str) -> TemplateParts:
    """Raises UnsupportedCheckpoint unless the document comes last and the query is there."""
    parts = _PLACEHOLDER.split(template)
    names = parts[1::2]
    if names.count("document") != 1 or names[-1] != "document" or "query" not in names:
        raise UnsupportedCheckpoint(
            f"a template must hold {{query}} and, last, {{document}}, not {names}"
        )
    above, line_break, start = parts[0].rpartition("\n")
    return TemplateParts(above + line_break, (start, *parts[1:-2]), parts[-1])
