"""A consumer of DLPack written with ctypes, which looks at every field. NumPy hides some of them."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar


class DLTensor(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    """``DLManagedTensor``."""

    _fields_: ClassVar[Any] = [
        ("tensor", DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class ManagedVersioned(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_: ClassVar[Any] = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


READ_ONLY, IS_COPIED = 1, 2

_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Taken:
    """A tensor that this has taken out of its capsule."""

    def __init__(self, capsule: Any) -> None:
        self.versioned = bool(_api.PyCapsule_IsValid(capsule, b"dltensor_versioned"))
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        kind: Any = ManagedVersioned if self.versioned else Managed
        self.address: int = _api.PyCapsule_GetPointer(capsule, name)
        self.managed: Any = kind.from_address(self.address)
        # The names must outlive the capsule.
        self._used = b"used_" + name
        _api.PyCapsule_SetName(capsule, self._used)
        self._capsule = capsule

    @property
    def tensor(self) -> Any:
        return self.managed.tensor

    @property
    def shape(self) -> list[int]:
        return list(self.tensor.shape[: self.tensor.ndim])

    @property
    def strides(self) -> list[int]:
        return list(self.tensor.strides[: self.tensor.ndim])

    @property
    def element(self) -> tuple[int, int, int]:
        return (self.tensor.code, self.tensor.bits, self.tensor.lanes)

    def bytes(self, size: int) -> bytes:
        return ctypes.string_at(self.tensor.data + self.tensor.byte_offset, size)

    def delete(self) -> None:
        """Calls the deleter without the interpreter's lock, as ctypes does for a function of C."""
        deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.managed.deleter)
        deleter(self.address)


class Producer:
    """An array of another library. Counts its consumers, and keeps the options of the last request."""

    def __init__(
        self, data: bytes, shape: list[int], strides: list[int] | None, element: tuple[int, int, int], **how: Any
    ) -> None:
        self.options: dict[str, Any] = {}
        self.taken = 0
        self.deleted = 0
        self._device = how.get("device", (1, 0))
        self._refuses = how.get("refuses", ())
        self._kind: Any = how.get("kind", ManagedVersioned)
        self._data = ctypes.create_string_buffer(data, len(data))
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * len(shape))(*strides)
        self._delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._on_delete)
        managed = self._kind()
        if self._kind is ManagedVersioned:
            managed.major = how.get("major", 1)
        managed.deleter = ctypes.cast(self._delete, ctypes.c_void_p).value
        tensor = managed.tensor
        tensor.data = ctypes.addressof(self._data)
        tensor.device_type, tensor.device_id = self._device
        tensor.ndim = len(shape)
        tensor.code, tensor.bits, tensor.lanes = element
        tensor.shape = ctypes.cast(self._shape, ctypes.POINTER(ctypes.c_int64))
        if self._strides is not None:
            tensor.strides = ctypes.cast(self._strides, ctypes.POINTER(ctypes.c_int64))
        tensor.byte_offset = how.get("byte_offset", 0)
        self._managed = managed

    def _on_delete(self, _managed: Any) -> None:
        self.deleted += 1

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._device
        return device

    def __dlpack__(self, **options: Any) -> Any:
        for option in self._refuses:
            if option in options:
                raise TypeError(f"no option {option}")
        self.options = options
        self.taken += 1
        name = b"dltensor_versioned" if self._kind is ManagedVersioned else b"dltensor"
        return _api.PyCapsule_New(ctypes.addressof(self._managed), name, None)
