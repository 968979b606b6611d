"""An embeddings server without a model: vectors made from the words, wrong in a chosen way."""

import asyncio
import base64
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np
import orjson
from aiohttp import web
from numpy.typing import NDArray

DIM = 384

Vectors = NDArray[np.float32]
Input = str | list[int]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StubEmbedder:
    """Knows the vectors it is given by text, or by ids, and invents all others.

    `distort` sees the rows of every answer; `special_tokens` are added to each text's words.
    """

    def __init__(self, known: Mapping[str | tuple[int, ...], Vectors]) -> None:
        self.models = ["stub"]
        self.special_tokens = 2
        self.sends_floats = False
        self.fails_on_inputs = 0  # a request of so many texts is refused
        self.max_tokens: int | None = None  # told with the models
        self.hangs_on_words = 0  # a first text of so many is never answered
        self.hung, self._closing = asyncio.Event(), asyncio.Event()
        self.most_at_once: int | None = None  # requests; others are refused
        self.garbage: bytes | None = None  # answered in place of anything else
        self.distort: Callable[[Vectors], Vectors] = lambda rows: rows
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""
        self._known = known
        self._running = 0

    async def __aenter__(self) -> "StubEmbedder":
        app = web.Application(client_max_size=2**26, middlewares=[self._answer])
        app.router.add_get("/v1/models", self._list)
        app.router.add_get("/v1/models/alias", self._describe)
        app.router.add_post("/v1/embeddings", self._embed)
        app.router.add_post("/v1/rerank", self._rerank)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        await self._runner.cleanup()

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.garbage is not None:
            return web.Response(body=self.garbage)
        self._running += 1
        try:
            if self.most_at_once is not None:
                if self._running > self.most_at_once:
                    return _json({"error": {"message": "too many"}}, status=503)
                await asyncio.sleep(0.001)
            return await handler(request)
        finally:
            self._running -= 1

    @property
    def texts(self) -> list[str]:
        """Every text that came, documents included, in order."""
        inputs = [body.get("input", body.get("documents")) for body in self.requests]
        return [text for texts in inputs for text in texts]

    async def _list(self, _: web.Request) -> web.Response:
        return _json({"data": [self._about(model) for model in self.models]})

    async def _describe(self, _: web.Request) -> web.Response:
        return _json(self._about(self.models[0]))

    def _about(self, model: str) -> dict[str, object]:
        told = {} if self.max_tokens is None else {"max_model_len": self.max_tokens}
        return {"id": model, "dtype": "float32", **told}

    async def _embed(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        texts = body["input"]
        if len(texts) == self.fails_on_inputs:
            return _json({"error": {"message": "out of vectors"}}, status=503)
        if self.hangs_on_words and len(texts[0].split()) == self.hangs_on_words:
            self.hung.set()
            await self._closing.wait()
        rows = self.distort(self._rows(texts))
        data = [{"index": i, "embedding": self._encode(row)} for i, row in enumerate(rows)]
        tokens = self._tokens(texts)
        return _json({"data": data[::-1], "usage": {"prompt_tokens": tokens}})  # order is not sure

    async def _rerank(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        texts = [body["query"], *body["documents"]]
        rows = self.distort(self._rows(texts))
        scores = rows[1:] @ rows[0]
        results = [
            {"index": int(i), "relevance_score": float(scores[i])} for i in np.argsort(-scores)
        ]
        return _json({"results": results, "usage": {"total_tokens": self._tokens(texts)}})

    async def _body(self, request: web.Request) -> dict[str, Any]:
        body: dict[str, Any] = orjson.loads(await request.read())
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        return body

    def _rows(self, inputs: list[Input]) -> Vectors:
        keys = [one if isinstance(one, str) else tuple(one) for one in inputs]
        return np.stack([self._known[k] if k in self._known else _invented(k) for k in keys])

    def _tokens(self, inputs: list[Input]) -> int:
        return sum(
            len(one.split()) + self.special_tokens if isinstance(one, str) else len(one)
            for one in inputs
        )

    def _encode(self, row: Vectors) -> str | list[float]:
        if self.sends_floats:
            return [float(x) for x in row]
        return base64.b64encode(row.astype("<f4").tobytes()).decode()


def _invented(key: str | tuple[int, ...]) -> Vectors:
    vector = np.random.default_rng(zlib.crc32(str(key).encode())).normal(size=DIM)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")
