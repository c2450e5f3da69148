"""Buffers, and memory that NumPy and the runtime share."""

from __future__ import annotations

import array
import gc
import re
import sys
from typing import Any

import millstream as ms
import numpy as np
import pytest

DTYPES = [
    (ms.f64, np.float64), (ms.i64, np.int64), (ms.u64, np.uint64), (ms.f32, np.float32), (ms.i32, np.int32),
    (ms.u32, np.uint32), (ms.f16, np.float16), (ms.i16, np.int16), (ms.u16, np.uint16), (ms.i8, np.int8),
    (ms.u8, np.uint8), (ms.bool_, np.bool_),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "numpy"), DTYPES)
def test_every_element_type_goes_there_and_back(stream: ms.Stream, dtype: type[ms.Value], numpy: Any) -> None:
    data = (np.arange(1000) % 2).astype(numpy)
    buffer = stream.create(data)
    assert buffer.dtype is dtype and buffer.size == 1000 and buffer.nbytes == 1000 * dtype.itemsize
    back = stream.read(buffer).wait()
    assert back.dtype == data.dtype and np.array_equal(back, data)
    stream.fill(buffer, 1)
    assert stream.read(buffer).wait().tolist() == [1] * 1000


def test_bf16_has_the_bits_of_u16(stream: ms.Stream) -> None:
    bits = np.array([0x3F80, 0x4000], np.uint16)
    buffer = stream.create(bits, ms.bf16)
    assert buffer.dtype is ms.bf16 and stream.read(buffer).wait().view(np.uint16).tolist() == bits.tolist()
    stream.fill(buffer, 2.0)
    into = np.empty(2, np.uint16)
    assert stream.read(buffer, out=into).wait() is into and into.tolist() == [0x4000] * 2
    assert np.asarray(buffer).tolist() == [0x4000] * 2


def test_bf16_is_a_type_of_ml_dtypes_where_that_is_installed(stream: ms.Stream) -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    data = np.array([[1.0, -2.5], [0.5, 3.0]], bfloat16)
    for buffer in (stream.create(data), stream.create(data.tolist(), ms.bf16), stream.create(data[::-1], "bfloat16")[::1]):
        assert buffer.dtype is ms.bf16 and np.dtype(buffer.dtype) == bfloat16
    found = stream.read(stream.create(data)).wait()
    assert found.dtype == bfloat16 and found.shape == (2, 2) and found.tolist() == data.tolist()
    buffer = stream.zeros((2, 2), ms.bf16)
    stream.write(buffer, data)
    into = np.empty((2, 2), bfloat16)
    assert stream.read(buffer, out=into).wait() is into and into.tolist() == data.tolist()


def test_bf16_without_ml_dtypes_is_its_bits(stream: ms.Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream._types._bfloat16", lambda: None)
    buffer = stream.create(np.array([0x3F80], np.uint16), ms.bf16)
    assert stream.read(buffer).wait().dtype == np.uint16
    with pytest.raises(ms.ArgumentError, match="bf16 takes an array of `numpy.uint16`.*`ml_dtypes`"):
        stream.create([1.0], ms.bf16)


@pytest.mark.parametrize("given", ["f32", np.float32, np.dtype("float32"), ms.f32])
def test_element_types_have_several_names(stream: ms.Stream, given: ms.DTypeLike) -> None:
    assert stream.zeros(3, given).dtype is ms.f32


def test_unknown_element_types_are_refused(stream: ms.Stream) -> None:
    with pytest.raises(ms.ArgumentError, match="expected an element type"):
        stream.zeros(3, np.complex64)
    with pytest.raises(TypeError):
        stream.zeros(3, "float31")


def test_shapes_are_kept(stream: ms.Stream) -> None:
    data = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    buffer = stream.create(data)
    assert buffer.shape == (2, 3, 4) and len(buffer) == 2
    assert np.array_equal(stream.read(buffer).wait(), data)
    assert np.array_equal(stream.read(buffer[1:]).wait(), data[1:])
    flat = buffer.reshape([24])
    assert np.array_equal(stream.read(flat[5:9]).wait(), data.ravel()[5:9])
    with pytest.raises(ms.ArgumentError, match="cannot reshape"):
        buffer.reshape([25])
    with pytest.raises(ms.ArgumentError, match="step 1"):
        buffer[::2]


def test_shapes_whose_product_overflows_are_refused(stream: ms.Stream) -> None:
    one = stream.create(b"abcd")
    # 2^64 + 4, and 2^64: a product that wraps would be 4, and 0.
    for shape in ([20, 922337203685477581], [2**32, 2**32], [2**63, 2]):
        with pytest.raises(ms.ArgumentError, match="2\\^63 bytes"):
            one.reshape(shape)
    # Strides overflow although there are no elements.
    for shape in ([0, 2**62, 2**62], [2**62, 2**62, 0]):
        with pytest.raises(ms.ArgumentError, match="2\\^63 bytes"):
            stream.zeros(0, ms.u8).reshape(shape)
        for make in (stream.empty, stream.zeros, stream.recorder().parameter):
            with pytest.raises(ms.ArgumentError, match="2\\^63 bytes"):
                make(shape, ms.u8)
    with pytest.raises(ms.ArgumentError, match="2\\^63 bytes"):
        stream.empty(2**61, ms.f64)
    # Of more digits than Python prints, and of more bits than a product should have.
    for shape in ([10**5000], [-(10**5000)], [2**62] * 100_000):
        with pytest.raises(ms.ArgumentError, match="2\\^63 bytes"):
            one.reshape(shape)
    with pytest.raises(ms.ArgumentError, match=re.escape("to (3, -1)")):
        one.reshape(3, -1)
    assert memoryview(one.reshape([2, 2])).shape == (2, 2)


def test_negative_lengths_and_lengths_of_zero(stream: ms.Stream) -> None:
    buffer, empty = stream.create(np.arange(12, dtype=np.int32)), stream.zeros((0, 5), ms.i32)
    assert buffer.reshape(-1).shape == (12,) and buffer.reshape(3, -1).shape == (3, 4)
    assert buffer.reshape([4, 3]).shape == buffer.reshape(4, 3).shape == buffer.reshape((4, 3)).shape == (4, 3)
    others: list[tuple[Any, tuple[int, ...]]] = [
        (np.array(12), (12,)), (np.int64(12), (12,)), (np.array([3, 4]), (3, 4)), (iter((3, 4)), (3, 4)),
    ]  # fmt: skip
    for given, expected in others:
        assert buffer.reshape(given).shape == expected
    number: Any = 12.0
    with pytest.raises(TypeError, match="float"):
        buffer.reshape(number)
    assert buffer[:1].reshape().shape == buffer[:1].reshape([]).shape == ()
    assert empty.reshape(7, 0).shape == (7, 0) and empty.reshape(-1, 3).shape == (0, 3)
    for shape in ([-2, 6], [-1, -1], [-1, 5], [0, -1], [-(2**40)]):
        with pytest.raises(ms.ArgumentError, match="cannot reshape"):
            buffer.reshape(shape)
    with pytest.raises(ms.ArgumentError, match="cannot reshape"):
        empty.reshape(0, -1)
    with pytest.raises((TypeError, OverflowError)):
        stream.empty(-1, ms.f32)


def test_an_index_takes_an_axis_away(stream: ms.Stream) -> None:
    data = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    buffer = stream.create(data)
    assert np.array_equal(stream.read(buffer[1]).wait(), data[1]) and buffer[-2].shape == (3, 4)
    assert np.array_equal(stream.read(buffer[1][np.int64(2)]).wait(), data[1, 2])
    assert stream.read(buffer[1][2][3]).wait() == 23 and buffer[1][2][3].shape == ()
    for index in (2, -3, 2**70):
        with pytest.raises(IndexError, match="out of range for an axis of length 2"):
            buffer[index]
    with pytest.raises(TypeError, match="no axis"):
        buffer[1][2][3][0]
    with pytest.raises(TypeError, match="an integer or a slice"):
        buffer["x"]  # type: ignore[index]  # pyright: ignore[reportArgumentType, reportCallIssue]
    rows = [stream.read(buffer[0][row]).wait().tolist() for row in range(3)]
    assert rows == data[0].tolist()


def test_numpy_knows_the_element_types(stream: ms.Stream) -> None:
    for dtype, numpy in DTYPES:
        assert np.dtype(stream.empty(1, dtype).dtype) == np.dtype(numpy)
    assert np.zeros(3, ms.i16).dtype == np.int16


def test_arrays_without_elements_or_axes_work(stream: ms.Stream) -> None:
    empty = stream.create(np.empty((0, 3), np.float32))
    assert stream.read(empty).wait().shape == (0, 3)
    scalar = stream.create(np.array(3.5))
    assert scalar.shape == () and stream.read(scalar).wait() == 3.5
    with pytest.raises(TypeError, match="no length"):
        len(scalar)


def test_a_view_of_other_elements_shares_the_bytes(stream: ms.Stream) -> None:
    buffer = stream.create(np.array([1.0, -2.0], np.float32))
    bits = stream.read(buffer.view(ms.u32)).wait()
    assert bits.tolist() == [0x3F800000, 0xC0000000]
    assert buffer.view("u8").shape == (8,)
    with pytest.raises(ms.ArgumentError, match="whole, aligned elements"):
        buffer.view("u8")[1:].view(ms.f32)


def test_lists_and_strided_arrays_are_converted(stream: ms.Stream) -> None:
    assert stream.read(stream.create([1, 2, 3], ms.f32)).wait().tolist() == [1.0, 2.0, 3.0]
    strided = np.arange(10, dtype=np.float64)[::3]
    assert stream.read(stream.create(strided)).wait().tolist() == strided.tolist()
    fortran = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert np.array_equal(stream.read(stream.create(fortran)).wait(), fortran)
    swapped = np.array([1, 2], dtype=">i4")
    assert stream.read(stream.create(swapped, ms.i32)).wait().tolist() == [1, 2]


def test_any_object_with_the_buffer_protocol_is_read(stream: ms.Stream) -> None:
    assert stream.read(stream.create(b"abc")).wait().tolist() == [97, 98, 99]
    assert stream.read(stream.create(array.array("d", [1.5]))).wait().tolist() == [1.5]
    assert stream.read(stream.create(memoryview(bytearray(4)))).wait().tolist() == [0] * 4


def test_a_result_is_a_view_of_memory_that_was_read_into(stream: ms.Stream) -> None:
    result = stream.read(stream.create(np.arange(5.0))).wait()
    assert not result.flags.owndata and result.flags.writeable
    assert result.ctypes.data % 8 == 0
    result[0] = 7.0
    assert result.tolist() == [7.0, 1.0, 2.0, 3.0, 4.0]


def test_memory_that_python_sees_is_not_reused(stream: ms.Stream) -> None:
    kept: list[Any] = []
    for value in range(64):
        buffer = stream.create(np.full(4096, value, np.float32))
        kept.append(stream.read(buffer).wait()[::64])
    gc.collect()
    assert [view[0] for view in kept] == list(range(64))
    assert all((view == view[0]).all() for view in kept)


def test_a_read_lands_in_the_array_of_the_caller(stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(100_000, dtype=np.float32))
    out = np.empty(100_000, np.float32)
    for _ in range(3):
        out.fill(-1)
        assert stream.read(buffer, out=out).wait() is out
        assert out[-1] == 99_999
    rows = np.zeros((2, 4), np.float32)
    stream.read(buffer[:4], out=rows[1]).wait()
    assert rows.tolist() == [[0, 0, 0, 0], [0, 1, 2, 3]]


def test_arrays_that_cannot_receive_are_refused(stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(4, dtype=np.float32))
    with pytest.raises(ms.ArgumentError, match="must have 4 elements, got 5"):
        stream.read(buffer, out=np.empty(5, np.float32))
    with pytest.raises(ms.ArgumentError, match="elements of f32, got format `d`"):
        stream.read(buffer, out=np.empty(4))
    with pytest.raises(ms.ArgumentError, match="not contiguous"):
        stream.read(buffer, out=np.empty(8, np.float32)[::2])
    fixed = np.empty(4, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ms.ArgumentError, match="read-only"):
        stream.read(buffer, out=fixed)


def test_an_array_that_a_read_fills_lives_until_then(stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(1 << 18, dtype=np.float32))
    for _ in range(20):
        # Neither the array nor the answer is kept.
        stream.read(buffer, out=np.empty(1 << 18, np.float32))
    gc.collect()
    assert stream.read(buffer).wait()[7] == 7


def test_an_upload_without_a_copy_holds_the_array(stream: ms.Stream) -> None:
    data = np.arange(1 << 16, dtype=np.float64)
    references = sys.getrefcount(data)
    buffer = stream.create(data, copy=False)
    assert stream.read(buffer).wait()[-1] == (1 << 16) - 1
    stream.write(buffer, data * 2, copy=False)
    assert stream.read(buffer).wait()[3] == 6
    stream.sync().wait()
    for _ in range(1000):
        # The runtime drops the array on its own thread; a later call releases it.
        stream.sync().wait()
        if sys.getrefcount(data) == references:
            break
    assert sys.getrefcount(data) == references


def test_a_copied_array_may_change_at_once(stream: ms.Stream) -> None:
    data = np.zeros(1 << 20, np.float32)
    buffer = stream.create(data)
    data.fill(1)
    assert not stream.read(buffer).wait().any()
    stream.write(buffer, data)
    data.fill(2)
    assert (stream.read(buffer).wait() == 1).all()


def test_writes_and_copies_check_their_lengths(stream: ms.Stream) -> None:
    buffer, other = stream.zeros(4, ms.f32), stream.zeros(5, ms.f32)
    with pytest.raises(ms.ArgumentError, match="`write` was not accepted"):
        stream.write(buffer, [1.0, 2.0])
    with pytest.raises(ms.ArgumentError, match="`copy` was not accepted"):
        stream.copy(buffer, other)
    stream.fill(other, 3.0)
    stream.copy(other[:4], buffer)
    assert stream.read(buffer).wait().tolist() == [3.0] * 4


def test_numbers_outside_of_a_type_are_refused(stream: ms.Stream) -> None:
    with pytest.raises(OverflowError):
        stream.fill(stream.zeros(1, ms.u8), 256)
    with pytest.raises(TypeError):
        stream.fill(stream.zeros(1, ms.i32), 1.5)


def test_sizes_that_overflow_are_refused(stream: ms.Stream) -> None:
    with pytest.raises(ms.ArgumentError, match="exceed 2"):
        stream.empty([1 << 40, 1 << 40], ms.f64)


def test_uniqueness_counts_views(stream: ms.Stream) -> None:
    buffer = stream.zeros(8, ms.f32)
    assert buffer.unique
    view = buffer[:2]
    assert not buffer.unique
    del view
    assert buffer.unique


class Exporter:
    """An array of another library: it has DLPack, and not the buffer protocol."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.data = data

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.data.__dlpack_device__()


class Interface:
    """An array of another library: it has `__array_interface__` alone."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.data = data

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.data.__array_interface__


def test_arrays_of_other_libraries_are_read(stream: ms.Stream) -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    for buffer in (stream.create(Exporter(data)), stream.create(Interface(data))):
        assert buffer.shape == (2, 3) and np.array_equal(stream.read(buffer).wait(), data)
    result = stream.read(stream.create(data)).wait()
    # What a read returns is exported by NumPy: by DLPack, `__array_interface__` and the buffer protocol.
    assert np.shares_memory(np.from_dlpack(result), result)


def test_a_host_without_memory_for_an_answer_is_out_of_memory(stream: ms.Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = stream.zeros(4, ms.f32)

    def refuse(*_: Any, **__: Any) -> None:
        raise MemoryError("no room for an array")

    monkeypatch.setattr(np, "empty", refuse)
    with pytest.raises(ms.OutOfMemory, match="no room for an array"):
        stream.read(buffer)


def test_an_array_that_numpy_makes_too_short_is_never_written(stream: ms.Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.arange(8, dtype=np.float32)
    buffer = stream.create(data)
    empty: Any = np.empty

    def too_short(elements: int, *options: Any) -> Any:
        return empty(elements // 2, *options)

    monkeypatch.setattr(np, "empty", too_short)
    with pytest.raises(ms.ArgumentError, match="must have 8 elements, got 4"):
        stream.read(buffer)
    # Copies are made without NumPy.
    copy = np.from_dlpack(buffer, copy=True)
    mapped = np.from_dlpack(buffer.map(), copy=True)
    assert copy.tolist() == mapped.tolist() == data.tolist()


def test_an_element_type_may_have_a_subclass(stream: ms.Stream) -> None:
    class Metres(ms.f32):
        """An element type of a program."""

    assert Metres.itemsize == 4 and stream.zeros(2, Metres).dtype is ms.f32
