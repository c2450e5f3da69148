//! Nests as test cases: their texts, launch words and buffer lengths.

use millstream_ir::{DType, UnaryOp};

/// A launch of a nest.
pub struct Case {
    /// The text of the nest.
    pub text: String,
    /// The launch words.
    pub words: Vec<u64>,
    /// The number of elements of each buffer.
    pub lens: Vec<usize>,
    /// Whether floats must be equal to the bit: they result only from casts and from sums, products and quotients of
    /// two.
    pub exact: bool,
}

/// The nests that every device runs, with ordinary and with special values: a template of `rstest_reuse`.
#[rstest_reuse::template]
#[export]
#[rstest]
#[case::one(::millstream_kernel_cases::nests::elements(1, 0))]
#[case::odd(::millstream_kernel_cases::nests::elements(2_047, 0))]
#[case::wide(::millstream_kernel_cases::nests::elements(2_048, 4))]
#[case::permuted(::millstream_kernel_cases::nests::permuted(33, 20))]
#[case::indexed(::millstream_kernel_cases::nests::indexed(7, 24))]
#[case::halves(::millstream_kernel_cases::nests::halves(1_000))]
#[case::casts(::millstream_kernel_cases::nests::casts(1_000))]
#[case::integers(::millstream_kernel_cases::nests::integers(1_024))]
#[case::functions(::millstream_kernel_cases::nests::functions(512))]
#[case::every_function_f32(::millstream_kernel_cases::nests::every_function(
    ::millstream_kernel_cases::DType::F32,
    512
))]
#[case::every_function_f64(::millstream_kernel_cases::nests::every_function(
    ::millstream_kernel_cases::DType::F64,
    512
))]
#[case::random(::millstream_kernel_cases::nests::random(300))]
#[case::gather(::millstream_kernel_cases::nests::gather(20, 12))]
#[case::scatter(::millstream_kernel_cases::nests::scatter(12, 30))]
#[case::columns(::millstream_kernel_cases::nests::columns(36, 50))]
#[case::totals(::millstream_kernel_cases::nests::totals(9, 40))]
#[case::counted(::millstream_kernel_cases::nests::counted(2, 5, [3, 7]))]
#[case::long(::millstream_kernel_cases::nests::counted(1, 3, [30, 50]))]
#[case::empty_rows(::millstream_kernel_cases::nests::counted(2, 3, [0, 5]))]
#[case::empty_batch(::millstream_kernel_cases::nests::counted(0, 3, [2, 5]))]
fn every_nest(#[case] case: Case, #[values(false, true)] special: bool) {}

fn case(text: impl Into<String>, words: &[i64], lens: &[usize]) -> Case {
    Case {
        text: text.into(),
        words: words.iter().map(|word| *word as u64).collect(),
        // At least one: the tests create no empty buffers.
        lens: lens.iter().map(|len| (*len).max(1)).collect(),
        exact: false,
    }
}

/// Dense elements. The output starts at an offset that is a launch word.
pub fn elements(len: usize, offset: usize) -> Case {
    let text = "
        nest outer 1 inner 0 words 2
        buffer 0 f32 read  buffer 1 f32 read  buffer 2 f32 update
        access 0 = buffer 0 [1]  access 1 = buffer 1 [1]  access 2 = buffer 2 + w1 [1]
        %0 f32 = load 0  %1 f32 = load 1
        %2 f32 = mul %0 %1  %3 f32 = add %2 %0  %4 f32 = tanh %3
        store outer 2 %4";
    case(
        text,
        &[len as i64, offset as i64],
        &[len, len, len + offset],
    )
}

/// A matrix, its transpose, a row and a column: `y[i, j] = x[i, j] * t[j, i] + row[j] - column[i]`.
pub fn permuted(rows: usize, columns: usize) -> Case {
    let text = "
        nest outer 2 inner 0 words 4
        buffer 0 f32 read  buffer 1 f32 read  buffer 2 f32 read  buffer 3 f32 read  buffer 4 f32 write
        access 0 = buffer 0 [w2 1]  access 1 = buffer 1 [1 w3]  access 2 = buffer 2 [0 1]
        access 3 = buffer 3 [1 0]  access 4 = buffer 4 [w2 1]
        %0 f32 = load 0  %1 f32 = load 1  %2 f32 = load 2  %3 f32 = load 3
        %4 f32 = mul %0 %1  %5 f32 = add %4 %2  %6 f32 = sub %5 %3
        store outer 4 %6";
    let words = [rows, columns, columns, rows].map(|word| word as i64);
    let all = rows * columns;
    let exact = true;
    Case {
        exact,
        ..case(text, &words, &[all, all, columns, rows, all])
    }
}

/// Broadcast along the fast axis, and arithmetic on indices: the lanes of a thread differ in only one operand.
pub fn indexed(rows: usize, columns: usize) -> Case {
    let text = "
        nest outer 2 inner 0 words 4
        buffer 0 i64 read  buffer 1 i64 read  buffer 2 i64 write
        access 0 = buffer 0 [w2 1]  access 1 = buffer 1 [1 0]  access 2 = buffer 2 [w2 1]
        %0 i64 = load 0  %1 i64 = load 1  %2 i64 = index 0  %3 i64 = index 1  %4 i64 = word w3
        %5 i64 = mul %2 %4  %6 i64 = add %5 %3  %7 i64 = div %0 %6  %8 i64 = rem %1 %3
        %9 bool = lt %7 %8  %10 i64 = select %9 %6 %8  %11 i64 = xor %10 %7
        store outer 2 %11";
    let words = [rows, columns, columns, 10].map(|word| word as i64);
    case(text, &words, &[rows * columns, rows, rows * columns])
}

/// A product of f16 and bf16, computed in f32 and stored as both.
pub fn halves(len: usize) -> Case {
    let text = "
        nest outer 1 inner 0 words 2
        buffer 0 f16 read  buffer 1 bf16 read  buffer 2 f16 write  buffer 3 bf16 write
        access 0 = buffer 0 [1]  access 1 = buffer 1 [1]  access 2 = buffer 2 [1]  access 3 = buffer 3 [1]
        %0 f16 = load 0  %1 f32 = cast %0  %2 bf16 = load 1  %3 f32 = cast %2
        %4 f32 = mul %1 %3  %5 f32 = word w1  %6 f32 = div %4 %5
        %7 f16 = cast %6  %8 bf16 = cast %6
        store outer 2 %7  store outer 3 %8";
    let exact = true;
    Case {
        exact,
        ..case(text, &[len as i64, i64::from(3.0_f32.to_bits())], &[len; 4])
    }
}

/// Every cast from a float to a type that saturates or rounds.
pub fn casts(len: usize) -> Case {
    let text = "
        nest outer 1 inner 0 words 1
        buffer 0 f64 read  buffer 1 i8 write  buffer 2 u8 write  buffer 3 i16 write  buffer 4 u16 write
        buffer 5 i32 write  buffer 6 u32 write  buffer 7 i64 write  buffer 8 u64 write  buffer 9 f32 write
        buffer 10 f16 write  buffer 11 bf16 write
        access 0 = buffer 0 [1]  access 1 = buffer 1 [1]  access 2 = buffer 2 [1]  access 3 = buffer 3 [1]
        access 4 = buffer 4 [1]  access 5 = buffer 5 [1]  access 6 = buffer 6 [1]  access 7 = buffer 7 [1]
        access 8 = buffer 8 [1]  access 9 = buffer 9 [1]  access 10 = buffer 10 [1]  access 11 = buffer 11 [1]
        %0 f64 = load 0  %1 i8 = cast %0  %2 u8 = cast %0  %3 i16 = cast %0  %4 u16 = cast %0  %5 i32 = cast %0
        %6 f32 = cast %0  %7 u32 = cast %6  %8 i64 = cast %0  %9 u64 = cast %6  %10 f16 = cast %0  %11 f64 = neg %0  %12 bf16 = cast %11
        store outer 1 %1  store outer 2 %2  store outer 3 %3  store outer 4 %4  store outer 5 %5
        store outer 6 %7  store outer 7 %8  store outer 8 %9  store outer 9 %6  store outer 10 %10  store outer 11 %12";
    let exact = true;
    Case {
        exact,
        ..case(text, &[len as i64], &[len; 12])
    }
}

/// Arithmetic of 8-bit integers, which wraps and never traps.
pub fn integers(len: usize) -> Case {
    let text = "
        nest outer 1 inner 0 words 1
        buffer 0 i8 read  buffer 1 i8 read  buffer 2 i8 write  buffer 3 u32 write  buffer 4 i8 write
        access 0 = buffer 0 [1]  access 1 = buffer 1 [1]  access 2 = buffer 2 [1]  access 3 = buffer 3 [1]  access 4 = buffer 4 [1]
        %0 i8 = load 0  %1 i8 = load 1  %2 i8 = div %0 %1  %3 i8 = rem %0 %1  %4 i8 = mul %0 %1  %5 i8 = neg %4
        %6 i8 = abs %5  %7 i8 = min %2 %3  %8 i8 = max %7 %6  %9 u32 = cast %8  %10 u32 = not %9
        %11 bool = cast %2  %12 bool = ge %0 %1  %13 bool = xor %11 %12  %14 bool = not %13  %15 i8 = cast %14
        store outer 2 %8  store outer 3 %10  store outer 4 %15";
    case(text, &[len as i64], &[len; 5])
}

/// Functions of f32 and f64.
pub fn functions(len: usize) -> Case {
    let text = "
        nest outer 1 inner 0 words 1
        buffer 0 f32 read  buffer 1 f32 write  buffer 2 f64 write  buffer 3 f32 write
        access 0 = buffer 0 [1]  access 1 = buffer 1 [1]  access 2 = buffer 2 [1]  access 3 = buffer 3 [1]
        %0 f32 = load 0  %1 f32 = sin %0  %2 f32 = abs %0  %3 f32 = sqrt %2  %4 f32 = add %1 %3  %5 f32 = erf %0  %6 f32 = mul %4 %5
        %7 f64 = cast %0  %8 f64 = cos %7  %9 f64 = exp %8  %10 f64 = log %9  %11 f64 = floor %7  %12 f64 = sub %10 %11
        %13 f32 = ceil %0  %14 f32 = pow %2 %3  %15 f32 = rem %0 %3  %16 f32 = max %14 %15  %17 f32 = min %16 %13
        store outer 1 %6  store outer 2 %12  store outer 3 %17";
    case(text, &[len as i64], &[len; 4])
}

/// Every unary function of a float type.
pub fn every_function(dtype: DType, len: usize) -> Case {
    let mut parts = [
        format!("nest outer 1 inner 0 words 1 buffer 0 {dtype} read"),
        " access 0 = buffer 0 [1]".to_owned(),
        format!(" %0 {dtype} = load 0"),
        String::new(),
    ];
    let ops = UnaryOp::ALL.iter().filter(|op| op.takes(dtype));
    let mut count = 1;
    for (op, at) in ops.zip(1..) {
        parts[0] += &format!(" buffer {at} {dtype} write");
        parts[1] += &format!(" access {at} = buffer {at} [1]");
        parts[2] += &format!(" %{at} {dtype} = {op} %0");
        parts[3] += &format!(" store outer {at} %{at}");
        count += 1;
    }
    case(parts.concat(), &[len as i64], &vec![len; count])
}

/// A softmax over rows, in place.
pub fn softmax(rows: usize, len: usize) -> Case {
    let text = "
        nest outer 1 inner 1 words 3
        buffer 0 f32 update
        access 0 = buffer 0 [w2 1]
        %0 f32 = load 0  %1 f32 = reduce max %0  %2 f32 = sub %0 %1  %3 f32 = exp %2
        %4 f32 = reduce sum %3  %5 f32 = div %3 %4
        store inner 0 %5";
    let stride = len + 3;
    let words = [rows, len, stride].map(|word| word as i64);
    case(text, &words, &[rows * stride])
}

/// Rows with mean 0 and variance 1, scaled and shifted by columns.
pub fn layer_norm(rows: usize, len: usize) -> Case {
    let text = "
        nest outer 1 inner 1 words 5
        buffer 0 f32 read  buffer 1 f32 read  buffer 2 f32 read  buffer 3 f32 write
        access 0 = buffer 0 [w2 1]  access 1 = buffer 1 [0 1]  access 2 = buffer 2 [0 1]  access 3 = buffer 3 [w2 1]
        %0 f32 = load 0  %1 f32 = load 1  %2 f32 = load 2
        %3 f32 = reduce sum %0  %4 f32 = word w3  %5 f32 = div %3 %4  %6 f32 = sub %0 %5  %7 f32 = mul %6 %6
        %8 f32 = reduce sum %7  %9 f32 = div %8 %4  %10 f32 = word w4  %11 f32 = add %9 %10  %12 f32 = sqrt %11
        %13 f32 = const 0x3f800000  %14 f32 = div %13 %12  %15 f32 = mul %6 %14  %16 f32 = mul %15 %1  %17 f32 = add %16 %2
        store inner 3 %17";
    let [count, epsilon] = [len as f32, 1e-5].map(|float| i64::from(float.to_bits()));
    let [rows_word, len_word] = [rows, len].map(|word| word as i64);
    let words = [rows_word, len_word, len_word, count, epsilon];
    case(text, &words, &[rows * len, len, len, rows * len])
}

/// Reductions over a slow axis, so that neighbouring rows interleave. Several reductions at once, and an elementwise
/// result that uses them.
pub fn columns(columns: usize, len: usize) -> Case {
    let text = "
        nest outer 1 inner 1 words 3
        buffer 0 f32 read  buffer 1 f32 write  buffer 2 f32 write  buffer 3 i64 write  buffer 4 i64 write  buffer 5 f32 write
        access 0 = buffer 0 [1 w2]  access 1 = buffer 1 [1 0]  access 2 = buffer 2 [1 0]
        access 3 = buffer 3 [1 0]  access 4 = buffer 4 [1 0]  access 5 = buffer 5 [1 w2]
        %0 f32 = load 0  %1 f32 = reduce min %0  %2 f32 = reduce max %0  %3 i64 = reduce argmin %0  %4 i64 = reduce argmax %0
        %5 f32 = sub %2 %1  %6 f32 = sub %0 %1  %7 f32 = div %6 %5
        store outer 1 %1  store outer 2 %2  store outer 3 %3  store outer 4 %4  store inner 5 %7";
    let words = [columns, len, columns].map(|word| word as i64);
    let all = columns * len;
    case(
        text,
        &words,
        &[all, columns, columns, columns, columns, all],
    )
}

/// Sums of rows, added to the previous totals. All threads of a row read its total, and one of them stores it.
pub fn totals(rows: usize, len: usize) -> Case {
    let text = "
        nest outer 1 inner 1 words 3
        buffer 0 f32 read  buffer 1 f32 update
        access 0 = buffer 0 [w2 1]  access 1 = buffer 1 [1 0]
        %0 f32 = load 0  %1 f32 = load 1  %2 f32 = mul %0 %1  %3 f32 = reduce sum %2  %4 f32 = add %1 %3
        store outer 1 %4";
    let words = [rows, len, len].map(|word| word as i64);
    case(text, &words, &[rows * len, rows])
}

/// Reductions of integers over two inner axes, with a batch axis.
pub fn counted(batch: usize, rows: usize, [a, b]: [usize; 2]) -> Case {
    let text = "
        nest outer 2 inner 2 words 7
        buffer 0 i32 read  buffer 1 i32 write  buffer 2 i32 write  buffer 3 i32 write  buffer 4 i64 write
        access 0 = buffer 0 [w4 w5 w6 1]  access 1 = buffer 1 [w1 1 0 0]  access 2 = buffer 2 [w1 1 0 0]
        access 3 = buffer 3 [w1 1 0 0]  access 4 = buffer 4 [w1 1 0 0]
        %0 i32 = load 0  %1 i32 = reduce sum %0  %2 i32 = reduce prod %0
        %3 i64 = index 3  %4 i32 = cast %3  %5 bool = lt %0 %4  %6 bool = reduce max %5  %7 i32 = cast %6
        %8 i64 = reduce argmax %0
        store outer 1 %1  store outer 2 %2  store outer 3 %7  store outer 4 %8";
    let words = [batch, rows, a, b, rows * a * b, a * b, b].map(|word| word as i64);
    let (all, out) = (batch * rows * a * b, batch * rows);
    case(text, &words, &[all, out, out, out, out])
}

/// Gathers rows by index. Some indices are out of range.
pub fn gather(rows: usize, columns: usize) -> Case {
    let text = "
        nest outer 2 inner 0 words 4
        buffer 0 f32 read  buffer 1 i64 read  buffer 2 f32 write
        access 0 = buffer 0 [0 1]  access 1 = buffer 1 [1 0]  access 2 = buffer 2 [w2 1]
        %0 i64 = load 1  %1 f32 = gather 0 %0 w2 w3
        store outer 2 %1";
    let words = [rows, columns, columns, 9].map(|word| word as i64);
    case(text, &words, &[9 * columns, rows, rows * columns])
}

/// Scatters by index: adds in order, and stores the last value. Some indices are out of range.
pub fn scatter(columns: usize, len: usize) -> Case {
    let text = "
        nest outer 1 inner 1 words 4
        buffer 0 f32 read  buffer 1 i64 read  buffer 2 f32 update  buffer 3 f32 update
        access 0 = buffer 0 [1 w2]  access 1 = buffer 1 [0 1]  access 2 = buffer 2 [1 0]  access 3 = buffer 3 [1 0]
        %0 f32 = load 0  %1 i64 = load 1
        store inner 2 %0 scatter add %1 w2 w3
        store inner 3 %0 scatter set %1 w2 w3";
    let words = [columns, len, columns, 9].map(|word| word as i64);
    case(
        text,
        &words,
        &[columns * len, len, 9 * columns, 9 * columns],
    )
}

/// Random numbers, and a dropout mask made of them.
pub fn random(len: usize) -> Case {
    let text = "
        nest outer 1 inner 0 words 3
        buffer 0 f32 read  buffer 1 u32 write  buffer 2 f32 write
        access 0 = buffer 0 [1]  access 1 = buffer 1 [1]  access 2 = buffer 2 [1]
        %0 i64 = index 0  %1 u32 = random w1 %0  %2 u32 = word w2  %3 bool = lt %1 %2
        %4 f32 = load 0  %5 f32 = const 0x0  %6 f32 = select %3 %4 %5
        store outer 1 %1  store outer 2 %6";
    let words = [len as i64, 0x1234_5678_9abc_def0, 1 << 31];
    case(text, &words, &[len; 3])
}
