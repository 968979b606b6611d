"""What real processes tell: a gateway and a worker, of themselves and of one trace."""

from pathlib import Path

from deployment import MODEL, deployment
from redis_server import running_redis
from trace_collector import running_collector

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


def test_gateway_and_worker_tell_of_redis_and_send_their_parts_of_a_trace(tmp_path: Path) -> None:
    with (
        running_collector() as collector,
        running_redis() as redis,
        deployment(redis.url, tmp_path) as deployed,
    ):
        gateway = deployed.gateway("--trace-endpoint", collector.url, "--trace-ratio", "0")
        worker = deployed.simulated_worker("--trace-endpoint", collector.url)
        deployed.settle()
        gateway.wait_for(lambda: gateway.metric("florilege_live_workers") == 1)
        with gateway.client() as client:
            body = {"model": MODEL, "input": "a text"}
            traceparent = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
            assert client.post("/v1/embeddings", json=body).status_code == 200
            assert client.post("/v1/embeddings", json=body, headers=traceparent).status_code == 200
        for process, role in ((gateway, "gateway"), (worker, "worker")):
            assert process.metric("florilege_redis_up") == 1, role
            assert process.metric("florilege_redis_op_duration_seconds_count") > 0
            process.wait_for(lambda p=process: p.metric("florilege_loop_lag_seconds_count") > 0)
        assert gateway.metric("florilege_queue_oldest_age_seconds") == 0
        assert worker.metric("florilege_jobs_total") == 2
        assert gateway.stop() == 0  # which sends what is left
        assert worker.stop() == 0
        spans = {(service, span.name): span for service, span in collector.spans()}
        request = spans.pop(("florilege-gateway", "POST /v1/embeddings"))
        job = spans.pop(("florilege-worker", "job"))
        ((service, name),) = spans
        batch = spans[service, name]
        assert (service, name.split()[0]) == ("florilege-worker", "batch")
        assert request.trace_id.hex() == job.trace_id.hex() == TRACE
        assert request.parent_span_id.hex() == SPAN
        assert job.parent_span_id == request.span_id
        assert [link.span_id for link in batch.links] == [request.span_id]
        assert [link.span_id for link in job.links] == [batch.span_id]
