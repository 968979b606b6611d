"""One client, one query and its documents a request."""

from bench.client import Client
from bench.inputs import Inputs
from bench.load import Request
from bench.suites.suite import Case, Suite

DOCUMENTS = (5, 25, 50)
QUERY_TOKENS = 16


def _prepare(client: Client, inputs: Inputs, case: Case) -> Request:
    query = inputs.text_of(QUERY_TOKENS)
    documents = [inputs.text_of(case.tokens) for _ in range(case.inputs)]

    async def send() -> int:
        return (await client.rerank(query, documents)).tokens

    return send


SUITE = Suite(
    name="scoring",
    title=f"Scoring: documents against a query of {QUERY_TOKENS} tokens, one client",
    sizes=(512,),
    cases=lambda sizes: [
        Case(clients=1, inputs=documents, tokens=tokens)
        for tokens in sizes
        for documents in DOCUMENTS
    ],
    prepare=_prepare,
)
