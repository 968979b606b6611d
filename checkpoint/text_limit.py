"""How many characters a text may have before it is tokenized at all."""

import json
import re
from dataclasses import dataclass

from checkpoint.characters import Side

# How far runs may lengthen a text. A million characters take a second or two to tokenize.
_MOST_WITH_RUNS = 1_000_000


@dataclass(frozen=True)
class TextLimit:
    """Runs that may be one token, or none, count as one character; what is tokenized is the text.

    Without a limit, a megabyte sent to a model of 512 tokens would be tokenized to be refused. An
    unbroken word is such a run only where the tokenizer calls it unknown by its length alone, as
    WordPiece does: BPE takes it apart, in more than linear time.
    """

    characters: int  # with each run as one
    most: int  # with runs as they are
    runs: re.Pattern[str]

    def kept(self, text: str, side: Side = "right") -> int:
        """How many characters of the text are within the limit, from its start, or from its end
        where `side` is "left"."""
        kept = self.characters
        if len(text) <= kept:
            return len(text)
        text = text[: self.most] if side == "right" else text[: -self.most - 1 : -1]
        for run in self.runs.finditer(text):
            if run.start() >= kept:
                break
            kept += run.end() - run.start() - 1
        return min(kept, len(text))

    def holds(self, text: str) -> bool:
        return self.kept(text) == len(text)


def text_limit(tokenizer_json: bytes, max_tokens: int) -> TextLimit:
    """Of a tokenizer.json that is known to be whole."""
    # A token of 64 characters is rare but in runs; the 1,024 are for tiny limits.
    characters = 64 * max_tokens + 1024
    most = max(characters, min(16 * characters, _MOST_WITH_RUNS))
    runs = r"\s{2,}"
    model = json.loads(tokenizer_json)["model"]
    if model.get("type") == "WordPiece":
        longest = min(model["max_input_chars_per_word"], most)
        # The look-behind keeps the search from beginning anew at each character of a word.
        runs += rf"|(?<![A-Za-z0-9])[A-Za-z0-9]{{{longest + 1},}}"
    return TextLimit(characters, most, re.compile(runs))
