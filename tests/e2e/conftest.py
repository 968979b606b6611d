from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_image import Image, build_gateway_image
from reference.sharp import write_checkpoint
from server_process import ServerProcess, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The default model in float32 and a sharp random cross-encoder, open on loopback."""
    directory = tmp_path_factory.mktemp("models") / "sharp-reranker"
    directory.mkdir()
    write_checkpoint("bert-scores", directory)
    models = ["--model", "all-MiniLM-L6-v2", "--model", f"{directory}=reranker"]
    data_dir: Path = tmp_path_factory.mktemp("data")
    with serving(data_dir, *models, "--dtype", "float32") as server:
        assert server.url, "".join(server.stderr)
        yield server
        assert server.stop() == 0


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Of a gateway, by the steps of its recipe. Its tests need a longer timeout: pip runs."""
    return build_gateway_image(tmp_path_factory.mktemp("image"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--load-seconds", type=float, default=15.0, help="How long each phase of test_load drives"
    )


@pytest.fixture(scope="session")
def load_seconds(request: pytest.FixtureRequest) -> float:
    seconds: float = request.config.getoption("--load-seconds")
    return seconds
