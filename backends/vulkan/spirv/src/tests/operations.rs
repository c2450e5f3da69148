//! Every operation lowers, to valid modules.

use millstream_ir::ssa::{Builder, MemoryRef, Position, Shuffle, Val};
use millstream_ir::{DType, ReduceOp};
use millstream_kernel_cases::control::atomics;
use millstream_kernel_cases::operations::Case;
use spirv::{Capability, Decoration, LoopControl, Op, StorageClass};

use super::ALL_FEATURES;
use super::validity::{check, targets, validate};
use crate::{Buffers, Features, LowerError, Module, Parameters, Target, lower};

#[test]
fn every_operation_on_every_type_is_valid() {
    for case in Case::all() {
        check(&format!("{case:?}"), &case.function());
    }
}

/// Products, and the sums and differences of which a product is an operand, are what a device may contract.
#[test]
fn only_functions_that_may_contract_leave_products_and_their_sums_undecorated() {
    let exact = |contract: bool| {
        let k = Builder::new("contracts", [1, 1, 1]);
        if contract {
            k.contract();
        }
        let x = k.update("x", DType::F32);
        let [a, b, c] = [0, 1, 2].map(|index| x.get(index));
        let product = a * b;
        x.set(3, product + c);
        x.set(4, c - product);
        x.set(5, (a + b) - c);
        x.set(6, -(a * c));
        let function = k.build().expect("the function is valid");
        check("contracts", &function);
        let module = lower(&function, &targets()[0].1).expect("the target has all it needs");
        let decorated = |words: &[u32]| {
            words.starts_with(&[Op::Decorate as u32 | 3 << 16])
                && words[2] == Decoration::NoContraction as u32
        };
        module
            .words
            .windows(3)
            .filter(|words| decorated(words))
            .count()
    };
    assert_eq!(exact(false), 7);
    // The sum, the difference from it, and the negation.
    assert_eq!(exact(true), 3);
}

#[test]
fn every_reduction_is_valid() {
    for dtype in DType::ALL {
        let ops = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max];
        for op in ops.into_iter().filter(|op| op.takes(dtype)) {
            for threads in [[96, 1, 1], [8, 3, 2], [33, 1, 1], [1, 1, 1]] {
                let k = Builder::new("reduces", threads);
                let (a, b) = (k.read("a", dtype), k.update("b", dtype));
                let value = a.get(k.index());
                b.set(k.index(), value.reduce(op));
                if threads[0].is_power_of_two() {
                    b.set(k.index() + 1, value.reduce_subgroup(threads[0], op));
                }
                if threads[0].is_multiple_of(4) {
                    b.set(k.index() + 2, value.reduce_subgroup(4, op));
                    let shuffled = value.shuffle(Shuffle::Down, 4, k.thread());
                    b.set(k.index() + 3, shuffled);
                }
                let function = k.build().expect("the function is valid");
                check(&format!("{op} of {dtype}"), &function);
            }
        }
    }
}

/// Subgroups that are the device's, or parts of them, in cubes that have no others.
#[test]
fn subgroups_are_those_of_the_device_if_it_has_them() {
    let width = |threads, width, target: &Target| {
        let k = Builder::new("exchanges", threads);
        let y = k.update("y", DType::U32);
        let sum = y.get(k.index()).reduce_subgroup(width, ReduceOp::Sum);
        y.set(k.index(), sum);
        let function = k.build().expect("the function is valid");
        let module = lower(&function, target).expect("the target has all it needs");
        module.subgroup_width
    };
    let [(_, with), (_, without), _] = targets();
    for (threads, of, expected) in [
        ([64, 1, 1], 8, 8),
        ([24, 2, 2], 4, 8),
        ([64, 1, 1], 16, 0),
        ([12, 1, 1], 4, 0),
        // More subgroups than a cube may have.
        ([512, 1, 1], 8, 0),
    ] {
        assert_eq!(width(threads, of, &with), expected, "{of} of {threads:?}");
        assert_eq!(width(threads, of, &without), 0, "{of} of {threads:?}");
    }
}

#[test]
fn every_atomic_operation_is_valid() {
    for dtype in [
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F32,
        DType::F64,
    ] {
        let k = Builder::new("adds", [64, 1, 1]);
        let (a, b) = (k.read("a", dtype), k.update("b", dtype));
        let shared = k.shared("s", dtype, 64);
        shared.set(k.thread(), a.get(k.index()));
        k.barrier();
        shared.add(0, a.get(k.index()));
        k.barrier();
        b.add(k.thread(), shared.get(0));
        let function = k.build().expect("the function is valid");
        check(&format!("additions of {dtype}"), &function);
        check(&format!("atomics of {dtype}"), &atomics(dtype).function);
    }
}

#[test]
fn every_type_in_every_memory_is_valid() {
    for dtype in DType::ALL {
        for lanes in [1, 2, 4, 8, 16_u8] {
            if usize::from(lanes) * dtype.size() > 16 {
                continue;
            }
            let k = Builder::new("moves", [64, 1, 1]);
            let (a, b) = (k.read("a", dtype), k.update("b", dtype));
            let word = k.scalar("word", dtype);
            let shared = k.shared("s", dtype, 1024);
            let local = k.local("l", dtype, 16);
            let at = k.thread() * i64::from(lanes);
            shared.set(at, a.get_wide(at, lanes));
            k.barrier();
            local.set(0, shared.get_wide(at, lanes));
            let var = k.var("v", word);
            k.when(
                local.get(3).compare(millstream_ir::CompareOp::Ne, word),
                || {
                    var.set(local.get(k.thread()));
                },
            );
            b.set(at, local.get_wide(0, lanes));
            b.set(0, var.get());
            let function = k.build().expect("the function is valid");
            check(&format!("{lanes} lanes of {dtype}"), &function);
        }
    }
}

#[test]
fn every_position_is_valid() {
    use millstream_ir::ssa::Axis::{X, Y, Z};
    let k = Builder::new("positions", [4, 2, 2]);
    let out = k.update("out", DType::I64);
    for (index, axis) in [X, Y, Z].into_iter().enumerate() {
        let all = [
            Position::Thread,
            Position::Cube,
            Position::Threads,
            Position::Cubes,
        ];
        for (nth, position) in all.into_iter().enumerate() {
            out.set((4 * index + nth) as i64, k.position(position, axis));
        }
    }
    let function = k.build().expect("the function is valid");
    check("positions", &function);
    let module = lower(&function, &Target::default()).expect("it lowers");
    // An address, and the grid.
    assert_eq!(
        (module.parameter_bytes, module.parameters),
        (32, Parameters::Pushed)
    );
    let target = Target {
        parameter_bytes_max: 16,
        ..Target::default()
    };
    let module = lower(&function, &target).expect("it lowers");
    assert_eq!(
        (module.parameter_bytes, module.parameters),
        (32, Parameters::Spilled)
    );
}

/// Returns the operands of the first such instruction with this operand at a place.
fn first(module: &Module, op: Op, (place, operand): (usize, u32)) -> Vec<u32> {
    let found = instructions(module)
        .find(|(code, operands)| *code == op as u32 && operands[place] == operand);
    match found {
        Some((_, operands)) => operands.to_vec(),
        None => panic!("the module has no {op:?} of {operand}"),
    }
}

/// Returns the code and the operands of each instruction.
fn instructions(module: &Module) -> impl Iterator<Item = (u32, &[u32])> {
    let mut rest = &module.words[5..];
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let (instruction, behind) = rest.split_at((first >> 16) as usize);
        rest = behind;
        Some((first & 0xFFFF, &instruction[1..]))
    })
}

/// Whatever its size, a spilled block is passed by its address alone.
#[test]
fn spilled_parameters_push_the_eight_bytes_of_an_address() {
    let k = Builder::new("spills", [1; 3]);
    let out = k.update("out", DType::I64);
    let words = ["a", "b", "c"].map(|name| k.scalar(name, DType::I64));
    out.set(0, words.into_iter().fold(k.cube(), |sum, word| sum + word));
    let function = k.build().expect("the function is valid");
    for (parameter_bytes_max, parameters, pushed_words) in [
        (128, Parameters::Pushed, 4 + 3),
        (55, Parameters::Spilled, 1),
    ] {
        let target = Target {
            parameter_bytes_max,
            ..Target::default()
        };
        let module = lower(&function, &target).expect("it lowers");
        assert_eq!(
            (module.parameters, module.parameter_bytes),
            (parameters, 8 * (4 + 3))
        );
        let class = StorageClass::PushConstant as u32;
        let pointer = first(&module, Op::TypePointer, (1, class));
        let block = first(&module, Op::TypeStruct, (0, pointer[2]));
        let array = first(&module, Op::TypeArray, (0, block[1]));
        let length = first(&module, Op::Constant, (1, array[2]));
        assert_eq!(length[2], pushed_words, "{parameters:?}");
    }
}

/// Drivers keep a local array in registers only if loops over it are unrolled.
#[test]
fn only_loops_over_local_arrays_are_to_be_unrolled() {
    for (is_local, control) in [(true, LoopControl::UNROLL), (false, LoopControl::NONE)] {
        let k = Builder::new("loops", [1; 3]);
        let (out, local) = (k.update("out", DType::F32), k.local("l", DType::F32, 4));
        let memory = if is_local { local } else { out };
        k.unrolled(4, |i| memory.set(i, 1.0));
        let function = k.build().expect("the function is valid");
        let module = lower(&function, &Target::default()).expect("it lowers");
        first(&module, Op::LoopMerge, (2, control.bits()));
    }
}

/// Loops are unrolled to at most 64 copies of a statement, also within each other.
#[test]
fn unrolled_loops_make_few_copies() {
    let controls = |counts: &[u32]| {
        let k = Builder::new("loops", [1; 3]);
        let local = k.local("l", DType::F32, 4096);
        nested(&k, counts, k.thread(), local);
        let module =
            lower(&k.build().expect("it is valid"), &Target::default()).expect("it lowers");
        let loops = instructions(&module).filter(|(op, _)| *op == Op::LoopMerge as u32);
        loops.map(|(_, operands)| operands[2]).collect::<Vec<_>>()
    };
    let [unroll, none] = [LoopControl::UNROLL, LoopControl::NONE].map(|control| control.bits());
    assert_eq!(controls(&[64]), [unroll]);
    assert_eq!(controls(&[65]), [none]);
    assert_eq!(controls(&[8, 8]), [unroll, unroll]);
    assert_eq!(controls(&[16, 16]), [unroll, none]);
    assert_eq!(controls(&[4096, 4]), [none, unroll]);
}

/// Writes loops within each other, the innermost of which stores to the array.
fn nested<'k>(k: &'k Builder, counts: &[u32], at: Val<'k>, to: MemoryRef<'k>) {
    match counts {
        [count, inner @ ..] => k.unrolled(*count, |i| nested(k, inner, at + i, to)),
        [] => to.set(at, 1.0),
    }
}

/// Drivers know the number of iterations only if the head of the loop compares the index.
#[test]
fn only_loops_with_constant_bounds_compare_the_index() {
    let ends = |end: fn(&Builder) -> Val<'_>, step: i64| {
        let k = Builder::new("loops", [1; 3]);
        let out = k.update("out", DType::I64);
        k.range(1, end(&k), step, |i| out.set(i, i));
        let function = k.build().expect("the function is valid");
        check("a loop", &function);
        let module = lower(&function, &Target::default()).expect("it lowers");
        let count = |wanted: Op| {
            let all = instructions(&module);
            all.filter(|(op, _)| *op == wanted as u32).count()
        };
        (count(Op::Phi), count(Op::UGreaterThan))
    };
    assert_eq!(ends(|k| k.bits(DType::I64, 9), 2), (1, 0));
    assert_eq!(ends(|k| k.scalar("n", DType::I64), 2), (2, 1));
    // The index behind the last one would exceed `i64`.
    assert_eq!(ends(|k| k.bits(DType::I64, i64::MAX as u64), 2), (2, 1));
}

#[test]
fn a_function_without_statements_is_valid() {
    let function = Builder::new("empty", [1; 3]).build().expect("it is valid");
    for (name, target) in targets() {
        let module = lower(&function, &target).expect("it lowers");
        assert_eq!(module.parameter_bytes, 0, "{name}");
        validate(name, &module);
    }
}

/// Returns the capabilities that a module declares, which precede its other instructions.
fn capabilities(module: &Module) -> Vec<Capability> {
    let pairs = module.words[5..].as_chunks::<2>().0.iter();
    let declared = pairs.take_while(|[first, _]| *first == 2 << 16 | Op::Capability as u32);
    declared
        .filter_map(|[_, capability]| Capability::from_u32(*capability))
        .collect()
}

#[test]
fn a_target_lists_what_it_lacks() {
    let of = |dtype, features| {
        let k = Builder::new("kernel", [1; 3]);
        let memory = k.update("memory", dtype);
        memory.set(0, memory.get(1));
        let function = k.build().expect("the function is valid");
        let target = Target {
            features,
            buffers: Buffers::Descriptors,
            ..Target::default()
        };
        lower(&function, &target).map(|module| capabilities(&module))
    };
    let error = of(DType::F64, Features::default()).expect_err("f64 is missing");
    let feature = "shaderFloat64";
    assert!(matches!(&error, LowerError::Feature { feature: f, .. } if *f == feature));
    assert!(
        error.to_string().contains("`kernel` computes with f64"),
        "{error}"
    );
    let i16 = Features {
        i16: true,
        ..Features::default()
    };
    let error = of(DType::F16, i16).expect_err("16-bit storage is missing");
    let feature = "storageBuffer16BitAccess";
    assert!(matches!(&error, LowerError::Feature { feature: f, .. } if *f == feature));
    let used = of(DType::Bool, ALL_FEATURES).expect("bools are supported");
    assert!(
        used.contains(&Capability::StorageBuffer8BitAccess)
            && !used.contains(&Capability::Int8)
            && !used.contains(&Capability::Float64),
        "{used:?}"
    );
}

#[test]
fn atomic_additions_of_64_bits_name_the_feature_that_the_device_lacks() {
    let k = Builder::new("counts", [64, 1, 1]);
    let (counts, partial) = (
        k.update("counts", DType::I64),
        k.shared("partial", DType::U64, 1),
    );
    let one = k.constant(1);
    partial.add(0, one.cast(DType::U64));
    counts.add(0, one);
    let function = k.build().expect("the function is valid");
    let lacking = |features| {
        let target = Target {
            features,
            ..Target::default()
        };
        match lower(&function, &target) {
            Err(LowerError::Feature { what, feature, .. }) => Some((what, feature)),
            _ => None,
        }
    };
    let shared = Features {
        shared_i64_atomics: false,
        ..ALL_FEATURES
    };
    let buffer = Features {
        buffer_i64_atomics: false,
        ..ALL_FEATURES
    };
    assert_eq!(
        lacking(shared),
        Some((
            "adds to `partial` of type u64 atomically".to_owned(),
            "shaderSharedInt64Atomics"
        ))
    );
    assert_eq!(
        lacking(buffer),
        Some((
            "adds to `counts` of type i64 atomically".to_owned(),
            "shaderBufferInt64Atomics"
        ))
    );
    assert_eq!(lacking(ALL_FEATURES), None);
}

#[test]
fn a_cube_beyond_the_limits_is_refused() {
    let of = |threads, len| {
        let k = Builder::new("large", [threads, 1, 1]);
        k.shared("array", DType::F32, len);
        let out = k.update("out", DType::F32);
        out.set(0, out.get(k.thread()).reduce(ReduceOp::Sum));
        let function = k.build().expect("the function is valid");
        lower(&function, &Target::default())
    };
    of(128, (16 << 10) / 4 - 128).expect("it is within the limits");
    let error = of(256, 1).expect_err("too many threads");
    assert!(matches!(
        error,
        LowerError::Limit {
            needed: 256,
            limit: 128,
            ..
        }
    ));
    let error = of(128, 4096).expect_err("too many bytes").to_string();
    assert!(
        error.contains("needs 16896 bytes of shared memory"),
        "{error}"
    );
}
