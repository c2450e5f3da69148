//! Texts with values.

use super::*;

fn written(text: &str, dtype: DType, bits: u64) -> String {
    Text::parse(text).unwrap().with(|_| (dtype, bits))
}

macro_rules! as_rust {
    ($dtype:ident, $value:expr, $bits:expr, $($text:literal)*) => {$(
        let value = $value;
        assert_eq!(written($text, DType::$dtype, $bits), format!($text, value), "{}", $text);
    )*};
}

#[test]
fn numbers_are_written_as_rust_writes_them() {
    for value in [
        0.0_f32,
        -0.0,
        1.0,
        -2.5,
        1e30,
        0.1,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
    ] {
        as_rust!(F32, value, value.to_bits().into(),
            "{}" "{:?}" "{:.3}" "{:8.2}" "{:<8}|" "{:*^9}" "{:>+9.1}" "{:08.2}" "{:+}" "{:e}" "{:.2e}" "a{{{}}}b" "{:.1?}");
    }
    for value in [0.0_f64, 0.1, -1e300, 123456.789] {
        as_rust!(F64, value, value.to_bits(), "{}" "{:?}" "{:.3}" "{:012.4}" "{:e}");
    }
    for value in [0_i32, 7, -1, i32::MIN] {
        let bits = Number::Whole(value.into()).exact_bits(DType::I32).unwrap();
        as_rust!(I32, value, bits, "{}" "{:?}" "{:5}" "{:<5}|" "{:05}" "{:+}" "{:x}" "{:#x}" "{:#010b}" "{:X}" "{:o}");
    }
    as_rust!(U64, u64::MAX, u64::MAX, "{}" "{:x}" "{:#b}");
    for value in [true, false] {
        as_rust!(Bool, value, value.into(), "{}" "{:?}" "{:8}|" "{:>8}");
    }
    let half = scalar::cast(DType::F32, DType::F16)(1.5_f32.to_bits().into());
    assert_eq!(written("{} {{", DType::F16, half), "1.5 {");
}

#[test]
fn other_format_strings_are_refused() {
    for text in [
        "{x}", "{0}", "{:1$}", "{:.*}", "{", "}", "{:99}", "{:.99}", "{:p}",
    ] {
        assert!(Text::parse(text).is_err(), "{text}");
    }
}
