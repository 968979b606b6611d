"""Which models are served, by id and alias, and their tokenizers."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from api.model_config import Overrides
from checkpoint.prompts import split_use
from checkpoint.spec import ModelSpec
from checkpoint.tokenizer import TextTokenizer
from transport.messages import JobError
from transport.protocols import JobClient, ServedModel

# A worker that starts, or takes over, announces its model within some seconds; nobody knows more.
_NEXT_WORKER_S = 5.0


class UnknownModel(Exception):
    """No served model has this id or alias."""


class NamedModel(NamedTuple):
    spec: ModelSpec
    use: str | None  # of its prompts, told by the name


class CatalogEntry(NamedTuple):
    spec: ModelSpec
    tokenizer: TextTokenizer


class Catalog:
    """Reads the transport's models; builds each tokenizer once, in a thread.

    `overrides`: what the gateway's operator says of models, by id.
    """

    def __init__(self, client: JobClient, overrides: Overrides | None = None) -> None:
        self._client = client
        self.overrides = overrides or {}
        self._named: tuple[Mapping[str, ServedModel], Mapping[str, ModelSpec]] = ({}, {})
        self._overridden: dict[str, tuple[ModelSpec, ModelSpec]] = {}  # announced, in force
        self._tokenizers: dict[tuple[str, int, int], asyncio.Task[TextTokenizer]] = {}

    async def models(self) -> Mapping[str, ServedModel]:
        """Every known model by its id, those without a live worker too."""
        served = await self._client.models()
        if not self.overrides:
            return served
        return {
            name: model._replace(spec=self._in_force(model.spec)) for name, model in served.items()
        }

    async def find(self, name: str) -> NamedModel:
        """The model of an id or alias, and the use that `-query` or `-document` adds to it.

        An alias that two models have is that of the first by id. Raises UnknownModel.
        """
        models = await self.models()
        if models is not self._named[0]:  # as it is after an announcement
            self._named = models, _names(models)
        names = self._named[1]
        plain, use = split_use(name, names)
        if plain not in names:
            raise UnknownModel
        return NamedModel(names[plain], use)

    async def require_worker(self, spec: ModelSpec) -> None:
        """Raises JobError `not_ready` when no live worker serves the model."""
        served = (await self._client.models()).get(spec.id)
        if served is None or not served.live_workers:
            raise JobError("not_ready", retry_after_s=_NEXT_WORKER_S)

    async def entry(self, spec: ModelSpec) -> CatalogEntry:
        """The model and its tokenizer, built on first use."""
        key = (spec.tokenizer_sha256, spec.max_tokens, spec.vocab_size)
        task = self._tokenizers.get(key)
        if task is None or (task.done() and task.exception() is not None):
            task = self._tokenizers[key] = asyncio.create_task(self._build(spec))
        return CatalogEntry(spec, await asyncio.shield(task))

    async def sole_reranker(self) -> ModelSpec | None:
        """The one scoring model, else the one model there is, else None."""
        specs = [served.spec for served in (await self.models()).values()]
        scoring = [spec for spec in specs if spec.task == "score"]
        candidates = scoring or specs
        return candidates[0] if len(candidates) == 1 else None

    def _in_force(self, announced: ModelSpec) -> ModelSpec:
        override = self.overrides.get(announced.id)
        if override is None:
            return announced
        known = self._overridden.get(announced.id)
        if known is None or known[0] is not announced:
            known = self._overridden[announced.id] = announced, override.apply(announced)
        return known[1]

    async def _build(self, spec: ModelSpec) -> TextTokenizer:
        try:
            data = await self._client.tokenizer(spec.tokenizer_sha256)
        except KeyError:  # the transport lost it: a worker brings it with its next heartbeat
            raise JobError("not_ready") from None
        return await asyncio.to_thread(TextTokenizer, data, spec.max_tokens, spec.vocab_size)


def _names(models: Mapping[str, ServedModel]) -> dict[str, ModelSpec]:
    """What may be asked for: ids before aliases, and of one alias's models the first by id."""
    names = {
        alias: models[known].spec
        for known in sorted(models, reverse=True)
        for alias in models[known].spec.aliases
    }
    return names | {known: model.spec for known, model in models.items()}
