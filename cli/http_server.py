"""One listening uvicorn server within a running loop; signals are the command's affair."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import NoReturn

import uvicorn
from starlette.types import ASGIApp

from cli.http_protocol import HttpProtocol


class PortTaken(Exception):
    """The address cannot be bound; the message says which and why."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Two servers of one process cannot both own SIGTERM."""
        yield


class HttpServer:
    """Holds its port from the first, so that a taken one is known before a model is loaded;
    connections are refused until `start`.

    `shared`: with other processes of this user that say so; Linux divides new connections among
    those that listen. Raises PortTaken.
    """

    def __init__(
        self,
        host: str,
        port: int,
        drain_s: float,
        *,
        protocol: type[HttpProtocol] = HttpProtocol,
        shared: bool = False,
    ) -> None:
        self._socket = _bind(host, port, shared)
        self._drain_s = drain_s
        self._protocol = protocol
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def url(self) -> str:
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self, app: ASGIApp) -> None:
        """Listen. Returns once requests are accepted. Raises PortTaken."""
        self._server = _Server(self._config(app))
        self._task = asyncio.create_task(self._server.serve([self._socket]))
        while not self._server.started:
            if self._task.done():
                self._ended_early(self._task.exception())
            await asyncio.sleep(0.005)

    def not_listening(self) -> str | None:
        """Why connections are refused; None where they are not."""
        return None if self._server is not None and self._server.started else "starting"

    async def stop(self) -> None:
        """Stop accepting, finish what runs, within the drain time."""
        if self._server is not None:
            self._server.should_exit = True
        if self._task is not None:
            await self._task
        self.close()

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()

    def _config(self, app: ASGIApp) -> uvicorn.Config:
        return uvicorn.Config(
            app,
            http=self._protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,  # idle connections outlive those of load balancers (60 s)
            timeout_graceful_shutdown=max(1, round(self._drain_s)),
            backlog=512,
        )

    def _ended_early(self, error: BaseException | None) -> NoReturn:
        self._task = None
        if isinstance(error, OSError):  # another bound the port as well, and listened first
            raise _taken(*self.address, error) from None
        raise RuntimeError("the server ended before it began") from error


def _bind(host: str, port: int, shared: bool) -> socket.socket:
    """As socket.create_server, without listening."""
    bound = None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
        return bound
    except OSError as error:
        if bound is not None:
            bound.close()
        raise _taken(host, port, error) from None


def _taken(host: str, port: int, error: OSError) -> PortTaken:
    return PortTaken(f"cannot listen on {host}:{port}: {error.strerror or error}")
