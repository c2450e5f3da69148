//! The check of functions: invalid functions are rejected with a reason.

use millstream_ir::ssa::{Builder, Function, Op, Stmt, THREADS_MAX, Type};
use millstream_ir::{DType, ReduceOp, scalar};
use rstest::rstest;

/// Returns a function with this body, the buffers `x` (read), `y` (update) and `z` (write), and the values 0 to 3: the
/// index of the thread, the index of the cube, 1, and an `f32`.
fn with(body: &str) -> Function {
    let text = format!(
        "kernel k threads 64 1 1
           read x: f32  update y: f32  write z: f32  update h: u8
           scalar n: i64
           shared s: f32[64]
           local v: f32  local a: f32[8]
         {{
           %0: i64 = thread x
           %1: i64 = cube x
           %2: i64 = const 1
           %3: f32 = load x[%0]
           {body}
         }}"
    );
    millstream_ir::ssa::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn function_without_further_statements_is_valid() {
    assert_eq!(with("").check(), Ok(()));
}

#[rstest]
#[case(
    "%4: i64 = add %2 %0  %5: f32 = neg %4",
    "`%5: f32 = neg %4` expects i64, got f32"
)]
#[case("%4: bool = exp %2", "expects a type that `exp` supports, got i64")]
#[case(
    "%4: f16 = cast %3  %5: f16 = add %4 %4",
    "expects a type that `add` supports, got f16"
)]
#[case("%4: i64 = add %2 %3", "expects i64, got f32")]
#[case("%4: f32 = select %2 %3 %3", "expects bool, got i64")]
#[case("%4: i64 = fma %2 %2 %2", "expects f32 or f64, got i64")]
#[case("%4: f32 = load x[%3]", "expects i64, got f32")]
#[case("store y[%0] = %0", "`store y[%0] = %0` expects f32, got i64")]
#[case("if %2 { }", "`if %2` expects bool, got i64")]
#[case("for %4 in %0 .. %3 step %2 { }", "expects i64, got f32")]
#[case("%4: f32 = scalar n", "expects i64, got f32")]
#[case("%4: u32 = random %0 %0", "expects u64, got i64")]
#[case("%4: f32x4 = splat %0", "expects f32, got i64")]
#[case("%4: f32x4 = pack %3 %3 %3 %0", "expects f32, got i64")]
#[case("store z[%0] = %9", "names value 9, which does not exist")]
#[case(
    "%4: f32x4 = splat %3  %5: f32 = lane %4 4",
    "names lane 4, which does not exist"
)]
#[case(
    "%5: f32 = neg %6  %6: f32 = neg %3",
    "uses %6, which is not defined there"
)]
#[case(
    "%4: bool = eq %2 %2  if %4 { %5: f32 = neg %3 }  store y[%0] = %5",
    "uses %5, which is not defined there"
)]
#[case(
    "for %4 in %2 .. %2 step %2 { }  store y[%4] = %3",
    "uses %4, which is not defined there"
)]
#[case(
    "for %4 in %2 .. %4 step %2 { }",
    "uses %4, which is not defined there"
)]
#[case("%3: f32 = neg %3", "defines %3 a second time")]
#[case("print \"{}\", %9", "names value 9, which does not exist")]
#[case("fail \"{} {}\", %0", "has 1 values, and a text with 2 `{}`")]
#[case("print \"{:x}\", %3", "writes a f32 as it writes no f32")]
#[case("print \"{x}\", %3", "has `{x}`, which is not supported")]
#[case("print \"}\"", "has a `}` alone")]
#[case(
    "%4: f32x4 = splat %3  print \"{}\", %4",
    "has a value of type f32x4: take its lanes one by one"
)]
#[case("%4: u8 = const 0x100", "has bits that its type does not have")]
#[case("%4: bool = const 0x2", "has bits that its type does not have")]
#[case(
    "%4: f32x3 = const 0.0",
    "has type f32x3: values have 1, 2, 4, 8 or 16 lanes"
)]
#[case("%4: f32x8 = load x[%0]", "accesses at most 16 bytes")]
#[case("store x[%0] = %3", "`x` is read-only, but the function stores to it")]
#[case(
    "%4: f32 = load z[%0]",
    "`z` is write-only, but the function loads from it"
)]
#[case("%4: f32 = atomic add x[%0] %3", "is not supported: atomic")]
#[case("%4: f32 = atomic add a[%0] %3", "is not supported: atomic")]
#[case("%4: f32 = atomic max y[%0] %3", "is not supported: atomic")]
#[case(
    "%4: f32 = atomic compare_exchange y[%0] %3 %3",
    "is not supported: atomic"
)]
#[case("%4: f32 = atomic mul s[%0] %3", "is not supported: atomic")]
#[case(
    "%4: u8 = const 1  %5: u8 = atomic add h[%0] %4",
    "is not supported: atomic"
)]
#[case("%4: f32 = atomic swap y[%0] %0", "expects f32, got i64")]
#[case(
    "%4: i64 = const 0  for %5 in %0 .. %1 step %4 { }",
    "has a step below 1"
)]
#[case(
    "%4: i64 = sub %2 %2  for %5 in %0 .. %1 step %4 { }",
    "has a step below 1"
)]
#[case("%4: i64 = bits %3", "expects a type of the size of i64, got f32")]
#[case(
    "%4: bool = const true  %5: u8 = bits %4",
    "expects a type of the size of u8, got bool"
)]
#[case("%4: f32 = reduce cube argmax %3", "reduces to an index")]
#[case("%4: f32 = reduce subgroup 3 sum %3", "a power of two, at most 32")]
#[case("%4: f32 = reduce subgroup 64 sum %3", "a power of two, at most 32")]
#[case("%4: f32 = shuffle up 3 %3 %0", "that divides those of the axis")]
#[case("%4: f32 = shuffle up 1 %3 %3", "expects i64, got f32")]
#[case(
    "%4: f32x4 = splat %3  %5: f32x4 = shuffle xor 1 %4 %0",
    "shuffles a wide value"
)]
#[case(
    "%4: bool = lt %0 %1  if %4 { %5: f32 = shuffle lane 1 %3 %0 }",
    "only some threads of a cube may reach"
)]
#[case(
    "%4: f32x4 = splat %3  %5: f32x4 = reduce cube sum %4",
    "reduces a wide value"
)]
#[case("%4: bool = reduce cube sum %0", "expects i64, got bool")]
// Only some threads reach a barrier or reduction.
#[case(
    "%4: bool = lt %0 %1  if %4 { barrier }",
    "only some threads of a cube may reach `barrier`"
)]
#[case(
    "%4: bool = lt %0 %1  if %4 { } else { %5: f32 = reduce cube sum %3 }",
    "only some threads of a cube may reach"
)]
#[case(
    "for %4 in %0 .. %1 step %2 { barrier }",
    "only some threads of a cube may reach"
)]
#[case(
    "%4: f32 = load x[%0]  %5: bool = lt %4 %4  if %5 { barrier }",
    "only some threads of a cube may reach"
)]
#[case(
    "%4: f32 = load y[%1]  %5: bool = lt %4 %4  if %5 { barrier }",
    "only some threads of a cube may reach"
)]
#[case(
    "%4: f32 = load s[%1]  %5: bool = lt %4 %4  if %5 { barrier }",
    "only some threads of a cube may reach"
)]
#[case(
    "%4: f32 = atomic load s[%1]  %5: bool = lt %4 %4  if %5 { barrier }",
    "only some threads of a cube may reach"
)]
#[case(
    "store v = %3  %4: f32 = load v  %5: bool = lt %4 %4  if %5 { barrier }",
    "only some threads of a cube may reach"
)]
// A uniform value is stored under divergent control flow, and loaded in the next iteration.
#[case(
    "%4: f32 = const 1.0  %9: bool = eq %0 %1
     for %5 in %1 .. %2 step %2 { %6: f32 = load v  %7: bool = lt %6 %6  if %7 { barrier }  if %9 { store v = %4 } }",
    "only some threads of a cube may reach"
)]
// A statement that leaves a block, where it cannot.
#[case("break", "`break` is outside of a loop: use `return`")]
#[case(
    "%4: bool = lt %1 %2  if %4 { continue }",
    "`continue` is outside of a loop"
)]
#[case("return barrier", "`return` must be the last statement of its block")]
#[case(
    "loop { break store y[%0] = %3 }",
    "`break` must be the last statement of its block"
)]
#[case(
    "for %4 in %0 .. %1 step %2 { continue line 3 }",
    "`continue` must be the last"
)]
#[case("loop { }", "`loop` never ends: leave it by `break` or `return`")]
#[case("loop { for %4 in %0 .. %1 step %2 { break } }", "`loop` never ends")]
#[case("loop { loop { break } continue }", "`loop` never ends")]
// Only some threads leave a loop, an iteration or the function before a barrier.
#[case(
    "%4: bool = lt %0 %1  loop { if %4 { break } barrier }",
    "only some threads of a cube may reach `barrier`"
)]
#[case(
    "%4: bool = lt %0 %1  loop { barrier if %4 { break } }",
    "only some threads of a cube may reach `barrier`"
)]
#[case(
    "%4: bool = lt %0 %1  for %5 in %1 .. %2 step %2 { barrier if %4 { break } }",
    "only some threads of a cube may reach `barrier`"
)]
#[case(
    "%4: bool = lt %0 %1  for %5 in %1 .. %2 step %2 { if %4 { continue } else { } barrier }",
    "only some threads of a cube may reach `barrier`"
)]
#[case(
    "%4: bool = lt %0 %1  if %4 { return } barrier",
    "only some threads of a cube may reach `barrier`"
)]
#[case(
    "%4: bool = lt %0 %1  loop { loop { if %4 { return } break } break } barrier",
    "only some threads of a cube may reach `barrier`"
)]
#[case(
    "%4: bool = lt %0 %1  for %5 in %1 .. %2 step %2 { barrier loop { if %4 { return } else { break } } }",
    "only some threads of a cube may reach `barrier`"
)]
#[case(
    "%4: bool = lt %1 %2  %5: bool = lt %0 %1
     loop { if %4 { if %5 { continue } } else { break } barrier }",
    "only some threads of a cube may reach `barrier`"
)]
// A uniform value is stored, for each thread as often as it runs the loop.
#[case(
    "%4: bool = lt %0 %1  loop { %5: f32 = const 1.0  store v = %5  if %4 { break } }
     %6: f32 = load v  %7: bool = lt %6 %6  if %7 { barrier }",
    "only some threads of a cube may reach `barrier`"
)]
// .. or behind a `continue`, or a `return`, of some.
#[case(
    "%4: bool = lt %0 %1  %5: f32 = const 1.0
     for %6 in %1 .. %2 step %2 { if %4 { continue } store v = %5 }
     %7: f32 = load v  %8: bool = lt %7 %7  if %8 { barrier }",
    "only some threads of a cube may reach `barrier`"
)]
#[case(
    "line 12  %4: bool = lt %0 %1  line 13  if %4 { line 14 barrier }",
    "only some threads of a cube may reach `barrier` at line 14"
)]
#[case(
    "line 12  %4: i64 = add %2 %3",
    "`%4: i64 = add %2 %3` at line 12 expects"
)]
fn invalid_statement_is_rejected_with_its_reason(#[case] body: &str, #[case] why: &str) {
    let error = with(body)
        .check()
        .expect_err("the function is invalid")
        .to_string();
    assert!(error.contains(why), "{error}");
}

#[rstest]
#[case("%4: bool = lt %1 %2  if %4 { barrier }")]
#[case("%4: f32 = load x[%1]  %5: bool = lt %4 %4  if %5 { barrier }")]
#[case("%4: f32 = reduce cube max %3  %5: bool = lt %4 %4  if %5 { barrier }")]
#[case(
    "%4: f32 = const 1.0  store v = %4  %5: f32 = load v  %6: bool = lt %5 %4  if %6 { barrier }"
)]
#[case("%4: i64 = scalar n  for %5 in %1 .. %4 step %2 { %6: f32 = reduce cube sum %3  barrier }")]
// A `while` with a uniform condition.
#[case(
    "%4: f32 = const 8.0
     loop { %5: f32 = load v  %6: bool = lt %5 %4  %7: bool = not %6  if %7 { break }
            barrier  %8: f32 = add %5 %4  store v = %8  %9: f32 = reduce cube sum %3 }
     barrier"
)]
// Threads meet behind a loop that they leave one by one, and behind the iteration that some end early.
#[case("%4: bool = lt %0 %1  loop { if %4 { break } return }  line 1")]
#[case("%4: bool = lt %0 %1  loop { if %4 { break } }  barrier")]
#[case(
    "%4: bool = lt %0 %1  for %5 in %0 .. %1 step %2 { if %4 { continue } else { break } }  barrier"
)]
#[case(
    "%4: bool = lt %0 %1  for %5 in %1 .. %2 step %2 { barrier  if %4 { continue } store y[%0] = %3 }"
)]
#[case("%4: bool = lt %0 %1  for %5 in %1 .. %2 step %2 { loop { if %4 { break } } barrier }")]
// All threads return, or none.
#[case("%4: bool = lt %1 %2  if %4 { return }  barrier")]
#[case(
    "%4: bool = lt %1 %2  %5: bool = lt %0 %1  if %4 { loop { if %5 { break } } return } barrier"
)]
#[case(
    "%4: bool = lt %1 %2  %5: bool = lt %0 %1
     loop { if %4 { loop { if %5 { continue } break } } else { barrier break } barrier }"
)]
// The `continue` of some threads in one branch does not concern the other one.
#[case(
    "%4: bool = lt %1 %2  %5: bool = lt %0 %1
     loop { if %4 { if %5 { continue } } else { barrier break } }"
)]
fn barrier_under_uniform_control_flow_is_accepted(#[case] body: &str) {
    assert_eq!(with(body).check(), Ok(()));
}

#[test]
fn names_sizes_and_limits_are_checked() {
    let why = |text: &str| {
        let function = millstream_ir::ssa::parse(text).expect("the text is valid");
        function
            .check()
            .expect_err("the function is invalid")
            .to_string()
    };
    assert!(why("kernel k threads 0 1 1 { }").contains("each axis needs at least 1"));
    assert!(why("kernel k threads 1025 1 1 { }").contains(&THREADS_MAX.to_string()));
    assert!(why("kernel k threads 1 1 65 { }").contains("z at most 64"));
    assert!(why("kernel k threads 1 1 1 read x: f32 scalar x: i64 { }").contains("used twice"));
    let shared = "kernel k threads 1 1 1 shared a: f64[6016] shared b: u8 { }";
    assert!(why(shared).contains("shared bytes, got"));
    let local = "kernel k threads 1 1 1 local a: f64[2049] { }";
    assert!(why(local).contains("bytes of locals, got"));
    let mut named = millstream_ir::ssa::parse("kernel k threads 1 1 1 read x: f32 { }")
        .expect("the text is valid");
    named.params[0].name = "a b".to_owned();
    let error = named.check().expect_err("the name has a space");
    assert!(error.to_string().contains("must consist of letters"));
    let many = "read".to_owned()
        + &(0..513)
            .map(|i| format!(" x{i}: f32"))
            .collect::<Vec<_>>()
            .join(" read");
    assert!(why(&format!("kernel k threads 1 1 1 {many} {{ }}")).contains("parameters, got"));
    let deep = format!("{}{}", "if %0 {".repeat(70), "}".repeat(70));
    let text = format!("kernel k threads 1 1 1 {{ %0: bool = const true {deep} }}");
    let error = millstream_ir::ssa::parse(&text).expect_err("the blocks are nested too deeply");
    assert!(error.to_string().contains("nested blocks"), "{error}");
}

/// Else a device might take one for the other where it keeps what it has compiled.
#[test]
fn functions_that_may_contract_are_other_functions() {
    let function = |contract: bool| {
        let k = Builder::new("k", [32, 1, 1]);
        let x = k.update("x", DType::F32);
        x.set(0, x.get(1) * x.get(2) + x.get(3));
        if contract {
            k.contract();
        }
        k.build().unwrap()
    };
    let [with, without] = [true, false].map(function);
    assert_ne!(with, without);
    assert_ne!(with.to_string(), without.to_string());
    for function in [with, without] {
        let read = millstream_ir::ssa::parse(&function.to_string()).unwrap();
        assert_eq!(read, function);
    }
}

#[rstest]
#[case("read x: f32[n] scalar n: u64", Ok(()))]
#[case(
    "read x: f32[n] scalar n: i64",
    Err("the length of `x`, `n`, has type i64: declare it as u64")
)]
#[case("read x: f32", Err("accesses are checked, but `x` has no length"))]
#[case("file \"a\nb\"", Err("has control characters"))]
fn lengths_of_checked_functions_are_checked(
    #[case] head: &str,
    #[case] expected: Result<(), &str>,
) {
    let text = format!("kernel k threads 1 1 1 checked {head} {{ }}");
    let function = millstream_ir::ssa::parse(&text).expect("the text is valid");
    match (function.check(), expected) {
        (Ok(()), Ok(())) => {}
        (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{error}"),
        (found, expected) => panic!("expected {expected:?}, got {found:?}"),
    }
    let mut function = function;
    if let Some(param) = function.params.first_mut() {
        param.len = Some(7);
        let error = function.check().expect_err("there is no such scalar");
        assert!(
            error.to_string().contains("which does not exist"),
            "{error}"
        );
    }
}

#[test]
fn builder_drops_what_follows_a_statement_that_leaves_the_block() {
    let k = Builder::new("k", [32, 1, 1]);
    let y = k.update("y", DType::I64);
    let n = k.len(y).cast(DType::I64);
    k.file("src/a \"b\".rs");
    k.line(3);
    k.line(4);
    let i = k.index();
    k.when(!i.lt(n), || {
        k.return_();
        y.set(i, i * 7);
        k.range(0, i, 1, |j| y.set(j, k.var("v", j * i).get()));
    });
    let steps = k.var("steps", 0_i64);
    k.while_(
        || steps.get().lt(i),
        || {
            k.line(12);
            steps.set(steps.get() + 1);
            k.either(
                steps.get().lt(3),
                || {
                    k.continue_();
                    k.barrier();
                },
                || {
                    k.break_();
                    k.loop_(|| y.set(i + 5, 1));
                },
            );
        },
    );
    // The product was computed where it is never executed.
    y.set(i, i * 7);
    k.check_bounds();
    let function = k.build().expect("the function is valid");
    assert_eq!(
        (function.params[0].len, &*function.scalars[0].name),
        (Some(0), "y_len")
    );
    let text = function.to_string();
    assert!(text.starts_with("kernel k threads 32 1 1 checked\n  file \"src/a \\\"b\\\".rs\"\n  update y: i64[y_len]\n"), "{text}");
    assert!(
        !text.contains("barrier") && !text.contains("line 3"),
        "{text}"
    );
    assert_eq!(millstream_ir::ssa::parse(&text), Ok(function), "{text}");
}

#[test]
fn prints_and_assertions_are_read_as_they_are_written() {
    let k = Builder::new("k", [32, 1, 1]);
    let (x, i) = (k.read("x", DType::F32), k.thread());
    k.print("{} of \"x\" {{\\}}\nis {:>8.3}", &[i, x.get(i)]);
    // Only some threads say something, and all of them meet behind it.
    k.when(i.lt(3), || {
        k.fail("none", &[]);
        k.print("", &[]);
    });
    k.barrier();
    let function = k.build().expect("the function is valid");
    assert!(function.prints());
    let text = function.to_string();
    assert!(text.contains("print \"{} of \\\"x\\\""), "{text}");
    assert_eq!(millstream_ir::ssa::parse(&text), Ok(function), "{text}");
}

/// The builder computes casts of constants. What it does with those that the check refuses must not hide them.
#[rstest]
#[case(
    DType::I32,
    5,
    DType::I64,
    "expects a type of the size of i64, got i32"
)]
#[case(
    DType::Bool,
    1,
    DType::U8,
    "expects a type of the size of u8, got bool"
)]
#[case(
    DType::U8,
    1,
    DType::Bool,
    "expects a type of the size of bool, got u8"
)]
fn bits_of_a_constant_of_another_size_are_refused(
    #[case] from: DType,
    #[case] bits: u64,
    #[case] to: DType,
    #[case] why: &str,
) {
    let k = Builder::new("k", [1, 1, 1]);
    k.write("out", to).set(0, k.bits(from, bits).bits(to));
    let error = k.build().unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

/// Constants of wide values, too.
#[test]
fn casts_of_constants_are_those_of_the_reference() {
    let ends = |of: DType| {
        let (most, sign) = (u64::MAX >> (64 - 8 * of.size()), 1 << (8 * of.size() - 1));
        match of {
            DType::Bool => vec![0, 1],
            _ => vec![0, 1, most, sign, sign - 1, sign | 1, most / 3, most / 5 * 2],
        }
    };
    for (from, to) in DType::ALL
        .into_iter()
        .flat_map(|from| DType::ALL.map(|to| (from, to)))
    {
        for (bits, lanes) in ends(from)
            .into_iter()
            .flat_map(|bits| [(bits, 1), (bits, 2)])
        {
            let k = Builder::new("k", [1, 1, 1]);
            let value = k.bits(Type { dtype: from, lanes }, bits).cast(to);
            assert_eq!(value.of(), Type { dtype: to, lanes });
            k.write("out", to).set(0, value.lane(0));
            let function = k.build().unwrap();
            let ops = function.body.iter().filter_map(Stmt::op);
            let constants: Vec<u64> = ops
                .filter_map(|op| match op {
                    Op::Const(bits) => Some(*bits),
                    _ => None,
                })
                .collect();
            let expected = scalar::cast(from, to)(bits);
            assert!(
                constants.contains(&expected),
                "{bits:#x} of {from} as {to}: {constants:x?}"
            );
        }
    }
}

#[test]
fn value_of_another_builder_is_refused() {
    let (one, other) = (
        Builder::new("one", [32, 1, 1]),
        Builder::new("other", [32, 1, 1]),
    );
    let y = one.write("y", DType::I64);
    y.set(one.thread(), other.thread());
    let error = one
        .build()
        .expect_err("the value belongs to another builder");
    assert_eq!(
        error.to_string(),
        "`one` uses a value of another function: build it with this builder"
    );
}

#[test]
fn builder_reuses_values_of_open_blocks_only() {
    let k = Builder::new("k", [32, 1, 1]);
    let y = k.update("y", DType::I64);
    k.when(k.thread().lt(3), || y.set(k.thread(), k.thread() + 1));
    y.set(k.thread() * 2, k.thread() + 1);
    let sum = k.thread().reduce(ReduceOp::Sum);
    y.set(0, sum + k.thread().reduce(ReduceOp::Sum));
    let text = k.build().expect("the function is valid").to_string();
    assert_eq!(text.matches("thread x").count(), 1, "{text}");
    assert_eq!(text.matches("reduce cube sum").count(), 2, "{text}");
}

/// The number, not its bits.
#[test]
fn whole_number_that_is_stored_as_a_half_is_converted() {
    for (half, one) in [(DType::F16, "0x3c00"), (DType::Bf16, "0x3f80")] {
        let k = Builder::new("k", [1, 1, 1]);
        k.update("y", half).set(0, 1);
        let text = k.build().expect("the function is valid").to_string();
        assert!(text.contains(&format!("{half} = const {one}")), "{text}");
    }
    for infinite in [70_000, -70_000] {
        let k = Builder::new("k", [1, 1, 1]);
        k.update("y", DType::F16).set(0, infinite);
        assert!(k.build().is_err(), "{infinite} is no finite half");
    }
}
