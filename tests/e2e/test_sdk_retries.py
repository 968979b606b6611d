"""The OpenAI SDK obeys our 503s and 504s: it waits as told, and stops where told."""

import threading
import time
from collections.abc import Iterator

import openai
import pytest
import uvicorn
from fake_service import make_service
from openai import OpenAI

from api.app import create_app
from api.gateway import Gateway, GatewayConfig
from auth.authenticator import Authenticator
from observability.metrics import Metrics
from transport.memory import MemoryTransport
from transport.messages import JobError


class Refusing(Gateway):
    """Answers every request with the error of its turn."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(MemoryTransport(), GatewayConfig(), metrics)
        self.errors: list[JobError] = []
        self.calls_s: list[float] = []

    def refuse(self) -> JobError:
        self.calls_s.append(time.monotonic())
        return self.errors[min(len(self.calls_s), len(self.errors)) - 1]


class Server(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        return


@pytest.fixture
def refusing() -> Iterator[tuple[Refusing, str]]:
    metrics = Metrics()
    gateway = Refusing(metrics)

    async def spec(name: str) -> None:
        raise gateway.refuse()

    gateway.catalog.find = spec  # type: ignore[method-assign, assignment]
    app = create_app(make_service(gateway, metrics), Authenticator(), "0")
    server = Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield gateway, f"http://127.0.0.1:{port}/v1"
    server.should_exit = True
    thread.join()
    gateway.close()


def test_overload_is_retried_after_the_time_we_tell(refusing: tuple[Refusing, str]) -> None:
    gateway, url = refusing
    gateway.errors = [JobError("overloaded", retry_after_s=1.2)]
    with (
        OpenAI(base_url=url, api_key="k", max_retries=1) as sdk,
        pytest.raises(openai.InternalServerError, match="overloaded") as caught,
    ):
        sdk.embeddings.create(model="m", input="a")
    assert caught.value.status_code == 503
    first_s, second_s = gateway.calls_s
    assert 1.15 <= second_s - first_s < 3


def test_deadline_is_never_retried(refusing: tuple[Refusing, str]) -> None:
    gateway, url = refusing
    gateway.errors = [JobError("deadline")]
    with (
        OpenAI(base_url=url, api_key="k", max_retries=5) as sdk,
        pytest.raises(openai.InternalServerError, match="deadline") as caught,
    ):
        sdk.embeddings.create(model="m", input="a")
    assert caught.value.status_code == 504
    assert len(gateway.calls_s) == 1
