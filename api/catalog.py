"""Which models are served, by id and alias, and their tokenizers."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from checkpoint.prompts import split_use
from checkpoint.spec import ModelSpec
from checkpoint.tokenizer import TextTokenizer
from transport.protocols import JobClient, ServedModel


class UnknownModel(Exception):
    """No served model has this id or alias."""


class NamedModel(NamedTuple):
    spec: ModelSpec
    use: str | None  # of its prompts, told by the name


class CatalogEntry(NamedTuple):
    spec: ModelSpec
    tokenizer: TextTokenizer


class Catalog:
    """Reads the transport's models; builds each tokenizer once, in a thread."""

    def __init__(self, client: JobClient) -> None:
        self._client = client
        self._tokenizers: dict[tuple[str, int, int], asyncio.Task[TextTokenizer]] = {}

    async def models(self) -> Mapping[str, ServedModel]:
        return await self._client.models()

    async def find(self, name: str) -> NamedModel:
        """The model of an id or alias, and the use that `-query` or `-document` adds to it.

        Raises UnknownModel.
        """
        specs = [served.spec for served in (await self._client.models()).values()]
        names = {alias: spec for spec in specs for alias in spec.aliases}
        names |= {spec.id: spec for spec in specs}
        plain, use = split_use(name, names)
        if plain not in names:
            raise UnknownModel
        return NamedModel(names[plain], use)

    async def entry(self, spec: ModelSpec) -> CatalogEntry:
        """The model and its tokenizer, built on first use."""
        key = (spec.tokenizer_sha256, spec.max_tokens, spec.vocab_size)
        task = self._tokenizers.get(key)
        if task is None or (task.done() and task.exception() is not None):
            task = self._tokenizers[key] = asyncio.create_task(self._build(spec))
        return CatalogEntry(spec, await asyncio.shield(task))

    async def sole_reranker(self) -> ModelSpec | None:
        """The one scoring model, else the one model there is, else None."""
        specs = [served.spec for served in (await self._client.models()).values()]
        scoring = [spec for spec in specs if spec.task == "score"]
        candidates = scoring or specs
        return candidates[0] if len(candidates) == 1 else None

    async def _build(self, spec: ModelSpec) -> TextTokenizer:
        data = await self._client.tokenizer(spec.tokenizer_sha256)
        return await asyncio.to_thread(TextTokenizer, data, spec.max_tokens, spec.vocab_size)
