"""A request cut into jobs and put together again is the same request."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.sharding import SequenceFailed, Shard, ShardSize, concatenate, merge, split
from api.text_encoding import Tokenized
from checkpoint.encoded import Encoded
from transport.messages import JobResult


def tokenized(lengths: list[int], types: bool = False, skip: int | None = None) -> Tokenized:
    total = sum(lengths)
    encoded = Encoded(
        input_ids=np.arange(total, dtype=np.int32),
        lengths=np.array(lengths, np.int32),
        type_ids=np.ones(total, np.uint8) if types else None,
        truncated=1,
    )
    return Tokenized(encoded, None if skip is None else np.full(len(lengths), skip, np.int32))


def result(shard: Shard, **changes: object) -> JobResult:
    starts = np.cumsum(shard.lengths) - shard.lengths
    values: dict[str, object] = {
        "job_id": "j",
        "row_offsets": np.arange(len(shard.lengths) + 1, dtype=np.int32),
        "rows": shard.input_ids[starts].astype(np.float32)[:, None],
    }
    return JobResult(**(values | changes))  # type: ignore[arg-type]


lengths_of_requests = st.lists(st.integers(1, 40), min_size=1, max_size=60)


@given(lengths_of_requests, st.integers(1, 100), st.booleans())
def test_shards_are_bounded_ordered_and_complete(
    lengths: list[int], shard_tokens: int, types: bool
) -> None:
    shards = list(split(tokenized(lengths, types), ShardSize(shard_tokens, 9)))
    whole = tokenized(lengths, types).encoded
    np.testing.assert_array_equal(np.concatenate([s.input_ids for s in shards]), whole.input_ids)
    np.testing.assert_array_equal(np.concatenate([s.lengths for s in shards]), whole.lengths)
    for shard in shards:
        assert shard.input_ids.size == shard.lengths.sum()
        assert shard.input_ids.size <= shard_tokens or len(shard.lengths) == 1
        assert len(shard.lengths) <= 9
        assert (shard.type_ids is not None) == types
    # Greedy: two neighbours never fit into one.
    for left, right in pairwise(shards):
        full = len(left.lengths) == 9
        assert full or left.input_ids.size + right.lengths[0] > shard_tokens
        assert right.first == left.first + len(left.lengths)


@given(lengths_of_requests, st.integers(1, 100))
def test_rows_come_back_in_input_order(lengths: list[int], shard_tokens: int) -> None:
    shards = list(split(tokenized(lengths), ShardSize(shard_tokens, 9)))
    rows = merge(shards, [result(shard) for shard in shards])
    np.testing.assert_array_equal(rows[:, 0], np.cumsum(lengths) - lengths)


def test_failed_sequence_is_named_by_its_place_in_the_request() -> None:
    shards = list(split(tokenized([5, 5, 5, 5]), ShardSize(10, 9)))
    failed = result(shards[1], failed=((1, "non_finite"),))
    with pytest.raises(SequenceFailed) as caught:
        merge(shards, [result(shards[0]), failed])
    assert (caught.value.index, caught.value.code) == (3, "non_finite")


def test_encodings_are_joined_with_their_types() -> None:
    both = concatenate([tokenized([2]), tokenized([1, 3], types=True, skip=1)])
    joined = both.encoded
    np.testing.assert_array_equal(joined.input_ids, [0, 1, 0, 1, 2, 3])
    np.testing.assert_array_equal(joined.lengths, [2, 1, 3])
    assert joined.type_ids is not None
    np.testing.assert_array_equal(joined.type_ids, [0, 0, 1, 1, 1, 1])
    assert joined.truncated == 2
    assert both.prompt_tokens is not None
    np.testing.assert_array_equal(both.prompt_tokens, [0, 1, 1])


def test_tokens_that_are_not_pooled_become_spans_of_each_shard() -> None:
    spans = [shard.spans for shard in split(tokenized([5, 6, 7], skip=2), ShardSize(11, 9))]
    np.testing.assert_array_equal(spans[0], [[0, 2, 5], [1, 2, 6]])
    np.testing.assert_array_equal(spans[1], [[0, 2, 7]])
    assert next(split(tokenized([5]), ShardSize(11, 9))).spans is None
