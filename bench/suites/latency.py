"""One client, one text a request."""

from bench.suites.suite import Case, Suite, embed_request

SUITE = Suite(
    name="latency",
    title="Latency: one text a request, one client",
    sizes=(16, 128, 512, 4096),
    cases=lambda sizes: [Case(clients=1, inputs=1, tokens=tokens) for tokens in sizes],
    prepare=embed_request,
)
