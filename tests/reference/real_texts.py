"""What the models with real weights are asked: some of `package_texts`."""

from reference import package_texts

EVERY = 25  # of each language
PROMPTS = ("query: ", "passage: ")  # in turn


def e5() -> list[str]:
    """200 texts in four languages, with the model's prompts; some are over its limit."""
    return [
        PROMPTS[i % 2] + text
        for texts in package_texts.read().values()
        for i, text in enumerate(texts[::EVERY])
    ]


def splade() -> list[str]:
    """100 English texts."""
    return list(package_texts.read()["en"][:100])
