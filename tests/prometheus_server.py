"""A private Prometheus for the tests: it scrapes every second, by the rules that are deployed."""

import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml
from redis_server import free_port
from server_start import wait_until_answers

ROOT = Path(__file__).parents[1]
RULES = ROOT / "deploy" / "prometheus" / "rules"
DEPLOYED = ROOT / "deploy" / "compose" / "prometheus.yaml"
SCRAPE_S = 1


class PrometheusServer:
    """`targets`: addresses by the name of their job, one of those in the deployed file."""

    def __init__(self, directory: Path, targets: Mapping[str, list[str]]) -> None:
        self._config = directory / "prometheus.yaml"
        self._config.write_text(yaml.safe_dump(_config(targets)))
        self.url = f"http://127.0.0.1:{free_port()}"
        self._log = (directory / "log").open("w+")
        command = [
            *("prometheus", f"--config.file={self._config}", "--log.level=warn"),
            *(f"--web.listen-address={self.url.removeprefix('http://')}",),
            *(f"--storage.tsdb.path={directory / 'data'}", "--enable-feature=exemplar-storage"),
        ]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        self._client = httpx.Client(base_url=self.url, timeout=30)

    def get(self, path: str, **parameters: Any) -> Any:
        """`data` of an answer of its API. Raises RuntimeError with what it says of an error."""
        answer = self._client.get(f"/api/v1/{path}", params=parameters).json()
        if answer["status"] != "success":
            raise RuntimeError(answer["error"])
        return answer["data"]

    def value(self, expr: str) -> float | None:
        """The sum of what an expression gives now; None: nothing."""
        samples = self.get("query", query=expr)["result"]
        return sum(float(sample["value"][1]) for sample in samples) if samples else None

    def wait_for(self, expr: str, timeout_s: float = 30) -> None:
        """Until it gives more than 0."""
        until_s = time.monotonic() + timeout_s
        while not self.value(expr):
            if time.monotonic() > until_s:
                raise TimeoutError(expr)
            time.sleep(0.1)

    def wait_until_ready(self) -> None:
        try:
            wait_until_answers(self._process, self._answers, every_s=0.02)
        except RuntimeError as error:
            self._log.seek(0)
            raise RuntimeError(f"{error}: {self._log.read()}") from None

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return self._client.get("/-/ready").status_code == 200
        return False

    def close(self) -> None:
        self._client.close()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)
        self._log.close()


@contextlib.contextmanager
def running_prometheus(targets: Mapping[str, list[str]]) -> Iterator[PrometheusServer]:
    directory = Path(tempfile.mkdtemp(prefix="prometheus-"))
    server = PrometheusServer(directory, targets)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.close()
        shutil.rmtree(directory)


def _config(targets: Mapping[str, list[str]]) -> dict[str, Any]:
    """The deployed file, but for its hosts, its paths and its pace."""
    config: dict[str, Any] = yaml.safe_load(DEPLOYED.read_text())
    pace = f"{SCRAPE_S}s"
    config["global"] |= {"scrape_interval": pace, "evaluation_interval": pace}
    config["rule_files"] = [str(RULES / "*.yaml")]
    jobs = [job for job in config["scrape_configs"] if job["job_name"] in targets]
    for job in jobs:
        del job["dns_sd_configs"]
        job["static_configs"] = [{"targets": targets[job["job_name"]]}]
    return config | {"scrape_configs": jobs}
