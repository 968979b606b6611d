"""The batches that a server forms, by its own metrics: what two scrapes differ in."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from bench.client import RequestFailed
from bench.results import Batches

TOKENS, SEQUENCES = "florilege_batch_tokens", "florilege_batch_size"
_ADMIN_PORT = 8001
_TIMEOUT = aiohttp.ClientTimeout(total=5.0)


@dataclass(frozen=True)
class Scrape:
    """Batches counted so far, over all models and processes."""

    tokens: float = 0.0
    by_tokens: Counter[int] = field(default_factory=Counter)  # by upper bound
    by_sequences: Counter[int] = field(default_factory=Counter)

    def __add__(self, other: Self) -> "Scrape":
        return Scrape(
            self.tokens + other.tokens,
            self.by_tokens + other.by_tokens,
            self.by_sequences + other.by_sequences,
        )


def default_metrics_url(url: str) -> str:
    """Where `florilege serve` has its metrics by default."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return urlunsplit((parts.scheme, f"{host}:{_ADMIN_PORT}", "/metrics", "", ""))


async def scrape_if_told(urls: Sequence[str], server_url: str) -> Scrape | None:
    """Of `urls`; without any, of the admin port of the server's host, and None if it tells none.

    Raises RequestFailed where `urls` do not answer.
    """
    if urls:
        return await scrape(urls)
    try:
        return await scrape([default_metrics_url(server_url)])
    except RequestFailed:
        return None


async def scrape(urls: Sequence[str]) -> Scrape:
    """Their sum. Raises RequestFailed."""
    total = Scrape()
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        for url in urls:
            try:
                async with session.get(url) as response:
                    response.raise_for_status()
                    total += read(await response.text())
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                raise RequestFailed(f"metrics at {url}: {error!r}") from error
    return total


def read(page: str) -> Scrape:
    """Raises ValueError for what is no page of metrics."""
    tokens = 0.0
    below: dict[str, Counter[int]] = {TOKENS: Counter(), SEQUENCES: Counter()}
    for family in text_string_to_metric_families(page):
        if family.name not in below:
            continue
        for sample in family.samples:
            if sample.name == f"{TOKENS}_sum":
                tokens += sample.value
            elif sample.name == f"{family.name}_bucket" and sample.labels["le"] != "+Inf":
                below[family.name][int(float(sample.labels["le"]))] += int(sample.value)
    return Scrape(tokens, _apart(below[TOKENS]), _apart(below[SEQUENCES]))


def between(suite: str, before: Scrape, after: Scrape) -> Batches:
    by_tokens = after.by_tokens - before.by_tokens
    by_sequences = after.by_sequences - before.by_sequences
    return Batches(
        suite=suite,
        count=by_tokens.total(),
        tokens=after.tokens - before.tokens,
        by_tokens=dict(sorted(by_tokens.items())),
        by_sequences=dict(sorted(by_sequences.items())),
    )


def _apart(cumulative: Counter[int]) -> Counter[int]:
    """A histogram of Prometheus counts all up to each bound."""
    apart: Counter[int] = Counter()
    before = 0
    for bound in sorted(cumulative):
        apart[bound] = cumulative[bound] - before
        before = cumulative[bound]
    return apart
