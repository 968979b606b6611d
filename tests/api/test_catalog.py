"""Models by name, over what their workers announce and the operator says."""

import pytest
from fake_client import FakeClient
from fake_service import EMBED, SCORE, spec_of

from api.catalog import Catalog, UnknownModel
from api.model_config import ModelOverride
from transport.messages import JobError


async def test_model_is_found_by_id_alias_and_use() -> None:
    catalog = Catalog(FakeClient(EMBED, SCORE))
    assert (await catalog.find("org/rank-m")).spec == SCORE
    assert await catalog.find("short-query") == (EMBED, "query")
    with pytest.raises(UnknownModel):
        await catalog.find("none")


async def test_alias_that_two_models_have_is_always_the_first_ones() -> None:
    first, second = spec_of("a", aliases=("both",)), spec_of("b", aliases=("both", "a"))
    for specs in ((first, second), (second, first)):
        catalog = Catalog(FakeClient(*specs))
        assert (await catalog.find("both")).spec.id == "a"
        assert (await catalog.find("a")).spec.id == "a"


async def test_operator_renames_a_model_whenever_it_is_announced() -> None:
    client = FakeClient(EMBED, SCORE)
    catalog = Catalog(client, {EMBED.id: ModelOverride(aliases=("mine",))})
    assert (await catalog.find("mine")).spec.id == EMBED.id
    with pytest.raises(UnknownModel):
        await catalog.find("short")
    assert (await catalog.find(SCORE.id)).spec == SCORE
    client.announce_anew(EMBED.id, revision="r2")
    spec = (await catalog.find("mine")).spec
    assert (spec.revision, spec.aliases) == ("r2", ("mine",))


async def test_smaller_limit_of_the_operator_is_the_tokenizers() -> None:
    catalog = Catalog(FakeClient(EMBED), {EMBED.id: ModelOverride(max_tokens=5)})
    spec = (await catalog.find(EMBED.id)).spec
    entry = await catalog.entry(spec)
    assert entry.tokenizer.encode(["w1 " * 20], truncate=True).lengths.tolist() == [5]


async def test_model_whose_workers_are_gone_is_not_ready_and_stays_known() -> None:
    client = FakeClient(EMBED)
    catalog = Catalog(client)
    await catalog.require_worker(EMBED)
    client.set_live(EMBED.id, 0)
    assert (await catalog.find("short")).spec == EMBED
    with pytest.raises(JobError) as caught:
        await catalog.require_worker(EMBED)
    assert caught.value.code == "not_ready"
    assert caught.value.retry_after_s is not None


async def test_tokenizer_that_the_transport_lost_is_asked_for_again() -> None:
    client = FakeClient(EMBED)
    client.tokenizers.clear()
    catalog = Catalog(client)
    with pytest.raises(JobError, match="not_ready"):
        await catalog.entry(EMBED)
    client.tokenizers = FakeClient(EMBED).tokenizers
    assert (await catalog.entry(EMBED)).spec == EMBED
    asked = client.asked_tokenizers
    await catalog.entry(EMBED)
    assert client.asked_tokenizers == asked
