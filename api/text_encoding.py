"""Texts to sequences for a request: prompt, truncation, and what of it is pooled."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from api.prompt_fields import PromptFields, Side
from checkpoint.cl100k import decode_cl100k
from checkpoint.encoded import Encoded
from checkpoint.spec import ModelSpec, TokenInput
from checkpoint.tokenizer import TextTokenizer


@dataclass(frozen=True, eq=False)
class Tokenized:
    """A request's sequences."""

    encoded: Encoded
    # [B]: tokens at the start of each that are not pooled, where the model leaves its prompt out.
    prompt_tokens: NDArray[np.int32] | None = None


@dataclass(frozen=True)
class TextEncoding:
    """How the texts of one request become sequences of one model."""

    spec: ModelSpec
    prompt: str = ""
    truncate: bool = False
    side: Side = "right"
    max_tokens: int | None = None  # fewer than the model's; of a sequence, special tokens included
    max_text_tokens: int | None = None  # the same, special tokens not included

    def texts(self, tokenizer: TextTokenizer, texts: Sequence[str]) -> Tokenized:
        """Raises InputError."""
        most = self.max_tokens
        if self.max_text_tokens is not None:
            most = self.max_text_tokens + tokenizer.specials
        encoded = tokenizer.encode(
            texts, prompt=self.prompt, truncate=self.truncate, max_tokens=most, side=self.side
        )
        if self.spec.include_prompt or not self.prompt:
            return Tokenized(encoded)
        count = tokenizer.prompt_tokens(self.prompt)
        # Of a text so short that nothing is left (none but special tokens), the last is pooled.
        return Tokenized(encoded, np.minimum(encoded.lengths - 1, count).astype(np.int32))

    def token_ids(
        self, tokenizer: TextTokenizer, ids: Sequence[Sequence[int]], policy: TokenInput
    ) -> Tokenized:
        """Native ids as they are, OpenAI's as the text they stand for. Raises InputError."""
        if policy == "native":
            return Tokenized(tokenizer.check_native(ids, truncate=self.truncate, side=self.side))
        return self.texts(tokenizer, [decode_cl100k(row, index) for index, row in enumerate(ids)])


def encoding_of(spec: ModelSpec, fields: PromptFields, prompt: str, truncate: bool) -> TextEncoding:
    """`truncate` is the route's default, where the request says nothing."""
    asked = fields.asked_truncation
    most = fields.truncate_prompt_tokens
    return TextEncoding(
        spec,
        prompt,
        truncate if asked is None else asked,
        fields.side,
        max_tokens=None if most == -1 else most,
    )
