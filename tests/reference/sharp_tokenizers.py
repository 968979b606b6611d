"""Small tokenizers of the real kinds, over one hand-made vocabulary."""

import string
from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram, WordPiece

_TEXT = """
river stone garden window letter market winter summer music paper silver golden
mountain valley morning evening doctor teacher student captain engine signal number
the of and to in for with on at from by about into over after under between through
runs walks speaks writes reads builds carries finds keeps leaves holds brings turns
"""
WORDS = tuple(_TEXT.split())
CHARACTERS = string.ascii_lowercase + string.digits + ".,;:!?'-éжあ語"
_ENDINGS = ("s", "ed", "ing", "er", "ly", "est")


def bert() -> Tokenizer:
    """BERT's: `[CLS] a [SEP]`, and `[CLS] a [SEP] b [SEP]` with type 1 from b on."""
    tokenizer = word_piece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def word_piece(specials: Sequence[str]) -> Tokenizer:
    """Lower-cased pieces without a post-processor; `specials` below all other ids."""
    pieces = [*specials, *CHARACTERS, *WORDS]
    pieces += [
        f"##{piece}" for piece in (*CHARACTERS, *_ENDINGS) if piece not in string.punctuation
    ]
    ids = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(specials))
    return tokenizer


def unigram() -> Tokenizer:
    """XLM-R's: `<s> a </s>`, and `<s> a </s></s> b </s>` with type 0 throughout."""
    return _unigram(["<s>", "<pad>", "</s>", "<unk>"])


def camembert() -> Tokenizer:
    """As XLM-R's, with other ids of the special tokens, but for <pad> and <unk>."""
    unused = ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]
    return _unigram([unused[0], "<pad>", unused[1], "<unk>", unused[2], "<s>", "</s>"])


def _unigram(specials: list[str]) -> Tokenizer:
    pieces = [(piece, 0.0) for piece in specials]
    pieces += [(f"▁{word}", -5 - i / 64) for i, word in enumerate(WORDS)]
    pieces += [(piece, -7 - i / 8) for i, piece in enumerate(("▁", *_ENDINGS[1:]))]
    pieces += [(character, -9 - i / 64) for i, character in enumerate(CHARACTERS)]
    pieces.append(("<mask>", 0.0))
    tokenizer = Tokenizer(Unigram(pieces, unk_id=3, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always"),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[(token, specials.index(token)) for token in ("<s>", "</s>")],
    )
    tokenizer.add_special_tokens([*specials, "<mask>"])
    return tokenizer


def byte_level_bpe() -> Tokenizer:
    """RoBERTa's: `<s> a </s>`, and `<s> a </s></s> b </s>`; words with the space before them."""
    tokenizer = byte_level(first=["<s>", "<pad>", "</s>", "<unk>"], last=["<mask>"])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return tokenizer


def byte_level(
    first: Sequence[str], last: Sequence[str], bare_words: Sequence[str] = ()
) -> Tokenizer:
    """BPE of bytes without a post-processor; special tokens below and above all other ids.

    `WORDS` are one piece each with the space before them, `bare_words` without one.
    """
    space = "Ġ"  # how the byte-level alphabet writes a space
    pieces = [*first, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges = []
    for word in (*(space + word for word in WORDS), *bare_words):
        for end in range(1, len(word)):
            left, right = word[:end], word[end]
            if left + right not in pieces:
                pieces.append(left + right)
                merges.append((left, right))
    ids = {piece: i for i, piece in enumerate([*pieces, *last])}
    tokenizer = Tokenizer(BPE(ids, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*first, *last])
    return tokenizer
