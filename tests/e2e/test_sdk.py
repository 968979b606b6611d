"""The real OpenAI SDK against a real server."""

import base64
from collections.abc import Iterator

import numpy as np
import openai
import pytest
from openai import OpenAI
from server_process import ServerProcess

MODEL = "all-MiniLM-L6-v2"
# Known cosines of these three (sentence-transformers' model card).
SENTENCES = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
]


@pytest.fixture
def sdk(server: ServerProcess) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def vectors(sdk: OpenAI, value: object, **options: object) -> np.ndarray:
    response = sdk.embeddings.create(model=MODEL, input=value, **options)  # type: ignore[call-overload]
    # A float answer is the shortest decimal of the same float32 that base64 carries.
    return np.array([item.embedding for item in response.data], np.float32)


def test_default_call_gives_the_known_cosines(sdk: OpenAI) -> None:
    rows = vectors(sdk, SENTENCES)
    cosines = rows @ rows.T
    known = [cosines[0, 1], cosines[0, 2], cosines[1, 2]]
    np.testing.assert_allclose(known, [0.6660, 0.1046, 0.1411], atol=5e-5)


def test_floats_equal_the_default_base64(sdk: OpenAI) -> None:
    np.testing.assert_array_equal(
        vectors(sdk, SENTENCES), vectors(sdk, SENTENCES, encoding_format="float")
    )


def test_explicit_base64_is_given_untouched(sdk: OpenAI) -> None:
    response = sdk.embeddings.create(model=MODEL, input="a", encoding_format="base64")
    data = base64.b64decode(response.data[0].embedding)  # type: ignore[arg-type]
    np.testing.assert_allclose(np.frombuffer(data, "<f4"), vectors(sdk, "a")[0])


def test_native_dimensions_are_accepted_and_others_refused(sdk: OpenAI) -> None:
    assert vectors(sdk, "a", dimensions=384).shape == (1, 384)
    with pytest.raises(openai.BadRequestError, match="does not support specifying dimensions"):
        sdk.embeddings.create(model=MODEL, input="a", dimensions=256)


def test_cl100k_ids_give_the_vector_of_their_text(sdk: OpenAI) -> None:
    ids = [15339, 1917]  # "hello world" in cl100k_base
    expected = vectors(sdk, "hello world")
    np.testing.assert_allclose(vectors(sdk, ids), expected, atol=1e-6)
    np.testing.assert_allclose(vectors(sdk, [ids, ids]), np.vstack([expected] * 2), atol=1e-6)


def test_native_ids_are_used_as_given(sdk: OpenAI) -> None:
    ids = [101, 7592, 2088, 102]  # [CLS] hello world [SEP]
    rows = vectors(sdk, ids, extra_body={"token_input": "native"})
    np.testing.assert_allclose(rows, vectors(sdk, "hello world"), atol=1e-6)


def test_usage_counts_real_tokens(sdk: OpenAI) -> None:
    response = sdk.embeddings.create(model=MODEL, input=["hello world", "hello"])
    assert response.usage.prompt_tokens == response.usage.total_tokens == 7


def test_two_thousand_and_forty_eight_inputs_in_one_call(sdk: OpenAI) -> None:
    texts = [f"number {i}" for i in range(2048)]
    response = sdk.embeddings.create(model=MODEL, input=texts)
    assert [item.index for item in response.data] == list(range(2048))
    rows = np.array([item.embedding for item in response.data])
    np.testing.assert_allclose(rows[1234], vectors(sdk, texts[1234])[0], atol=2e-5)
    with pytest.raises(openai.BadRequestError, match="2048 or less"):
        sdk.embeddings.create(model=MODEL, input=[*texts, "one more"])


def test_model_is_found_by_id_and_alias(sdk: OpenAI) -> None:
    listed = {model.id for model in sdk.models.list()}
    assert listed == {"sentence-transformers/all-MiniLM-L6-v2", "sharp-reranker"}
    for name in (*listed, MODEL, "reranker"):
        assert sdk.models.retrieve(name).id in listed


def test_errors_are_the_sdks_own_types_with_our_message(sdk: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="The model `gpt-9` does not exist") as missing:
        sdk.embeddings.create(model="gpt-9", input="a")
    assert missing.value.code == "model_not_found"
    assert missing.value.request_id is not None
    with pytest.raises(openai.BadRequestError, match="maximum context length is 256") as long:
        sdk.embeddings.create(model=MODEL, input=["a", "word " * 300])
    assert (long.value.code, long.value.param) == ("context_length_exceeded", "input[1]")
    with pytest.raises(openai.BadRequestError, match="is invalid"):
        sdk.embeddings.create(model=MODEL, input=[])
    with pytest.raises(openai.APIStatusError, match="Maximum content size") as large:
        sdk.embeddings.create(model=MODEL, input="a" * 27_000_000)
    assert large.value.status_code == 413


def test_truncation_is_opted_into_and_told(sdk: OpenAI) -> None:
    raw = sdk.embeddings.with_raw_response.create(
        model=MODEL, input=["a", "word " * 300], extra_body={"truncate": True}
    )
    assert raw.headers["x-florilege-truncated"] == "1"
    assert raw.headers["x-florilege-dtype"] == "float32"
    assert raw.parse().usage.prompt_tokens == 3 + 256
