"""The layers of every family. The keys are those of checkpoint/families.py."""

from collections.abc import Mapping

from engine.families.bert import BERT
from engine.families.distilbert import DISTILBERT
from engine.families.family import Family
from engine.families.gemma3 import GEMMA3
from engine.families.llama import LLAMA, LLAMA_BIDIRECTIONAL
from engine.families.modernbert import MODERNBERT
from engine.families.mpnet import MPNET
from engine.families.new import NEW
from engine.families.nomic_bert import NOMIC_BERT
from engine.families.roberta import ROBERTA

FAMILIES: Mapping[str, Family] = {
    "bert": BERT,
    "roberta": ROBERTA,  # XLM-R and CamemBERT too
    "distilbert": DISTILBERT,
    "mpnet": MPNET,
    "nomic_bert": NOMIC_BERT,
    "new": NEW,  # GTE
    "modernbert": MODERNBERT,
    "llama": LLAMA,  # Mistral, Qwen2 and Qwen3 too
    "llama_bidirectional": LLAMA_BIDIRECTIONAL,
    "gemma3": GEMMA3,
}
