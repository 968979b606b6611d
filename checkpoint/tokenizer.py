"""Text to token ids: the ids the model was trained on."""

from collections.abc import Sequence

from checkpoint.encoded import Encoded, Frame, pack
from checkpoint.errors import (
    CheckpointError,
    EmptyInput,
    InputTooLong,
    InvalidText,
    InvalidTokenId,
    QueryTooLong,
)
from checkpoint.layout import Run, read_layout
from checkpoint.tokenizer_json import load_tokenizer

__all__ = ["Encoded", "TextTokenizer"]


class TextTokenizer:
    """One model's tokenizer. Nothing changes once it is made: threads share it."""

    def __init__(self, tokenizer_json: bytes, max_tokens: int, vocab_size: int) -> None:
        """Raises CheckpointError where tokenizer.json does not fit the model."""
        self.max_tokens = max_tokens
        self.vocab_size = vocab_size
        # BPE takes more than linear time on long unbroken words, so a text is measured first. 64
        # characters a token are more than any text has; the 1,024 are for tiny limits.
        self.max_characters = 64 * max_tokens + 1024
        self._tokenizer = load_tokenizer(tokenizer_json, vocab_size)
        self._single = read_layout(self._tokenizer, texts=1)
        self._pair = read_layout(self._tokenizer, texts=2)
        if self._single.specials >= max_tokens:
            raise CheckpointError(f"{max_tokens} tokens leave no room beside the special tokens")

    def encode(self, texts: Sequence[str], *, prompt: str = "", truncate: bool = False) -> Encoded:
        """`prompt + text` for each text, between the model's special tokens.

        A text that is cut keeps the special token at its end. Raises InputTooLong (unless
        `truncate`), EmptyInput or InvalidText.
        """
        if prompt:
            texts = [prompt + text for text in texts]
        before, after = self._single.gaps
        frame = Frame(before, self._single.text_types[0], after)
        return self._encode_within(frame, texts, truncate, self.max_tokens)

    def encode_pairs(
        self,
        query: str,
        documents: Sequence[str],
        *,
        truncate: bool = True,
        max_document_tokens: int | None = None,
    ) -> Encoded:
        """The query with each document. Only documents are cut, never the query.

        `max_document_tokens` cuts them earlier, `truncate` or not; errors name the document.
        Raises QueryTooLong where not one document token fits, InputTooLong (unless `truncate`),
        EmptyInput or InvalidText.
        """
        before, between, after = self._pair.gaps
        query_type, document_type = self._pair.text_types
        query_ids = self._query_ids(query)
        query_run = Run(query_ids, (query_type,) * len(query_ids))
        frame = Frame(before + query_run + between, document_type, after)
        if frame.tokens >= self.max_tokens:
            raise QueryTooLong(frame.tokens, self.max_tokens)
        most = self.max_tokens if max_document_tokens is None else max_document_tokens
        return self._encode_within(frame, documents, truncate, most)

    def check_native(self, ids: Sequence[Sequence[int]], *, truncate: bool = False) -> Encoded:
        """Ids of this tokenizer, used as given: the caller has put the special tokens there.

        Raises InvalidTokenId for anything but ints in [0, vocab_size), InputTooLong (unless
        `truncate`) or EmptyInput.
        """
        for index, row in enumerate(ids):
            if row and not self._are_ids(row):
                position = next(at for at, token in enumerate(row) if not self._are_ids([token]))
                raise InvalidTokenId(index, position)
        frame = Frame(Run(), 0, Run())
        return self._pack_within(frame, ids, truncate, set())

    def _are_ids(self, row: Sequence[int]) -> bool:
        # By type, since a bool is an int to everything else.
        return set(map(type, row)) == {int} and min(row) >= 0 and max(row) < self.vocab_size

    def _query_ids(self, query: str) -> tuple[int, ...]:
        if len(query) > self.max_characters:
            raise QueryTooLong(None, self.max_tokens)
        (ids,) = self._tokenize([query])
        return tuple(ids)

    def _encode_within(
        self, frame: Frame, texts: Sequence[str], truncate: bool, max_text_tokens: int
    ) -> Encoded:
        shortened = {i for i, text in enumerate(texts) if len(text) > self.max_characters}
        if shortened and not truncate:
            raise InputTooLong(min(shortened), None, self.max_tokens)
        rows = self._tokenize([text[: self.max_characters] for text in texts])
        shortened.update(i for i, row in enumerate(rows) if len(row) > max_text_tokens)
        return self._pack_within(frame, [r[:max_text_tokens] for r in rows], truncate, shortened)

    def _tokenize(self, texts: list[str]) -> list[list[int]]:
        """Ids without special tokens. Releases the GIL."""
        try:
            encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        except TypeError:  # Rust cannot hold a lone surrogate
            index = next(i for i, text in enumerate(texts) if not _is_unicode(text))
            raise InvalidText(index) from None
        return [encoding.ids for encoding in encodings]

    def _pack_within(
        self, frame: Frame, rows: Sequence[Sequence[int]], truncate: bool, shortened: set[int]
    ) -> Encoded:
        room = self.max_tokens - frame.tokens
        over = {i for i, row in enumerate(rows) if len(row) > room}
        if over and not truncate:
            index = min(over)
            raise InputTooLong(index, len(rows[index]) + frame.tokens, self.max_tokens)
        if frame.tokens == 0 and not all(rows):
            raise EmptyInput(next(i for i, row in enumerate(rows) if not row))
        return pack(frame, [row[:room] for row in rows], len(shortened | over))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
