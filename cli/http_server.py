"""One listening uvicorn server within a running loop; signals are the command's affair."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp


class PortTaken(Exception):
    """The address cannot be bound; the message says which and why."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Two servers of one process cannot both own SIGTERM."""
        yield


class HttpServer:
    def __init__(self, app: ASGIApp, host: str, port: int, drain_s: float) -> None:
        self._socket = _bind(host, port)
        # httptools refuses the requests that h11 lets be smuggled. Idle connections outlive those
        # of load balancers (60 s). limit_concurrency counts idle connections: a far backstop only.
        self._server = _Server(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=max(1, round(drain_s)),
                limit_concurrency=4096,
                backlog=512,
            )
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def url(self) -> str:
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self) -> None:
        """Listen. Returns once requests are accepted."""
        self._task = asyncio.create_task(self._server.serve([self._socket]))
        while not self._server.started:
            if self._task.done():
                await self._task
                raise RuntimeError("the server ended before it began")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Stop accepting, finish what runs, within the drain time."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        self._socket.close()


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise PortTaken(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
