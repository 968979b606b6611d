"""One run against one server: check it, then the suites asked for."""

from dataclasses import dataclass, field
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
from bench.inputs import Inputs
from bench.machine import describe_machine
from bench.measure import Source, measure
from bench.measure_load import find_peak, measure_rates, peak_per_s
from bench.options import Options
from bench.progress import Bar, kept
from bench.results import Batches, Check, LoadRow, Results, Row
from bench.sent import Sent, choose_inputs
from bench.server_metrics import Scrape, between, scrape_if_told
from bench.suites import SUITES, load, scoring
from bench.suites.suite import within
from bench.texts import Size, Texts


async def run(options: Options, bar: Bar) -> Results:
    """What was measured, with the reason in `ended` where a failure or Ctrl-C ended it.

    Raises CheckFailed, RequestFailed or InputsUnreadable where nothing was.
    """
    machine, date = describe_machine(), datetime.now(UTC).isoformat(timespec="seconds")
    reference = None if options.reference is None else read_reference(options.reference)
    async with Client(options.endpoint) as client:
        server = await _choose_model(client, options.model)
        sent = choose_inputs(options.inputs, server)
        client.model, client.fields = server["id"], sent.fields
        chosen = _Run(options, client, sent, bar)
        check, texts = None, Texts(options.seed)
        if reference is not None:
            bar.tell("check: vectors, scores, token counts")
            check, texts = await chosen.check(reference)
        ended = await kept(
            chosen.measure(texts), lambda: chosen.rows or chosen.loads, RequestFailed
        )
    return Results(
        date=date,
        seed=options.seed,
        url=options.endpoint.base,
        model=client.model,
        server=server,
        machine=machine,
        check=check,
        rows=chosen.rows,
        loads=chosen.loads,
        batches=chosen.batches,
        inputs=sent.about,
        ended=ended,
    )


async def _choose_model(client: Client, model: str | None) -> dict[str, Any]:
    """What the server says of the model; the id alone where it says nothing of that name."""
    listed = await client.models()
    if model is None and len(listed) != 1:
        names = ", ".join(entry["id"] for entry in listed)
        raise RequestFailed(f"the server has {len(listed)} models ({names}): say --model")
    chosen = [entry for entry in listed if model in (None, entry["id"])]
    if chosen or model is None:
        return chosen[0]
    try:
        return await client.described(model)  # an alias
    except RequestFailed:
        return {"id": model}


@dataclass(eq=False)
class _Run:
    options: Options
    client: Client
    sent: Sent
    bar: Bar
    rows: list[Row] = field(default_factory=list)
    loads: list[LoadRow] = field(default_factory=list)
    batches: list[Batches] = field(default_factory=list)

    async def check(self, reference: Reference) -> tuple[Check, Texts]:
        encode = self.sent.source.encode
        check = await check_vectors(self.client, reference, encode)
        if scoring.SUITE.name in self.options.suites:
            await check_scores(self.client, reference)
        sizes = {size for name in self.options.suites for size in self._sizes(name)}
        exact = [size for size in sizes if isinstance(size, int)]
        if sizes == {"corpus"}:  # of whatever lengths they are
            return check, Texts(self.options.seed)
        special_tokens = await count_special_tokens(self.client, exact, encode)
        return check, Texts(self.options.seed, special_tokens)

    async def measure(self, texts: Texts) -> None:
        seed = self.options.seed
        source = Source(self.client, Inputs(texts, self.sent.source, seed))
        todo = [name for name in (*SUITES, load.NAME) if name in self.options.suites]
        for name in todo:
            self.bar.expect(self._cases(name))
        before = await self._scrape()
        for name in todo:
            if name == load.NAME:
                await self._measure_load(source)
            else:
                await self._measure_closed(name, source)
            after = await self._scrape()
            if before and after:
                self._keep(between(name, before, after))
            before = after

    def _sizes(self, name: str) -> tuple[Size, ...]:
        own = load.SIZES if name == load.NAME else SUITES[name].sizes
        return self.options.sizes or within(own, self.sent.limit)

    def _cases(self, name: str) -> int:
        sizes = self._sizes(name)
        if name == load.NAME:
            return len(sizes) * len(self.options.load.rates)
        return len(SUITES[name].cases(sizes))

    async def _measure_closed(self, name: str, source: Source) -> None:
        suite = SUITES[name]
        async for row in measure(suite, self._sizes(name), source, self.options.effort, self.bar):
            case = f"{row.clients} × {row.inputs} × {row.tokens}"
            self.bar.tell(
                f"{name}: {case}: {row.latency.p50_ms:.2f} ms, {row.tokens_per_s:,.0f} tokens/s"
            )
            self.rows.append(row)

    async def _measure_load(self, source: Source) -> None:
        plan, effort = self.options.load, self.options.effort
        for size in self._sizes(load.NAME):
            peak = None
            if any(rate.is_share for rate in plan.rates):
                peaks = await find_peak(plan, size, source, effort, self.bar)
                peak = peak_per_s(peaks)
                self.bar.tell(f"load: {size}: at most {peak:,.1f} requests/s in a closed loop")
                self.rows.extend(peaks)
            async for row in measure_rates(plan, size, peak, source, self.bar):
                p99_ms = row.latency.p99_ms
                ended = "not all ended" if p99_ms is None else f"p99 {p99_ms:.2f} ms"
                self.bar.tell(f"load: {row.rate:,.1f} requests/s: {ended}, {row.refused} refused")
                self.loads.append(row)

    def _keep(self, batches: Batches) -> None:
        """Unless another server's metrics were found, which did not see what was sent."""
        closed = [r.tokens_per_request * r.requests for r in self.rows if r.suite == batches.suite]
        opened = [r.tokens_per_s * r.seconds for r in self.loads if batches.suite == load.NAME]
        if batches.count and (self.options.metrics_urls or batches.tokens >= sum(closed + opened)):
            self.batches.append(batches)

    async def _scrape(self) -> Scrape | None:
        return await scrape_if_told(self.options.metrics_urls, self.options.endpoint.base)
