"""docs/models.md, written from the registry: `python -m cli.models_page`."""

from checkpoint.families import FAMILIES
from checkpoint.known_models import KNOWN_MODELS, WEIGHTS, KnownModel

_HEAD = """# Models

Written by `make docs` from `checkpoint/known_models.py` and `checkpoint/families.py`; a test holds
it true.

Any checkpoint of these families is served as its own files say; this table is of those that people
deploy. *Tested*: `weights` means the model's own weights against sentence-transformers, a name is a
sharp random checkpoint of the same layout (every parameter random and large) against transformers,
with mutants that must miss it. Prompts are the checkpoint's own where it ships some, else these.

| model | family | pooling | tokens | prompts | Matryoshka | tested |
|---|---|---|---|---|---|---|
"""

_FAMILIES_HEAD = """
## Families

| family | architectures |
|---|---|
"""


def models_page() -> str:
    rows = "".join(_row(model) for model in KNOWN_MODELS)
    families = "".join(
        f"| {family.name} | {', '.join(dict.fromkeys((*family.pooled, *family.score)))} |\n"
        for family in FAMILIES.values()
    )
    return _HEAD + rows + _FAMILIES_HEAD + families


def _row(model: KnownModel) -> str:
    cells = (
        f"`{model.id}`",
        model.family,
        model.pooling if model.template is None else "yes/no logits under a template",
        f"{model.max_tokens:,}",
        "<br>".join(f"{name}: {_shown(text)}" for name, text in model.prompts.items()),
        ", ".join(map(str, model.matryoshka)),
        ", ".join("weights" if test == WEIGHTS else test for test in model.tested),
    )
    return f"| {' | '.join(cells)} |\n"


def _shown(text: str) -> str:
    """A prompt as Markdown can hold it, its spaces and line breaks visible."""
    return f"`{text}`".replace("\n", "⏎").replace("|", "\\|") if text else "none"


if __name__ == "__main__":
    print(models_page(), end="")
