"""`python -m clients.node_sdk FOLDER`: what the Node SDK of OpenAI, installed there, tells of time.

`make clients` runs it. It needs the npm registry once; the Python SDK, which every run of the tests
has, is in tests/api/test_sdk_deadline.py.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from api.deadline import timeout_s

_EMBED = Path(__file__).with_name("embed.cjs")
_DEFAULT_S, _CAP_S = 60.0, 600.0
_ANSWER = json.dumps({"object": "list", "data": [], "model": "m", "usage": {}}).encode()


class Case(NamedTuple):
    """Timeouts given to the SDK, ms (0: none), and the deadline that we read."""

    of_client_ms: int
    of_request_ms: int
    deadline_s: float


# Only a request's own is sent, in whole seconds, cut: below one, it says nothing that can be used.
CASES = (
    Case(0, 0, _DEFAULT_S),
    Case(7_000, 0, _DEFAULT_S),
    Case(0, 12_000, 12.0),
    Case(20_000, 7_900, 7.0),
    Case(0, 900, _DEFAULT_S),
    Case(0, 10_000_000, _CAP_S),
)


@contextmanager
def stub_server(seen: list[dict[str, str]]) -> Iterator[str]:
    """Its URL. It keeps the headers of every request, by their names in lower case."""

    class Stub(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(_ANSWER)))
            self.end_headers()
            self.wfile.write(_ANSWER)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Stub)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main(folder: Path) -> int:
    """The exit code: 1 where a header is not read as it should be."""
    package = folder / "node_modules" / "openai" / "package.json"
    print("openai", json.loads(package.read_text())["version"])
    wrong = 0
    for case in CASES:
        seen: list[dict[str, str]] = []
        with stub_server(seen) as url:
            given = [str(case.of_client_ms), str(case.of_request_ms)]
            subprocess.run(["node", _EMBED, folder, url, *given], check=True, timeout=60)
        (headers,) = seen
        sent = {name: value for name, value in headers.items() if "timeout" in name}
        read_s = timeout_s(headers, _DEFAULT_S, _CAP_S)
        wrong += read_s != case.deadline_s
        verdict = "ok" if read_s == case.deadline_s else f"WRONG, not {case.deadline_s}"
        print(
            f"client {given[0]} ms, request {given[1]} ms: {sent}, deadline {read_s} s: {verdict}"
        )
    print(f"{len(CASES) - wrong} passed, {wrong} failed")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
