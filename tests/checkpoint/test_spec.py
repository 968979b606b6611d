import json
from dataclasses import replace

from checkpoint.spec import ModelSpec

SPEC = ModelSpec(
    id="org/tiny",
    task="embed",
    family="bert",
    dim=2,
    max_tokens=64,
    max_tokens_source="config.json",
    vocab_size=100,
    tokenizer_sha256="0" * 64,
    revision="commit",
    aliases=("tiny",),
    matryoshka=(2, 1),
    pooling="cls",
    calibration=((-1.0, 1.0), (-0.5, 0.5)),
    score_tokens=(7, 9),
    prompts={"query": "ask: "},
    runtime={"device": "cpu"},
)


def test_spec_survives_its_announcement() -> None:
    assert ModelSpec.from_json(SPEC.to_json()) == SPEC
    plain = replace(SPEC, calibration=None, score_tokens=None)
    assert ModelSpec.from_json(plain.to_json()) == plain


def test_fields_of_a_newer_worker_are_left_out() -> None:
    announced = {**json.loads(SPEC.to_json()), "colour": "blue"}
    assert ModelSpec.from_json(json.dumps(announced).encode()) == SPEC
