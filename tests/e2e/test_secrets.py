"""No key, no digest of one and no pepper is ever told, but once to whoever makes the key."""

import base64
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from deployment import MODEL, Deployment, deployment
from key_ring import KeyRing
from redis_server import running_redis
from server_process import ServerProcess, running, start
from told_secrets import KeyTold, check_no_key, check_none_of
from typer.testing import CliRunner

from auth.key import BASE62, _checksum, generate_key
from auth.record import NewKey
from cli.main import app

ADMIN_PATHS = (
    "/v1/admin/keys",
    "/v1/admin/audit",
    "/v1/organization/usage/embeddings?start_time=1",
)


def with_another_secret(key: str) -> str:
    """Of the same key id, well-formed."""
    head, _, secret = key.rpartition("-")
    other = BASE62[(BASE62.index(secret[0]) + 1) % len(BASE62)] + secret[1:-6]
    return f"{head}-{other}" + _checksum(f"{head}-{other}")


@dataclass
class Presented:
    """Keys of every kind, and the servers that were shown them."""

    ring: KeyRing
    keys: dict[str, str]
    kids: dict[str, str]
    deployed: Deployment

    @property
    def gateway(self) -> ServerProcess:
        return self.deployed.processes[0]

    def secrets(self) -> dict[str, str | bytes]:
        """All that must not be told, by name."""
        peppers = self.ring.peppers
        (pepper,) = [base64.b64decode(line.split(":")[1]) for line in peppers.dump().split()]
        found: dict[str, str | bytes] = {"the pepper": pepper}
        for name, key in self.keys.items():
            found[f"the key {name}"] = key
            found[f"the secret of {name}"] = key.rpartition("-")[2][:16]
            found[f"the digest of {name}"] = peppers.digest(key, 1)
        return found


@pytest.fixture(scope="module")
def presented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Presented]:
    data_dir: Path = tmp_path_factory.mktemp("data")
    ring = KeyRing(data_dir)
    made = {
        "good": ring.make("good"),
        "limited": ring.make("limited", rpm=1),
        "admin": ring.make_key(NewKey(name="admin", scopes=frozenset({"admin"}))),
        "expired": ring.make_expired("expired"),
        "revoked": ring.make("revoked"),
    }
    ring.revoke(made["revoked"])
    keys = {name: one.key for name, one in made.items()}
    good = keys["good"]
    keys |= {
        "unknown": generate_key()[0],
        "of another secret": with_another_secret(good),
        "with a typing error": good[:-1] + ("a" if good[-1] != "a" else "b"),
        "cut short": good[:50],
        "in capitals": good.upper(),
        "of another kind": "sk-proj-" + good.rpartition("-")[2],
    }
    with running_redis() as redis, deployment(redis.url, data_dir) as deployed:
        deployed.environ |= {
            "FLORILEGE_PEPPER": ring.peppers.dump().strip(),
            "FLORILEGE_LOG_LEVEL": "debug",
        }
        gateway = deployed.gateway()
        deployed.simulated_worker()
        deployed.settle()
        gateway.wait_for(lambda: gateway.metric("florilege_live_workers") == 1)
        yield Presented(ring, keys, {name: one.kid for name, one in made.items()}, deployed)


def requests_with(key: str, url: str, admin_url: str) -> Iterator[httpx.Request]:
    """A key where it belongs, to every kind of answer of both ports."""
    headers = [
        {"authorization": f"Bearer {key}"},
        {"authorization": key},
        {"api-key": key},
        {"x-api-key": key},
        {"authorization": "Basic " + base64.b64encode(f":{key}".encode()).decode()},
    ]
    bodies = [{"model": MODEL, "input": "a text"}, {"model": "none", "input": "a text"}, {}]
    for header in headers:
        for body in bodies:
            yield httpx.Request("POST", f"{url}/v1/embeddings", headers=header, json=body)
        yield httpx.Request("GET", f"{url}/v1/models", headers=header)
        yield httpx.Request("GET", f"{url}/v1/nothing", headers=header)
        yield httpx.Request("PUT", f"{url}/v1/embeddings", headers=header)
        for path in ADMIN_PATHS:
            yield httpx.Request("GET", admin_url + path, headers=header)
        yield httpx.Request("POST", f"{admin_url}/v1/admin/keys", headers=header, content=b"{")


def misplaced(key: str, good: str, url: str) -> Iterator[httpx.Request]:
    """A key where none belongs, from callers who may come in."""
    headers = {"authorization": f"Bearer {good}"}
    for name in ("x-request-id", "x-client-request-id", "user-agent", "x-florilege-lane", "cookie"):
        yield httpx.Request("GET", f"{url}/v1/models", headers={**headers, name: key})
    for path in (f"/v1/models/{key}", f"/v1/embeddings?api_key={key}", f"/{key}"):
        yield httpx.Request("GET", url + path, headers=headers)
    for body in (
        {"model": key, "input": "a"},
        {"model": MODEL, "input": key},
        {"model": MODEL, "input": "a", "user": key, "encoding_format": key},
        {"model": MODEL, "input": "a", key: key},
    ):
        yield httpx.Request("POST", f"{url}/v1/embeddings", headers=headers, json=body)
    yield httpx.Request("POST", f"{url}/v1/embeddings", headers=headers, content=key.encode())


def mistaken(key: str, admin: str, admin_url: str) -> Iterator[httpx.Request]:
    """An administrator's, who gives the key for its id or its name."""
    headers = {"authorization": f"Bearer {admin}"}
    keys = f"{admin_url}/v1/admin/keys"
    yield httpx.Request("GET", f"{keys}/{key}", headers=headers)
    for action in ("revoke", "rotate"):
        yield httpx.Request("POST", f"{keys}/{key}/{action}", headers=headers, json={})
    limits = {"rpm": 1}
    yield httpx.Request("PATCH", f"{keys}/{key}/limits", headers=headers, json=limits)


def shown(answer: httpx.Response) -> str:
    return f"{answer.status_code} {dict(answer.headers)} {answer.text}"


def test_no_answer_holds_any_part_of_a_key(presented: Presented) -> None:
    gateway = presented.gateway
    told, statuses = [], set()
    with httpx.Client(timeout=10) as client:
        for key in presented.keys.values():
            for request in requests_with(key, gateway.url, gateway.admin_url):
                answer = client.send(request)
                told.append(shown(answer))
                statuses.add(answer.status_code)
            for request in mistaken(key, presented.keys["admin"], gateway.admin_url):
                answer = client.send(request)
                assert answer.status_code == 404, shown(answer)
                told.append(shown(answer))
    assert statuses >= {200, 400, 401, 403, 404, 405, 429}
    check_none_of(presented.secrets(), "\n".join(told))


def test_no_log_and_no_metric_holds_any_part_of_a_key_wherever_it_was_sent(
    presented: Presented,
) -> None:
    gateway, good = presented.gateway, presented.keys["good"]
    before = len(gateway.log)
    statuses = set()
    with httpx.Client(timeout=10) as client:
        for key in presented.keys.values():
            for request in misplaced(key, good, gateway.url):
                statuses.add(client.send(request).status_code)
            for url in (gateway.url, gateway.admin_url):
                client.get(f"{url}/health/live", params={"key": key})
                client.get(f"{url}/metrics", params={"key": key}, headers={"api-key": key})
    assert statuses >= {200, 400, 404}
    gateway.wait_for(lambda: len(gateway.log) >= before + 10 * len(presented.keys))
    for process in presented.deployed.processes:
        process.metrics = httpx.get(f"{process.admin_url}/metrics", timeout=10).text
        assert "florilege_build_info" in process.metrics
        check_no_key(process.output)
        check_none_of(presented.secrets(), process.output)
    assert presented.kids["good"] in gateway.output  # what a log does tell of a key


def test_a_key_made_and_rotated_over_the_admin_port_is_told_once_and_logged_never(
    presented: Presented,
) -> None:
    gateway = presented.gateway
    headers = {"authorization": f"Bearer {presented.keys['admin']}"}
    with httpx.Client(base_url=gateway.admin_url, headers=headers) as client:
        made = client.post("/v1/admin/keys", json={"name": "made"}).json()
        rotated = client.post(f"/v1/admin/keys/{made['id']}/rotate", json={}).json()
        later = [shown(client.get(path)) for path in ADMIN_PATHS]
        later.append(shown(client.get(f"/v1/admin/keys/{rotated['id']}")))
    keys = {"made": made["key"], "rotated": rotated["key"]}
    digests = {f"digest of {n}": presented.ring.peppers.digest(k, 1) for n, k in keys.items()}
    text = "\n".join([*later, gateway.output])
    assert made["id"] in text
    check_no_key(text)
    check_none_of(keys | digests, text)


def test_the_command_line_tells_no_key_but_the_one_it_makes(
    presented: Presented, tmp_path: Path
) -> None:
    good, kid = presented.keys["good"], presented.kids["good"]
    (tmp_path / "data").mkdir()
    common = {
        "FLORILEGE_DATABASE_URL": presented.ring.url,
        "FLORILEGE_PEPPER": presented.ring.peppers.dump().strip(),
        "FLORILEGE_DATA_DIR": str(tmp_path / "data"),
    }
    told = []
    for arguments in (
        *(["check-config"], ["db", "upgrade"], ["usage", "--since", "1d"]),
        *(["keys", "list"], ["keys", "list", "--json"], ["keys", "show", kid]),
        *(["keys", "show", kid, "--json"], ["keys", "limits", kid, "--json"]),
        *(["keys", "show", good], ["keys", "revoke", good], ["keys", "limits", good, "--rpm", "1"]),
        ["keys", "rotate", good],
    ):
        result = CliRunner().invoke(app, arguments, env=common)
        assert result.exit_code == (1 if good in arguments else 0), result.stderr
        told.append(result.stdout + result.stderr)
    check_no_key("\n".join(told))
    check_none_of(presented.secrets(), "\n".join(told))


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_server_that_prints_a_key_fails_its_test(stream: str) -> None:
    key, kid = generate_key()
    program = f"import sys, json; print(json.dumps({{'event': 'a {key}'}}), file=sys.{stream})"
    server = start([sys.executable, "-c", program])
    server.process.wait(10)
    with pytest.raises(KeyTold) as told:
        server.kill()
    assert kid not in str(told.value)
    assert server.process.returncode == 0


def test_a_server_whose_metrics_hold_a_key_fails_its_test() -> None:
    key, _ = generate_key()
    program = f"""
import json, http.server
class Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'requests_total{{key="{key}"}} 1')
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Metrics)
url = f"http://127.0.0.1:{{server.server_port}}"
print(json.dumps(dict(event="serving", admin_url=url)), flush=True)
server.serve_forever()
"""
    with pytest.raises(KeyTold), running([sys.executable, "-c", program]) as server:
        assert server.admin_url


@pytest.mark.parametrize("form", ["text", "hex", "base64", "urlsafe", "repr"])
def test_a_digest_is_found_in_every_form(form: str) -> None:
    digest = bytes(range(240, 256)) + b"\xfb\xef\xbe" * 5 + b"\xff"
    forms = {
        "text": "a secret",
        "hex": digest.hex(),
        "base64": base64.b64encode(digest).decode(),
        "urlsafe": base64.urlsafe_b64encode(digest).decode(),
        "repr": repr(digest),
    }
    secrets: dict[str, str | bytes] = {"it": "a secret" if form == "text" else digest}
    check_none_of(secrets, "a line without")
    with pytest.raises(KeyTold, match="it is told"):
        check_none_of(secrets, f"error: {forms[form]}, sorry")
