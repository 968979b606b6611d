"""What a gateway's operator may say of a model, and what of it is refused."""

from pathlib import Path

import pytest
from fake_service import EMBED, spec_of

from api.model_config import ModelConfigError, ModelOverride, read_model_config


def write(directory: Path, text: str) -> Path:
    path = directory / "models.toml"
    path.write_text(text)
    return path


def test_file_says_prompts_aliases_and_limits_by_model_id(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        ["org/embed-m"]
        aliases = ["text-embedding-3-small", "other"]
        max_tokens = 16
        default_prompt = "query"
        prompts = { query = "query: ", document = "" }

        [plain]
        instruction = "Judge."
        """,
    )
    overrides = read_model_config(path)
    assert set(overrides) == {"org/embed-m", "plain"}
    spec = overrides["org/embed-m"].apply(EMBED)
    assert spec.aliases == ("text-embedding-3-small", "other")
    assert (spec.max_tokens, spec.max_tokens_source) == (16, "--model-config")
    assert (dict(spec.prompts), spec.default_prompt) == (
        {"query": "query: ", "document": ""},
        "query",
    )
    assert overrides["plain"].apply(EMBED).instruction == "Judge."


def test_what_is_left_out_stays_as_announced() -> None:
    assert ModelOverride().apply(EMBED) == EMBED


def test_limit_never_rises_above_the_workers() -> None:
    assert ModelOverride(max_tokens=EMBED.max_tokens + 1).apply(EMBED) == EMBED


def test_new_prompts_leave_no_default_of_the_old_ones() -> None:
    spec = spec_of("m", prompts={"query": "q: "}, default_prompt="query")
    assert ModelOverride(prompts={"passage": "p: "}).apply(spec).default_prompt is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[m]\nalias = ['a']", "m.alias"),
        ("[m]\nmax_tokens = 0", "m.max_tokens"),
        ("[m]\nmax_tokens = '9'", "m.max_tokens"),
        ("[m]\naliases = 'a'", "m.aliases"),
        ("[m]\ndefault_prompt = 'query'", "default_prompt names none"),
        ("[m]\nprompts = { query = 5 }", "m.prompts"),
        ("m = 1", "models.toml: m:"),
        ("[m", "models.toml"),
    ],
)
def test_file_that_makes_no_sense_is_refused_by_its_place(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(ModelConfigError, match=reason):
        read_model_config(write(tmp_path, text))


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelConfigError, match=r"none\.toml"):
        read_model_config(tmp_path / "none.toml")
