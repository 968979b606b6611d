"""Large requests of four clients."""

from bench.suites.suite import Case, Suite, embed_request

CLIENTS, TEXTS = 4, 100

SUITE = Suite(
    name="throughput",
    title=f"Throughput: {TEXTS} texts a request, {CLIENTS} clients",
    sizes=(512, 1024, 4096),
    cases=lambda sizes: [Case(clients=CLIENTS, inputs=TEXTS, tokens=tokens) for tokens in sizes],
    prepare=embed_request,
    fewest=3 * CLIENTS,  # some are of 400,000 tokens
)
