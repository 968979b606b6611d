"""Gemma's kind of tokenizer: BPE of pieces with ▁ for a space, and bytes for what is in none."""

from reference.sharp_tokenizers import CHARACTERS, WORDS
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE

_SPACE = "▁"


def gemma() -> Tokenizer:
    """`<bos> a <eos>`."""
    specials = ["<pad>", "<eos>", "<bos>", "<unk>"]
    pieces = [*specials, *(f"<0x{byte:02X}>" for byte in range(256)), _SPACE, *CHARACTERS]
    merges = []
    for word in WORDS:
        whole = _SPACE + word
        for end in range(1, len(whole)):
            if whole[: end + 1] not in pieces:
                pieces.append(whole[: end + 1])
                merges.append((whole[:end], whole[end]))
    ids = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", _SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>",
        pair="<bos> $A <eos> <bos>:1 $B:1 <eos>:1",
        special_tokens=[("<bos>", 2), ("<eos>", 1)],
    )
    tokenizer.add_special_tokens(specials)
    return tokenizer
