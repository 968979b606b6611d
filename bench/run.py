"""One run against one server: check it, then the suites asked for."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from bench.client import Client, RequestFailed
from bench.gate import (
    Reference,
    check_scores,
    check_vectors,
    count_special_tokens,
    read_reference,
)
from bench.machine import describe_machine
from bench.measure import Source, measure
from bench.options import Options
from bench.results import Check, Results, Row
from bench.suites import SUITES, scoring
from bench.texts import Texts

Tell = Callable[[str], None]  # what is being done, for whoever waits


async def run(options: Options, tell: Tell) -> Results:
    """Raises CheckFailed or RequestFailed."""
    machine, date = describe_machine(), datetime.now(UTC).isoformat(timespec="seconds")
    reference = None if options.reference is None else read_reference(options.reference)
    async with Client(options.endpoint) as client:
        server = await _choose_model(client, options.model)
        client.model = server["id"]
        check, texts = None, Texts(options.seed)
        if reference is not None:
            tell("check: vectors, scores, token counts")
            check, texts = await _check(client, reference, options)
        rows = await _measure_suites(Source(client, texts), options, tell)
    return Results(
        date=date,
        seed=options.seed,
        url=options.endpoint.base,
        model=client.model,
        server=server,
        machine=machine,
        check=check,
        rows=rows,
    )


async def _choose_model(client: Client, model: str | None) -> dict[str, Any]:
    """What the server says of the model; of one that it does not list, the id alone."""
    listed = await client.models()
    if model is None and len(listed) != 1:
        names = ", ".join(entry["id"] for entry in listed)
        raise RequestFailed(f"the server has {len(listed)} models ({names}): say --model")
    chosen = [entry for entry in listed if model in (None, entry["id"])]
    return chosen[0] if chosen else {"id": model}


async def _check(client: Client, reference: Reference, options: Options) -> tuple[Check, Texts]:
    check = await check_vectors(client, reference)
    if scoring.SUITE.name in options.suites:
        await check_scores(client, reference)
    special_tokens = await count_special_tokens(client, options.sizes)
    return check, Texts(options.seed, special_tokens)


async def _measure_suites(source: Source, options: Options, tell: Tell) -> list[Row]:
    rows = []
    for name, suite in SUITES.items():
        if name not in options.suites:
            continue
        async for row in measure(suite, options.sizes, source, options.effort):
            tell(
                f"{name}: {row.clients} × {row.inputs} × {row.tokens}: {row.latency.p50_ms:.2f} ms"
            )
            rows.append(row)
    return rows
