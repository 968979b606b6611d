"""Larger and larger requests: from which size on a server is as fast as it gets."""

from bench.suites.suite import Case, Suite, embed_request

CLIENTS = 2  # the next request waits when one is done, and most batches are of one
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

SUITE = Suite(
    name="batching",
    title=f"Batching: more and more texts a request, {CLIENTS} clients",
    sizes=(128,),
    cases=lambda sizes: [
        Case(clients=CLIENTS, inputs=texts, tokens=tokens) for tokens in sizes for texts in TEXTS
    ],
    prepare=embed_request,
    fewest=6 * CLIENTS,
)
