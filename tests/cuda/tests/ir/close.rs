//! How close results are to what they should be.

use millstream_ir::DType;
use millstream_ir::scalar::Number;

/// Are these the same?
pub(crate) fn assert_same(what: &str, dtype: DType, given: &[u8], expected: &[u8]) {
    assert_within(0.0, (what, dtype), given, expected);
}

/// Are these the same, floats as far as functions and sums may differ?
pub(crate) fn assert_close(what: &str, dtype: DType, given: &[u8], expected: &[u8]) {
    let tolerance = match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 1e-5,
        DType::F16 => 1e-3,
        DType::Bf16 => 8e-3,
        _ => 0.0,
    };
    assert_within(tolerance, (what, dtype), given, expected);
}

fn assert_within(tolerance: f64, (what, dtype): (&str, DType), given: &[u8], expected: &[u8]) {
    assert_eq!(given.len(), expected.len(), "{what}");
    let elements = given
        .chunks(dtype.size())
        .zip(expected.chunks(dtype.size()));
    for (index, (given, expected)) in elements.enumerate() {
        if given == expected {
            continue;
        }
        let [a, b] = [given, expected].map(|bytes| Number::load(dtype, bytes).float());
        let close = (a - b).abs() <= tolerance * b.abs().max(1.0) || (a.is_nan() && b.is_nan());
        assert!(
            dtype.is_float() && close,
            "{what}: element {index} of {dtype} is {a:?} {given:x?}, expected {b:?} {expected:x?}"
        );
    }
}
