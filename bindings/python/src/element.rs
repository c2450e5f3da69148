//! Element types: their classes in Python, and the formats of the buffer protocol.

use std::ffi::CStr;

use millstream::DType;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use crate::errors::{argument_error, named};

/// The classes of `millstream._types`, in the order of [`DType::ALL`].
static CLASSES: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();

/// Returns the class of an element type, such as `millstream.f32`.
pub(crate) fn class_of(py: Python<'_>, dtype: DType) -> PyResult<Py<PyAny>> {
    let classes = CLASSES.get_or_try_init(py, || {
        let by_name = py.import("millstream._types")?.getattr("CLASSES")?;
        let class = |dtype: &DType| Ok(by_name.get_item(dtype.name())?.unbind());
        DType::ALL.iter().map(class).collect::<PyResult<Vec<_>>>()
    })?;
    let place = DType::ALL.iter().position(|other| *other == dtype);
    let class = place.and_then(|place| classes.get(place));
    class
        .map(|class| class.clone_ref(py))
        .ok_or_else(|| argument_error(format!("element type `{dtype}` has no class")))
}

/// Converts a class of `millstream`, a name such as `"f32"`, or anything that NumPy takes as a dtype.
pub(crate) fn parse(dtype: &Bound<'_, PyAny>) -> PyResult<DType> {
    let py = dtype.py();
    let name = dtype.getattr("_dtype");
    if let Ok(name) = name.as_ref().unwrap_or(dtype).cast::<PyString>()
        && let Some(found) = DType::from_name(&name.to_string())
    {
        return Ok(found);
    }
    let found: String = py
        .import("millstream._types")?
        .call_method1("numpy_dtype_name", (dtype,))?
        .extract()?;
    DType::from_name(&found).ok_or_else(|| {
        argument_error(format!(
            "expected an element type such as `millstream.f32`, got {found}"
        ))
    })
}

/// Makes an array of NumPy, of one axis, with undefined contents. One of `bf16` is of `ml_dtypes.bfloat16` if that is
/// installed, else of the bits.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn empty_array(
    py: Python<'_>,
    dtype: DType,
    elements: usize,
) -> PyResult<Bound<'_, PyAny>> {
    let dtype = class_of(py, dtype)?.getattr(py, "dtype")?;
    let made = py.import("numpy")?.call_method1("empty", (elements, dtype));
    made.map_err(|error| match error.is_instance_of::<PyMemoryError>(py) {
        true => named("OutOfMemory", error.value(py).to_string()),
        false => error,
    })
}

/// What an element type is called elsewhere.
pub(crate) struct Form {
    /// The code of DLPack.
    pub(crate) code: u8,
    /// The kind in type strings of NumPy.
    kind: char,
    /// The format of the buffer protocol.
    pub(crate) format: &'static CStr,
}

/// Returns what an element type is called elsewhere. `bf16` is known to DLPack alone: otherwise it is exported as `u16`.
pub(crate) fn form_of(dtype: DType) -> Form {
    let (code, kind, format) = match dtype {
        DType::F64 => (2, 'f', c"d"),
        DType::F32 => (2, 'f', c"f"),
        DType::F16 => (2, 'f', c"e"),
        DType::Bf16 => (4, 'u', c"H"),
        DType::I64 => (0, 'i', c"q"),
        DType::I32 => (0, 'i', c"i"),
        DType::I16 => (0, 'i', c"h"),
        DType::I8 => (0, 'i', c"b"),
        DType::U64 => (1, 'u', c"Q"),
        DType::U32 => (1, 'u', c"I"),
        DType::U16 => (1, 'u', c"H"),
        DType::Bool => (6, 'b', c"?"),
        DType::U8 => (1, 'u', c"B"),
        _ => unreachable!("`{dtype}` has no form: add it here"),
    };
    Form { code, kind, format }
}

/// The byte order of the machine, in formats and type strings.
const ORDER: char = if cfg!(target_endian = "little") {
    '<'
} else {
    '>'
};

/// Returns the type string of an element type in the array interface.
pub(crate) fn typestr_of(dtype: DType) -> String {
    let order = if dtype.size() == 1 { '|' } else { ORDER };
    format!("{order}{}{}", form_of(dtype).kind, dtype.size())
}

/// Returns the element type of a format of the buffer protocol, in the byte order of the machine.
pub(crate) fn of_format(format: &CStr, item_bytes: usize) -> Option<DType> {
    let format = format.to_str().ok()?;
    let kind = match format.strip_prefix(['@', '=', ORDER]).unwrap_or(format) {
        "d" | "f" | "e" => 'f',
        "?" => 'b',
        "b" | "h" | "i" | "l" | "q" | "n" => 'i',
        "B" | "c" | "H" | "I" | "L" | "Q" | "N" => 'u',
        _ => return None,
    };
    let fits = |dtype: &DType| dtype.size() == item_bytes && form_of(*dtype).kind == kind;
    let mut all = DType::ALL.into_iter();
    all.find(|dtype| fits(dtype) && *dtype != DType::Bf16)
}

/// Returns the bits of a number as an element, in the low end of a word.
pub(crate) fn bits_of(dtype: DType, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    Ok(match dtype {
        DType::F64 => value.extract::<f64>()?.to_bits(),
        DType::F32 => u64::from((value.extract::<f64>()? as f32).to_bits()),
        DType::F16 => u64::from(millstream::f16::from_f64(value.extract()?).to_bits()),
        DType::Bf16 => u64::from(millstream::bf16::from_f64(value.extract()?).to_bits()),
        DType::I64 => value.extract::<i64>()? as u64,
        DType::U64 => value.extract::<u64>()?,
        DType::I32 => u64::from(value.extract::<i32>()? as u32),
        DType::U32 => u64::from(value.extract::<u32>()?),
        DType::I16 => u64::from(value.extract::<i16>()? as u16),
        DType::U16 => u64::from(value.extract::<u16>()?),
        DType::I8 => u64::from(value.extract::<i8>()? as u8),
        DType::Bool => u64::from(value.is_truthy()?),
        DType::U8 => u64::from(value.extract::<u8>()?),
        _ => return Err(argument_error(format!("there are no numbers of {dtype}"))),
    })
}
