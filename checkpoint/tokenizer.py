"""Text to token ids: the ids the model was trained on."""

import re
from collections.abc import Sequence

import numpy as np

from checkpoint.characters import Side, cut
from checkpoint.encoded import Encoded, Frame, Ids, pack
from checkpoint.errors import (
    CheckpointError,
    EmptyInput,
    InputTooLong,
    InvalidText,
    InvalidTokenId,
    QueryTooLong,
)
from checkpoint.layout import Run, read_layout
from checkpoint.rerank_template import TemplatedQuery, template_parts
from checkpoint.text_limit import text_limit
from checkpoint.tokenizer_json import load_tokenizer

__all__ = ["Encoded", "Side", "TextTokenizer"]


class TextTokenizer:
    """One model's tokenizer. Nothing changes once it is made: threads share it.

    `side` of its methods is where an over-long text is cut, "right" at its end; a character of
    several tokens goes as a whole (see `characters.cut`).
    """

    def __init__(self, tokenizer_json: bytes, max_tokens: int, vocab_size: int) -> None:
        """Raises CheckpointError where tokenizer.json does not fit the model."""
        self.max_tokens = max_tokens
        self.vocab_size = vocab_size
        loaded = load_tokenizer(tokenizer_json, vocab_size)
        self.text_limit = text_limit(tokenizer_json, max_tokens)
        self._tokenizer = loaded.tokenizer
        self._specials = loaded.specials
        self._later_ids = loaded.later_ids
        self._pieces = loaded.pieces
        self._parts_before_space = loaded.parts_before_space
        self._single = read_layout(self._tokenizer, texts=1)
        self._pair = read_layout(self._tokenizer, texts=2)
        if self._single.specials >= max_tokens:
            raise CheckpointError(f"{max_tokens} tokens leave no room beside the special tokens")

    def encode(
        self,
        texts: Sequence[str],
        *,
        prompt: str = "",
        truncate: bool = False,
        max_tokens: int | None = None,
        side: Side = "right",
    ) -> Encoded:
        """`prompt + text` for each text, between the model's special tokens.

        A text that is cut keeps the special tokens around it; on the left it loses its prompt
        first, as with transformers. `max_tokens` cuts sequences to fewer than the model takes,
        `truncate` or not. Raises InputTooLong (unless `truncate`), EmptyInput or
        InvalidText.
        """
        if prompt:
            texts = [prompt + text for text in texts]
        before, after = self._single.gaps
        frame = Frame(before, self._single.text_types[0], after)
        texts, shortened = self._measure(texts, truncate, side)
        rows = self._tokenize(texts)
        if max_tokens is not None:
            most = max(1, max_tokens - frame.tokens)
            shortened.update(i for i, row in enumerate(rows) if len(row) > most)
            rows = [self._cut(row, most, side) for row in rows]
        return self._pack_within(frame, rows, shortened, truncate, side)

    @property
    def specials(self) -> int:
        """How many special tokens stand around a text."""
        return self._single.specials

    def prompt_tokens(self, prompt: str) -> int:
        """How many tokens at the start of a sequence belong to its prompt.

        As sentence-transformers counts them for models that leave them out of the pooling: the
        prompt alone with its special tokens, less a special token at its end. Raises InputTooLong
        or InvalidText.
        """
        if not prompt:
            return 0
        ids = self.encode([prompt]).input_ids
        return int(ids.size) - (int(ids[-1]) in self._specials.values())

    def encode_pairs(
        self,
        query: str,
        documents: Sequence[str],
        *,
        truncate: bool = True,
        max_document_tokens: int | None = None,
        side: Side = "right",
    ) -> Encoded:
        """The query with each document. Only documents are cut, never the query.

        `max_document_tokens` cuts them earlier, `truncate` or not; errors name the document.
        Raises QueryTooLong where not one document token fits, InputTooLong (unless `truncate`),
        EmptyInput or InvalidText.
        """
        before, between, after = self._pair.gaps
        query_type, document_type = self._pair.text_types
        query_ids = tuple(self._query_ids(query).tolist())
        query_run = Run(query_ids, (query_type,) * len(query_ids))
        frame = Frame(before + query_run + between, document_type, after)
        if frame.tokens >= self.max_tokens:
            raise QueryTooLong(frame.tokens, self.max_tokens)
        documents, shortened = self._measure(documents, truncate, side)
        rows = self._tokenize(documents)
        if max_document_tokens is not None:
            shortened.update(i for i, row in enumerate(rows) if len(row) > max_document_tokens)
            rows = [self._cut(row, max_document_tokens, side) for row in rows]
        return self._pack_within(frame, rows, shortened, truncate, side)

    def encode_template(
        self,
        asked: TemplatedQuery,
        documents: Sequence[str],
        *,
        truncate: bool = True,
        max_document_tokens: int | None = None,
        side: Side = "right",
    ) -> Encoded:
        """An LLM reranker's template around each document, tokenized as its authors do.

        That is in three parts (see `template_parts`); the special tokens that surround a single
        text are not put there, since a template names its own. Limits and errors are those of
        `encode_pairs`.
        """
        parts = template_parts(asked.template)
        head = parts.before_document(asked)
        shared, behind = self._parts_of_head(head)
        shared_ids = tuple(self._query_ids(shared).tolist())
        before = self._template_run(parts.prefix) + Run(shared_ids, (0,) * len(shared_ids))
        frame = Frame(before, 0, self._template_run(parts.suffix))
        least = frame.tokens + len(self._query_ids(behind))
        if least >= self.max_tokens:
            raise QueryTooLong(least, self.max_tokens)
        documents, shortened = self._measure(documents, truncate, side)
        texts = [behind + document for document in documents]
        rows = self._tokenize(texts)
        for index, row in enumerate(rows):
            over = truncate and frame.tokens + len(row) > self.max_tokens
            if not over and max_document_tokens is None:
                continue
            start = self._tokens_before(texts[index], len(behind))
            room = max(0, self.max_tokens - frame.tokens - start) if truncate else len(row)
            most = room if max_document_tokens is None else min(room, max_document_tokens)
            if len(row) - start > most:
                rows[index] = np.concatenate([row[:start], self._cut(row[start:], most, side)])
                shortened.add(index)
        return self._pack_within(frame, rows, shortened, truncate, side)

    def check_native(
        self, ids: Sequence[Sequence[int]], *, truncate: bool = False, side: Side = "right"
    ) -> Encoded:
        """Ids of this tokenizer, used as given: the caller has put the special tokens there.

        Raises InvalidTokenId for anything but ints in [0, vocab_size), InputTooLong (unless
        `truncate`) or EmptyInput.
        """
        for index, row in enumerate(ids):
            if row and not self._are_ids(row):
                position = next(at for at, token in enumerate(row) if not self._are_ids([token]))
                raise InvalidTokenId(index, position)
        rows = [np.array(row, np.int32) for row in ids]
        return self._pack_within(Frame(Run(), 0, Run()), rows, set(), truncate, side)

    def _are_ids(self, row: Sequence[int]) -> bool:
        # By type, since a bool is an int to everything else.
        return set(map(type, row)) == {int} and min(row) >= 0 and max(row) < self.vocab_size

    def _query_ids(self, query: str) -> Ids:
        if not self.text_limit.holds(query):
            raise QueryTooLong(None, self.max_tokens)
        (ids,) = self._tokenize([query])
        return ids

    def _parts_of_head(self, head: str) -> tuple[str, str]:
        """What is tokenized once for all documents, and what together with each."""
        if self._parts_before_space and re.search(r"\S \Z", head):
            return head[:-1], " "
        return "", head

    def _template_run(self, text: str) -> Run:
        """The ids of text of a template, where the names of special tokens are special."""
        names = sorted(self._specials, key=len, reverse=True)
        ids: list[int] = []
        for piece in re.split(f"({'|'.join(map(re.escape, names))})", text) if names else [text]:
            ids += (
                [self._specials[piece]]
                if piece in self._specials
                else self._tokenize([piece])[0].tolist()
            )
        return Run(tuple(ids), (0,) * len(ids))

    def _tokens_before(self, text: str, character: int) -> int:
        """How many tokens of a text end before one of its characters begins."""
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return next((i for i, (_, end) in enumerate(offsets) if end > character), len(offsets))

    def _measure(
        self, texts: Sequence[str], truncate: bool, side: Side
    ) -> tuple[list[str], set[int]]:
        """Texts of a length that can be tokenized, and the places of those that were cut to it."""
        kept = [self.text_limit.kept(text, side) for text in texts]
        shortened = {i for i, text in enumerate(texts) if len(text) > kept[i]}
        if shortened and not truncate:
            raise InputTooLong(min(shortened), None, self.max_tokens)
        if side == "left":
            return [
                text[len(text) - most :] for text, most in zip(texts, kept, strict=True)
            ], shortened
        return [text[:most] for text, most in zip(texts, kept, strict=True)], shortened

    def _tokenize(self, texts: list[str]) -> list[Ids]:
        """Ids without special tokens. Releases the GIL."""
        try:
            if self._pieces is None:
                return self._encode(texts)
            found = self._pieces.encode(texts)
            others = iter(
                self._encode([t for t, ids in zip(texts, found, strict=True) if ids is None])
            )
            return [next(others) if ids is None else ids for ids in found]
        # A lone surrogate, which neither Rust nor UTF-8 can hold.
        except (TypeError, UnicodeEncodeError):
            index = next(i for i, text in enumerate(texts) if not _is_unicode(text))
            raise InvalidText(index) from None

    def _encode(self, texts: list[str]) -> list[Ids]:
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def _cut(self, row: Ids, most: int, side: Side) -> Ids:
        return cut(row, most, side, self._later_ids)

    def _pack_within(
        self,
        frame: Frame,
        rows: Sequence[Ids],
        shortened: set[int],
        truncate: bool,
        side: Side,
    ) -> Encoded:
        room = self.max_tokens - frame.tokens
        over = {i for i, row in enumerate(rows) if len(row) > room}
        if over and not truncate:
            index = min(over)
            raise InputTooLong(index, len(rows[index]) + frame.tokens, self.max_tokens)
        if frame.tokens == 0 and not all(map(len, rows)):
            raise EmptyInput(next(i for i, row in enumerate(rows) if not len(row)))
        cut_rows = [self._cut(row, room, side) for row in rows]
        return pack(frame, cut_rows, len(shortened | over))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
