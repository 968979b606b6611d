"""One run against one server: check it, then the suites asked for, then the peers."""

from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
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
from bench.options import PEERS_SUITE, Options
from bench.peers import PEERS
from bench.peers.compare import Plan, Tell, compare
from bench.peers.environment import ONNX_DIR, installed_python, packaged_model
from bench.peers.process import PeerProcess
from bench.peers.server import ServerContender
from bench.results import Check, Comparison, Results, Row
from bench.suites import SUITES, scoring
from bench.texts import Texts

_OUR_CLIENTS = (1, 4)


async def run(options: Options, tell: Tell) -> Results:
    """Raises CheckFailed, RequestFailed, PeersMissing or PeerFailed."""
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
        comparison = None
        if PEERS_SUITE in options.suites:
            plan = Plan(texts, options.seed, options.rounds, reference, tell)
            dtype = server.get("dtype", "unknown")
            ours = [ServerContender(client, clients, dtype) for clients in _OUR_CLIENTS]
            comparison = await _compare_with_peers(ours, plan, options.model_dir)
    return Results(
        date=date,
        seed=options.seed,
        url=options.endpoint.base,
        model=client.model,
        server=server,
        machine=machine,
        check=check,
        rows=rows,
        comparison=comparison,
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


async def _compare_with_peers(
    ours: list[ServerContender], plan: Plan, model_dir: Path | None
) -> Comparison:
    python, model_dir = installed_python(), model_dir or packaged_model()
    async with AsyncExitStack() as stack:
        processes = []
        for peer in PEERS:
            plan.tell(f"peers: loading {peer.name} ({peer.dtype})")
            directory = ONNX_DIR if peer.reads_onnx else model_dir
            process = await PeerProcess.start(peer, python, directory)
            stack.push_async_callback(process.close)
            processes.append(process)
        return await compare(ours, processes, plan)
