"""docs/architecture.md tells the path of a request; this is what keeps it true."""

import asyncio
import re
import sys
import threading
from pathlib import Path
from types import FrameType

import httpx

from auth.usage.recorder import UsageRecorder
from cli.settings import load_settings
from cli.wiring import build_access, build_embedded, build_observers

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "architecture.md"


def walk_of_the_document() -> list[str]:
    steps = re.findall(r"^ ?(\d+) (\S+\.py) ", DOCUMENT.read_text(), flags=re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, 16))
    return [path for _, path in steps]


class Profile:
    """The files of ours that are entered, by any thread, in order."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.counters: list[str] = []  # who counted usage

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            path = frame.f_code.co_filename
            if path.startswith(str(ROOT)) and ".venv" not in path:
                name = path[len(str(ROOT)) + 1 :]
                if not self.entered or self.entered[-1] != name:
                    self.entered.append(name)
                if frame.f_code is UsageRecorder.record.__code__ and frame.f_back is not None:
                    self.counters.append(frame.f_back.f_code.co_filename[len(str(ROOT)) + 1 :])


def is_subsequence(part: list[str], whole: list[str]) -> bool:
    remaining = iter(whole)
    return all(item in remaining for item in part)


async def test_request_enters_the_files_of_the_walk_in_its_order() -> None:
    settings = load_settings({"self_test": "off", "dtype": "float32"}, {})
    observers = build_observers()
    access = build_access(settings, observers, shared=False)
    profile = Profile()
    threading.setprofile(profile)  # for the engine's and the tokenizer's threads, made below
    embedded = await build_embedded(settings, access, observers)
    (worker,) = embedded.workers
    await worker.announce()
    running = asyncio.create_task(worker.run())
    transport = httpx.ASGITransport(embedded.app)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            await embedded.watch.refresh()
            profile.entered.clear()
            sys.setprofile(profile)
            body = {"model": "all-MiniLM-L6-v2", "input": "a text"}
            response = await client.post("/v1/embeddings", json=body)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        worker.drain()
        await running
        embedded.thread.stop()
        embedded.gateway.close()
    assert response.status_code == 200
    walk = walk_of_the_document()
    assert is_subsequence(walk, profile.entered), profile.entered
    assert not is_subsequence(walk[::-1], profile.entered)
    assert profile.counters == ["api/service.py"]  # and nobody else, nor twice
    assert "counted as usage: once, by api/service.py" in DOCUMENT.read_text()


def test_document_names_every_package() -> None:
    text = DOCUMENT.read_text()
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == {name for name in packages if f"\n{name}/ " in text}
