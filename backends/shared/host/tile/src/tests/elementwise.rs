//! Nests without inner axes.

use millstream_ir::scalar::Number;
use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp};

use super::{Draft, check, check_within, filled, nest};

const WIDTHS: [usize; 9] = [0, 1, 31, 32, 33, 64, 1000, 4096, 5000];
const LANES: &str = "outer 1 inner 0 words 1";

/// Two as a word, or true for booleans.
fn two(dtype: DType) -> u64 {
    match dtype {
        DType::Bool => 1,
        dtype => Number::Float(2.0).bits(dtype),
    }
}

#[test]
fn chain_matches_the_reference_at_every_width() {
    let [input, output] = ["f32 read [1]", "f32 write [1]"];
    let body = "%0 f32 = load 0  %1 f32 = load 1  %2 f32 = load 2
        %3 f32 = mul %0 %1  %4 f32 = add %3 %2  %5 f32 = exp %4  store inner 3 %5";
    let chain = nest(LANES, &[input, input, input, output], body);
    for width in WIDTHS {
        check_within(&chain, &filled(&chain, width), &[], &[width as u64], 1);
    }
}

#[test]
fn unary_operations_match_the_reference_for_every_type() {
    for dtype in DType::ALL {
        for op in UnaryOp::ALL.iter().filter(|op| op.takes(dtype)) {
            let buffers = ["read", "write"].map(|mode| format!("{dtype} {mode} [1]"));
            let body = format!("%0 {dtype} = load 0  %1 {dtype} = {op} %0  store inner 1 %1");
            let nest = nest(LANES, &buffers.each_ref().map(String::as_str), &body);
            check_within(&nest, &filled(&nest, 300), &[], &[300], op.units());
        }
    }
}

/// Returns two tiles and a word, with the pairs of two tiles, a tile and a word, a word and a tile, and two words.
fn operands(dtype: DType) -> (Draft, [(usize, usize); 4]) {
    let mut draft = Draft::new("outer 1 inner 0 words 2", &[]);
    for at in 0..2 {
        draft.buffer(format!("{dtype} read [1]"));
        draft.value(dtype, format!("load {at}"));
    }
    draft.value(dtype, "word w1");
    (draft, [(0, 1), (0, 2), (2, 1), (2, 2)])
}

/// Adds a value, and stores it to a buffer of its own. Returns its number.
fn stored(draft: &mut Draft, dtype: DType, op: String) -> usize {
    let value = draft.value(dtype, op);
    let buffer = draft.buffer(format!("{dtype} write [1]"));
    draft.store("inner", buffer, value);
    value
}

#[test]
fn binary_operations_match_the_reference_for_every_type() {
    for dtype in DType::ALL {
        for op in BinaryOp::ALL.iter().filter(|op| op.takes(dtype)) {
            let (mut draft, pairs) = operands(dtype);
            for (a, b) in pairs {
                stored(&mut draft, dtype, format!("{op} %{a} %{b}"));
            }
            let (nest, words) = (draft.nest(), [333, two(dtype)]);
            check_within(&nest, &filled(&nest, 333), &[], &words, op.units());
        }
    }
}

#[test]
fn comparisons_match_the_reference_for_every_type() {
    for dtype in DType::ALL {
        if matches!(dtype, DType::F16 | DType::Bf16) {
            continue;
        }
        for op in &CompareOp::ALL {
            let (mut draft, pairs) = operands(dtype);
            for (a, b) in pairs {
                let is = stored(&mut draft, DType::Bool, format!("{op} %{a} %{b}"));
                stored(&mut draft, dtype, format!("select %{is} %{a} %{b}"));
            }
            let nest = draft.nest();
            check(&nest, &filled(&nest, 99), &[99, two(dtype)]);
        }
    }
}

#[test]
fn casts_match_the_reference() {
    for from in DType::ALL {
        let input = format!("{from} read [1]");
        let mut draft = Draft::new(LANES, &[&input]);
        draft.value(from, "load 0");
        for to in DType::ALL {
            stored(&mut draft, to, "cast %0".to_owned());
        }
        let nest = draft.nest();
        check(&nest, &filled(&nest, 400), &[400]);
    }
}

#[test]
fn nest_in_place_matches_the_reference() {
    let body = "%0 f32 = load 0  %1 f32 = const 0x3f800000
        %2 f32 = add %0 %1  %3 f32 = mul %2 %0  store inner 1 %3";
    let nest = nest(LANES, &["f32 read [1]", "f32 write [1]"], body);
    for width in [1, 100, 5000] {
        check_within(&nest, &filled(&nest, width), &[0, 0], &[width as u64], 0);
    }
}

/// Rows and columns: transposed, repeated, with gaps and reversed, over axes of many lengths.
#[test]
fn every_order_of_strides_matches_the_reference() {
    let walks = [
        "[w2 1]",
        "[1 w3]",
        "[0 1]",
        "[1 0]",
        "+ w6 [w4 w5]",
        "[0 0]",
    ];
    let mut draft = Draft::new("outer 2 inner 0 words 7", &[]);
    let mut sum = draft.value(DType::I32, "const 0x3");
    for walk in walks {
        let buffer = draft.buffer(format!("i32 read {walk}"));
        let loaded = draft.value(DType::I32, format!("load {buffer}"));
        sum = draft.value(DType::I32, format!("add %{sum} %{loaded}"));
    }
    for axis in 0..2 {
        let index = draft.value(DType::I64, format!("index {axis}"));
        let index = draft.value(DType::I32, format!("cast %{index}"));
        sum = draft.value(DType::I32, format!("xor %{sum} %{index}"));
    }
    for (level, walk) in [("inner", walks[0]), ("outer", walks[1])] {
        let buffer = draft.buffer(format!("i32 write {walk}"));
        draft.store(level, buffer, sum);
    }
    let nest = draft.nest();
    for (rows, columns) in [
        (1, 7),
        (3, 5),
        (130, 3),
        (2, 300),
        (40, 129),
        (5000, 1),
        (1, 5000_u64),
    ] {
        let lens = [rows, columns, columns, rows];
        let gaps = [2 * columns, (-2_i64) as u64, 2 * columns - 2];
        let buffers = filled(&nest, (rows * columns * 4) as usize);
        check(&nest, &buffers, &[&lens[..], &gaps].concat());
    }
}

#[test]
fn access_outside_its_binding_is_refused_and_touches_nothing() {
    let copies = ["f32 read [1]", "f32 write [1]"];
    let nest = nest(LANES, &copies, "%0 f32 = load 0  store inner 1 %0");
    let buffers = [vec![1; 40], vec![2; 36]];
    let error = super::run(&nest, &buffers, &[], &[10]).expect_err("the access is out of bounds");
    assert_eq!(
        error.to_string(),
        "access 1 reaches elements 0 to 9 of binding 1, which has 9; check the launch's lengths, strides and offsets"
    );
    for len in [u64::MAX, 1 << 62, 1 << 63] {
        assert!(super::run(&nest, &buffers, &[], &[len]).is_err());
    }
}
