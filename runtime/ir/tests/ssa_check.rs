//! Each function that is none is told why.

use millstream_ir::ssa::{Builder, Function, SsaError, THREADS_MAX};
use millstream_ir::{DType, ReduceOp};
use rstest::rstest;

/// A function with this body, buffers `x` (read), `y` (update) and `z` (write), and the values 0 to 3: the thread's index, the cube's,
/// 1 and an `f32`.
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
    text.parse()
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn what_the_others_are_made_of_is_right() {
    assert_eq!(with("").check(), Ok(()));
}

#[rstest]
#[case(
    "%4: i64 = add %2 %0  %5: f32 = neg %4",
    "`%5: f32 = neg %4` takes i64, not f32"
)]
#[case("%4: bool = exp %2", "takes what `exp` is for, not i64")]
#[case(
    "%4: f16 = cast %3  %5: f16 = add %4 %4",
    "takes what `add` is for, not f16"
)]
#[case("%4: i64 = add %2 %3", "takes i64, not f32")]
#[case("%4: f32 = select %2 %3 %3", "takes bool, not i64")]
#[case("%4: i64 = fma %2 %2 %2", "takes f32 or f64, not i64")]
#[case("%4: f32 = load x[%3]", "takes i64, not f32")]
#[case("store y[%0] = %0", "`store y[%0] = %0` takes f32, not i64")]
#[case("if %2 { }", "`if %2` takes bool, not i64")]
#[case("for %4 in %0 .. %3 step %2 { }", "takes i64, not f32")]
#[case("%4: f32 = scalar n", "takes i64, not f32")]
#[case("%4: u32 = random %0 %0", "takes u64, not i64")]
#[case("%4: f32x4 = splat %0", "takes f32, not i64")]
#[case("%4: f32x4 = pack %3 %3 %3 %0", "takes f32, not i64")]
#[case("store z[%0] = %9", "names value 9, which is not there")]
#[case(
    "%4: f32x4 = splat %3  %5: f32 = lane %4 4",
    "names lane 4, which is not there"
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
#[case("%4: u8 = const 0x100", "has bits that its type has not")]
#[case("%4: bool = const 0x2", "has bits that its type has not")]
#[case(
    "%4: f32x3 = const 0.0",
    "is of f32x3: values have 1, 2, 4, 8 or 16 lanes"
)]
#[case("%4: f32x8 = load x[%0]", "accesses at most 16 bytes")]
#[case("store x[%0] = %3", "`x` is only read, and stored to")]
#[case("%4: f32 = load z[%0]", "`z` is only written, and loaded from")]
#[case("add x[%0] += %3", "cannot be: only")]
#[case("add a[%0] += %3", "cannot be: only")]
#[case("%4: u8 = const 1  add h[%0] += %4", "cannot be: only")]
#[case("%4: i64 = const 0  for %5 in %0 .. %1 step %4 { }", "never gets on")]
#[case("%4: i64 = sub %2 %2  for %5 in %0 .. %1 step %4 { }", "never gets on")]
#[case("%4: i64 = bits %3", "takes a type of the size of i64, not f32")]
#[case(
    "%4: bool = const true  %5: u8 = bits %4",
    "takes a type of the size of u8, not bool"
)]
#[case("%4: f32 = reduce cube argmax %3", "reduces to an index")]
#[case("%4: f32 = reduce row sum %3", "no power of two up to 32")]
#[case(
    "%4: f32x4 = splat %3  %5: f32x4 = reduce cube sum %4",
    "is of a wide value"
)]
#[case("%4: bool = reduce cube sum %0", "takes i64, not bool")]
// Threads part, and would meet.
#[case(
    "%4: bool = lt %0 %1  if %4 { barrier }",
    "`barrier` is reached by some threads of a cube alone"
)]
#[case(
    "%4: bool = lt %0 %1  if %4 { } else { %5: f32 = reduce cube sum %3 }",
    "is reached by some threads"
)]
#[case("for %4 in %0 .. %1 step %2 { barrier }", "is reached by some threads")]
#[case(
    "%4: f32 = load x[%0]  %5: bool = lt %4 %4  if %5 { barrier }",
    "is reached by some threads"
)]
#[case(
    "%4: f32 = load y[%1]  %5: bool = lt %4 %4  if %5 { barrier }",
    "is reached by some threads"
)]
#[case(
    "%4: f32 = load s[%1]  %5: bool = lt %4 %4  if %5 { barrier }",
    "is reached by some threads"
)]
#[case(
    "store v = %3  %4: f32 = load v  %5: bool = lt %4 %4  if %5 { barrier }",
    "is reached by some threads"
)]
// What is the same is written where threads part, and read before, a turn later.
#[case(
    "%4: f32 = const 1.0  %9: bool = eq %0 %1
     for %5 in %1 .. %2 step %2 { %6: f32 = load v  %7: bool = lt %6 %6  if %7 { barrier }  if %9 { store v = %4 } }",
    "is reached by some threads"
)]
fn a_wrong_statement_is_told(#[case] body: &str, #[case] why: &str) {
    let error = with(body).check().expect_err("it is wrong").to_string();
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
fn threads_that_stay_together_may_meet(#[case] body: &str) {
    assert_eq!(with(body).check(), Ok(()));
}

#[test]
fn the_frame_is_checked() {
    let why = |text: &str| {
        let function: Function = text.parse().expect("it can be read");
        function.check().expect_err("it is wrong").to_string()
    };
    assert!(why("kernel k threads 0 1 1 { }").contains("each axis needs 1"));
    assert!(why("kernel k threads 1025 1 1 { }").contains(&THREADS_MAX.to_string()));
    assert!(why("kernel k threads 1 1 65 { }").contains("z at most 64"));
    assert!(why("kernel k threads 1 1 1 read x: f32 scalar x: i64 { }").contains("given twice"));
    let shared = "kernel k threads 1 1 1 shared a: f64[6016] shared b: u8 { }";
    assert!(why(shared).contains("shared bytes are more than"));
    let local = "kernel k threads 1 1 1 local a: f64[2049] { }";
    assert!(why(local).contains("bytes of locals are more than"));
    let mut named: Function = "kernel k threads 1 1 1 read x: f32 { }"
        .parse()
        .expect("it can be read");
    named.params[0].name = "a b".to_owned();
    assert!(matches!(named.check(), Err(SsaError::Name { .. })));
    let many = "read".to_owned()
        + &(0..513)
            .map(|i| format!(" x{i}: f32"))
            .collect::<Vec<_>>()
            .join(" read");
    assert!(
        why(&format!("kernel k threads 1 1 1 {many} {{ }}")).contains("parameters are more than")
    );
    let deep = format!("{}{}", "if %0 {".repeat(70), "}".repeat(70));
    let text = format!("kernel k threads 1 1 1 {{ %0: bool = const true {deep} }}");
    let error = text.parse::<Function>().expect_err("it is too deep");
    assert!(error.to_string().contains("within each other"), "{error}");
}

#[test]
fn a_value_of_another_builder_is_refused() {
    let (one, other) = (
        Builder::new("one", [32, 1, 1]),
        Builder::new("other", [32, 1, 1]),
    );
    let y = one.write("y", DType::I64);
    y.set(one.thread(), other.thread());
    let error = one.build().expect_err("it is another's");
    assert_eq!(error.to_string(), "`one` uses a value of another function");
}

#[test]
fn a_builder_computes_nothing_twice_and_forgets_what_a_block_knew() {
    let k = Builder::new("k", [32, 1, 1]);
    let y = k.update("y", DType::I64);
    k.when(k.thread().lt(3), || y.set(k.thread(), k.thread() + 1));
    y.set(k.thread() * 2, k.thread() + 1);
    let sum = k.thread().reduce(ReduceOp::Sum);
    y.set(0, sum + k.thread().reduce(ReduceOp::Sum));
    let text = k.build().expect("it is right").to_string();
    assert_eq!(text.matches("thread x").count(), 1, "{text}");
    assert_eq!(text.matches("reduce cube sum").count(), 2, "{text}");
}
