"""Every key in Redis: `florilege:{models,q,tokens,hb,model,tok,rep,dd,dlq,rl:nudge}`.

| key | type | holds | lives |
|---|---|---|---|
| `models` | sorted set | ids of announced models, by their last heartbeat | a day after the last |
| `model:{id}` | hash | ModelSpec and its digest | a day after its last heartbeat |
| `tok:{sha256}` | string | tokenizer.json, deflated | likewise |
| `hb:{id}` | hash | by worker: its last heartbeat, and its tokens/s | likewise |
| `q:{id}`, `q:{id}:bulk` | stream | jobs waiting or running; group `w` | likewise |
| `tokens:{id}`, `tokens:{id}:bulk` | string | tokens of those jobs | likewise |
| `rep:{gateway}` | stream | answers on their way to one gateway | a minute after its death |
| `dd:{job}` | string | the entry that holds the job | the job's budget and a minute |
| `dlq:{id}` | stream | what is known of jobs that killed their workers, 1,000 at most | a week |
| `rl:nudge` | stream | one empty entry: keys have changed | a minute |
"""

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from transport.messages import Lane

PREFIX = "florilege:"
GROUP = "w"
LANES: tuple[Lane, ...] = ("online", "bulk")
MODELS = f"{PREFIX}models"
NUDGE = f"{PREFIX}rl:nudge"
KEEP_S = 86_400  # what is known of a model, after its last heartbeat


@dataclass(frozen=True)
class ModelKeys:
    """The keys of one model. Those of a lane stand in the order of LANES."""

    queues: tuple[str, str]
    tokens: tuple[str, str]
    spec: str
    heartbeats: str
    dead_letters: str


@lru_cache(maxsize=1024)
def model_keys(model: str) -> ModelKeys:
    name = quote(model, safe="/")  # a colon in it must not look like ours
    queue, tokens = f"{PREFIX}q:{name}", f"{PREFIX}tokens:{name}"
    return ModelKeys(
        queues=(queue, f"{queue}:bulk"),
        tokens=(tokens, f"{tokens}:bulk"),
        spec=f"{PREFIX}model:{name}",
        heartbeats=f"{PREFIX}hb:{name}",
        dead_letters=f"{PREFIX}dlq:{name}",
    )


def reply_key(gateway: str) -> str:
    return f"{PREFIX}rep:{gateway}"


def dedup_key(job_id: str) -> str:
    return f"{PREFIX}dd:{job_id}"


def tokenizer_key(sha256: str) -> str:
    return f"{PREFIX}tok:{sha256}"
