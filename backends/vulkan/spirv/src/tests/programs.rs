//! Whole programs lower to valid modules: random functions, and all kinds of nests and products.

use millstream_ir::lower::{matmul, nest};
use millstream_ir::{Blocking, DType, Matmul, Nest, Program, lower as ir};

use super::validity::check;

const NESTS: [&str; 4] = [
    "nest outer 1 inner 1 words 4
     buffer 0 f32 read  buffer 1 f32 write
     access 0 = buffer 0 [w2 1]  access 1 = buffer 1 [w3 1]
     %0 f32 = load 0  %1 f32 = reduce max %0
     %2 f32 = sub %0 %1  %3 f32 = exp %2  %4 f32 = reduce sum %3  %5 f32 = div %3 %4
     store inner 1 %5",
    "nest outer 1 inner 1 words 3
     buffer 0 bf16 read  buffer 1 i64 write
     access 0 = buffer 0 [w2 1]  access 1 = buffer 1 [1 0]
     %0 bf16 = load 0  %1 f32 = cast %0  %2 i64 = reduce argmin %1
     store outer 1 %2",
    "nest outer 1 inner 0 words 2
     buffer 0 f16 read  buffer 1 f16 write
     access 0 = buffer 0 + w1 [1]  access 1 = buffer 1 [1]
     %0 f16 = load 0  %1 f32 = cast %0  %2 f32 = erf %1  %3 f16 = cast %2
     store outer 1 %3",
    "nest outer 2 inner 1 words 6
     buffer 0 u8 read  buffer 1 bool write
     access 0 = buffer 0 [w3 w4 1]  access 1 = buffer 1 [w5 1 0]
     %0 u8 = load 0  %1 bool = cast %0  %2 bool = reduce max %1
     store outer 1 %2",
];

fn parsed(text: &str) -> Nest {
    let nest: Nest = text.parse().unwrap_or_else(|error| panic!("{error}"));
    nest.check().unwrap_or_else(|error| panic!("{error}"));
    nest
}

#[test]
fn every_kind_of_nest_is_valid() {
    for text in NESTS {
        let parsed = parsed(text);
        let program = Program::Nest(parsed.clone());
        for blocking in ir::blockings(&program)
            .into_iter()
            .chain([Blocking::DEFAULT])
        {
            for (kind, function) in nest(&parsed, blocking).expect("the nest lowers") {
                check(&format!("{kind:?} of {text}"), &function);
            }
        }
    }
}

#[test]
fn every_blocking_of_a_product_is_valid() {
    for dtype in [DType::F32, DType::F16, DType::I32] {
        let product = Matmul {
            dtype,
            batch: 1,
            partial: false,
            epilogue: None,
        };
        let program = Program::Matmul(product.clone());
        for blocking in ir::blockings(&program)
            .into_iter()
            .step_by(5)
            .chain([Blocking::DEFAULT])
        {
            let function = matmul(&product, blocking).expect("the product lowers");
            check(&format!("product of {dtype}, {blocking}"), &function);
        }
    }
}
