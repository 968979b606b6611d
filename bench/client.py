"""The HTTP client that the load comes from: texts in, float32 vectors or scores out."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import numpy as np
import orjson
from numpy.typing import NDArray

# No request of a suite takes longer on a server that works; without a limit a hung one hangs us.
_TIMEOUT_S = 600.0
_REFUSALS = (429, 503)


class RequestFailed(Exception):
    """An answer other than 200, or none. A case with a failed request has no figures."""


class RequestRefused(RequestFailed):
    """The server would not: 429, or 503. Open loops count it, and go on."""


@dataclass(frozen=True)
class Endpoint:
    """`url`: of the server, with or without a trailing /v1."""

    url: str
    api_key: str | None = None

    @property
    def base(self) -> str:
        return self.url.rstrip("/").removesuffix("/v1")


@dataclass(frozen=True, eq=False)
class Embeddings:
    vectors: NDArray[np.float32]  # [N, D], in the order of the inputs
    tokens: int  # as the server counted them


@dataclass(frozen=True, eq=False)
class Scores:
    values: NDArray[np.float32]  # [N], in the order of the documents
    tokens: int


class Client:
    """One server, one model. Use as an async context manager."""

    def __init__(self, endpoint: Endpoint, model: str = "") -> None:
        self.model = model
        self.fields: Mapping[str, object] = {}  # of every embeddings request besides
        self._base = endpoint.base
        self._headers = {"content-type": "application/json"}
        if endpoint.api_key:
            self._headers["authorization"] = f"Bearer {endpoint.api_key}"

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            # The case says how many connections there are, not the client's pool.
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
            headers=self._headers,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def embed(self, inputs: Sequence[str | list[int]]) -> Embeddings:
        """Asks for base64, as the OpenAI SDKs do, and reads floats where a server sends them."""
        answer = await self._request(
            "POST",
            "/v1/embeddings",
            {"model": self.model, "input": inputs, "encoding_format": "base64", **self.fields},
        )
        with _understood("/v1/embeddings"):
            data = sorted(answer["data"], key=lambda item: int(item["index"]))
            if len(data) != len(inputs):
                raise RequestFailed(f"{len(data)} vectors for {len(inputs)} inputs")
            vectors = np.stack([_vector(item["embedding"]) for item in data])
            return Embeddings(vectors, int(answer["usage"]["prompt_tokens"]))

    async def rerank(self, query: str, documents: list[str]) -> Scores:
        answer = await self._request(
            "POST",
            "/v1/rerank",
            {"model": self.model, "query": query, "documents": documents},
        )
        values = np.full(len(documents), np.nan, np.float32)
        with _understood("/v1/rerank"):
            for result in answer["results"]:
                values[result["index"]] = result["relevance_score"]
            return Scores(values, int(answer["usage"]["total_tokens"]))

    async def models(self) -> list[dict[str, Any]]:
        """As the server describes them; only `id` is sure to be there."""
        answer = await self._request("GET", "/v1/models")
        with _understood("/v1/models"):
            return [{**entry, "id": str(entry["id"])} for entry in answer["data"]]

    async def described(self, model: str) -> dict[str, Any]:
        """What the server says of a model by any of its names. Raises RequestFailed."""
        described = await self._request("GET", f"/v1/models/{quote(model)}")
        with _understood("/v1/models"):
            return {**described, "id": model}

    async def _request(self, method: str, path: str, body: object = None) -> Any:
        content = None if body is None else orjson.dumps(body)
        try:
            async with self._session.request(method, self._base + path, data=content) as response:
                answer = await response.read()
                if response.status != 200:
                    reason = answer[:300].decode(errors="replace")
                    kind = RequestRefused if response.status in _REFUSALS else RequestFailed
                    raise kind(f"{method} {path}: {response.status} {reason}")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise RequestFailed(f"{method} {self._base}{path}: {_reason(error)}") from error
        with _understood(path):
            return orjson.loads(answer)


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"no connection: {error.strerror or error.os_error}"  # its own text is of sockets
    return str(error) or type(error).__name__


@contextmanager
def _understood(path: str) -> Iterator[None]:
    """Raises RequestFailed for what is no answer of this API."""
    try:
        yield
    except (ValueError, LookupError, TypeError) as error:
        raise RequestFailed(f"{path} answered what cannot be read: {error!r}") from error


def _vector(embedding: str | list[float]) -> NDArray[np.float32]:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding), "<f4")
    return np.asarray(embedding, np.float32)
