"""The layers of every family. The keys are those of checkpoint/families.py."""

from collections.abc import Mapping

from engine.families.bert import BERT
from engine.families.family import Family
from engine.families.roberta import ROBERTA

FAMILIES: Mapping[str, Family] = {
    "bert": BERT,
    "roberta": ROBERTA,  # XLM-R too
}
