import threading

import pytest
import torch
from simulated_device import SimulatedDevice

from engine.device.staging import InputBuffer, InputRing, OutputPool


@pytest.fixture
def device() -> SimulatedDevice:
    return SimulatedDevice()


def upload(device: SimulatedDevice, buffer: InputBuffer, to: torch.Tensor) -> None:
    device.run(lambda: to.copy_(buffer.host))


def test_array_and_host_tensor_are_the_same_memory(device: SimulatedDevice) -> None:
    buffer = InputRing(device, ints=4).take()
    buffer.array[:] = [1, 2, 3, 4]
    assert buffer.host.tolist() == [1, 2, 3, 4]
    assert buffer.host.dtype == torch.int32


def test_buffers_in_use_are_never_the_same(device: SimulatedDevice) -> None:
    ring = InputRing(device, ints=4)
    taken = [ring.take() for _ in range(3)]
    assert len({buffer.host.data_ptr() for buffer in taken}) == 3


def test_buffer_is_taken_again_only_after_the_device_read_it(device: SimulatedDevice) -> None:
    ring = InputRing(device, ints=4)
    read = [torch.zeros(4, dtype=torch.int32) for _ in range(4)]
    for step in range(3):
        buffer = ring.take()
        buffer.array[:] = step
        upload(device, buffer, read[step])
        ring.give(buffer)
    assert device.waiting == 6
    buffer = ring.take()
    assert device.waiting == 4  # waited for the first step, and no other
    buffer.array[:] = 3
    upload(device, buffer, read[3])
    ring.give(buffer)
    device.synchronize()
    assert [int(seen[0]) for seen in read] == [0, 1, 2, 3]


def test_two_steps_in_flight_leave_a_buffer_without_waiting(device: SimulatedDevice) -> None:
    ring = InputRing(device, ints=4)
    for _ in range(2):
        ring.give(ring.take())
    ring.take()
    assert device.waiting == 2


def test_buffer_of_a_step_that_failed_comes_back(device: SimulatedDevice) -> None:
    ring = InputRing(device, ints=4, depth=1)
    read = torch.zeros(4, dtype=torch.int32)
    buffer = ring.take()
    buffer.array[:] = 7
    upload(device, buffer, read)
    device.run_out_of_memory()
    with pytest.raises(torch.OutOfMemoryError):
        device.run(lambda: None)
    ring.give(buffer)
    ring.take().array[:] = 8
    assert read.tolist() == [7] * 4


def test_ring_that_is_all_taken_says_so(device: SimulatedDevice) -> None:
    ring = InputRing(device, ints=4, depth=2)
    ring.take()
    ring.take()
    with pytest.raises(RuntimeError, match="taken"):
        ring.take()


def test_block_holds_the_rows_asked_for(device: SimulatedDevice) -> None:
    block = OutputPool(device).take(4 * 3 * 5)
    rows = block.rows(3, 5)
    rows.copy_(torch.arange(15.0).view(3, 5))
    assert rows.shape == (3, 5)
    assert block.rows(3, 5).numpy()[2, 4] == 14
    assert rows.data_ptr() == block.host.data_ptr()


@pytest.mark.parametrize(
    ("size_bytes", "block_bytes"),
    [(1, 65_536), (65_536, 65_536), (65_537, 131_072), (8 << 20, 8 << 20), (9 << 20, 16 << 20)],
)
def test_block_is_the_least_power_of_two_that_fits(
    device: SimulatedDevice, size_bytes: int, block_bytes: int
) -> None:
    assert OutputPool(device).take(size_bytes).host.numel() == block_bytes


def test_blocks_are_allocated_before_serving(device: SimulatedDevice) -> None:
    pool = OutputPool(device, steps_in_flight=2)
    allocated = device.pinned_blocks
    taken = [pool.take(400_000) for _ in range(3)]
    assert device.pinned_blocks == allocated
    assert len({block.host.data_ptr() for block in taken}) == 3
    pool.take(400_000)
    assert device.pinned_blocks == allocated + 1


def test_block_given_back_is_used_again(device: SimulatedDevice) -> None:
    pool = OutputPool(device)
    block = pool.take(20 << 20)
    allocated = device.pinned_blocks
    pool.give(block)
    assert pool.take(17 << 20) is block
    assert device.pinned_blocks == allocated


def test_no_block_has_two_owners_when_threads_take_and_give(device: SimulatedDevice) -> None:
    pool = OutputPool(device, steps_in_flight=0)
    faults: list[int] = []

    def take_and_give(owner: int) -> None:
        for _ in range(200):
            block = pool.take(64)
            block.host[0] = owner
            if int(block.host[0]) != owner:
                faults.append(owner)
            pool.give(block)

    threads = [threading.Thread(target=take_and_give, args=(owner,)) for owner in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
