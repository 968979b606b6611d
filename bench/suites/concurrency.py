"""More and more clients, one text a request."""

from bench.suites.suite import Case, Suite, embed_request

CLIENTS = (1, 2, 4, 8, 16)

SUITE = Suite(
    name="concurrency",
    title="Concurrency: one text a request, more and more clients",
    sizes=(16, 128, 512),
    cases=lambda sizes: [
        Case(clients=clients, inputs=1, tokens=tokens) for tokens in sizes for clients in CLIENTS
    ],
    prepare=embed_request,
)
