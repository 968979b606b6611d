"""One model, found, read, loaded and proven. The engine is imported when needed."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from checkpoint.architecture import why_refused
from checkpoint.errors import CheckpointError, QueryTooLong
from checkpoint.find import find_model
from checkpoint.read import ReadOptions, read_model, read_tokenizer
from checkpoint.spec import ModelSpec
from checkpoint.tokenizer import TextTokenizer
from cli.known_pairs import known_pairs
from cli.settings import Settings, malloc_is_set, share_the_cores
from observability.logs import get_logger, place_of

if TYPE_CHECKING:
    from engine.batch import Batch
    from worker.worker import LoadedModel

Load = Callable[[Settings, str], "LoadedModel"]  # of the settings, the model of that name


def load_model(settings: Settings, name: str) -> "LoadedModel":
    """Find, read and load one model, and prove it by its self-test.

    Raises CheckpointError and EngineError.
    """
    share_the_cores()
    try:
        return _load_model(settings, name)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # A config.json may hold anything at any place: "4" for 4, 0 heads, a list for a number.
        place = place_of(error)
        message = f"{name}: a file of this checkpoint holds a value that makes no sense"
        raise CheckpointError(
            f"{message} ({place['error']} at {place.get('file')}:{place.get('line')})"
        ) from error


def _load_model(settings: Settings, name: str) -> "LoadedModel":
    from engine.engine import Engine, EngineConfig
    from worker.worker import LoadedModel

    found = find_model(name)
    chosen = settings.of_model((found.id, *found.aliases))
    options = ReadOptions(
        max_input_tokens=settings.max_input_tokens,
        matryoshka=chosen.matryoshka,
        token_input=settings.token_input,
        task=chosen.task,
        calibration=chosen.calibration,
    )
    spec, files = read_model(found, options)
    refusal = why_refused(spec.family, files.config, settings.dtype)
    if refusal is not None:
        raise CheckpointError(f"{spec.id}: dtype {settings.dtype}: {refusal}")
    tokenizer_json = read_tokenizer(files.directory)
    config = EngineConfig(
        device=settings.device,
        dtype=settings.dtype,
        kernels=settings.kernels,
        cpu_kernels=settings.cpu_kernels == "auto",
        max_batch_tokens=settings.max_batch_tokens,
        keep_freed_memory=not malloc_is_set(),
        attention_backend=settings.attention_backend,
        graphs=settings.graphs == "on",
        graph_cache=settings.cache_dir / "graphs.json",
    )
    engine = Engine.load(spec, files, config)
    if settings.self_test == "on":
        pairs = []
        if spec.task == "score":
            tokenizer = TextTokenizer(tokenizer_json, spec.max_tokens, spec.vocab_size)
            pairs = _known_pairs(spec, tokenizer)
        if engine.self_test(pairs).ranks_known_pair is False:
            get_logger().warning("known_pair_ranked_wrongly", model=spec.id)
    computes = {name: value for name, value in engine.runtime.items() if name != "self_test"}
    get_logger().info("loaded", model=spec.id, **computes)
    spec = replace(
        spec,
        dtype=engine.dtype,
        shard_tokens=engine.shard_tokens,
        runtime=engine.runtime,
    )
    return LoadedModel(spec, engine, tokenizer_json)


def _known_pairs(spec: ModelSpec, tokenizer: TextTokenizer) -> "list[Batch]":
    try:
        return known_pairs(spec, tokenizer)
    except QueryTooLong as error:
        message = f"{spec.id}: {spec.max_tokens} tokens are too few for a short query and a text"
        raise CheckpointError(f"{message} ({error.tokens} without the text)") from None
