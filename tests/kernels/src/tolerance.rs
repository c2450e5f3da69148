//! Assertions that compare results with expected ones, exactly or within a tolerance.

use millstream_ir::DType;
use millstream_ir::scalar::Number;

/// Asserts that the elements are equal, as are any two NaNs and the two zeros.
pub fn assert_same(what: &str, dtype: DType, actual: &[u8], expected: &[u8]) {
    assert_within(0.0, (what, dtype), actual, expected);
}

/// Asserts that integers are equal, and that floats differ by no more than functions and the order of sums allow.
pub fn assert_close(what: &str, dtype: DType, actual: &[u8], expected: &[u8]) {
    let tolerance = match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 1e-5,
        DType::F16 => 1e-3,
        DType::Bf16 => 8e-3,
        _ => 0.0,
    };
    assert_within(tolerance, (what, dtype), actual, expected);
}

fn assert_within(tolerance: f64, (what, dtype): (&str, DType), actual: &[u8], expected: &[u8]) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    let elements = actual
        .chunks(dtype.size())
        .zip(expected.chunks(dtype.size()));
    for (index, (actual, expected)) in elements.enumerate() {
        if actual == expected {
            continue;
        }
        let [a, b] = [actual, expected].map(|bytes| Number::load(dtype, bytes).float());
        let close = (a - b).abs() <= tolerance * b.abs().max(1.0) || (a.is_nan() && b.is_nan());
        assert!(
            dtype.is_float() && close,
            "{what}: element {index} of {dtype} is {a:?} {actual:x?}, expected {b:?} {expected:x?}"
        );
    }
}
