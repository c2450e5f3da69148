//! Programs of millstream's IR on a GPU: prints them as CUDA C and computes their launches from the launch words.
//!
//! A nest has several entry points; each launch selects the one that suits its lengths and strides
//! ([`millstream_ir::lower`]). A product and an SSA function have one. An entry point takes a pointer for each binding,
//! then all launch words as one struct by value, because there may be more words than parameters of a kernel.
//!
//! `print` writes the code. The head of a loop, which must not compute an index beyond `i64`, is written here.

mod print;

use std::fmt::{Display, Write};
use std::sync::Arc;

use millstream_gpu::{Variants, compile_error};
use millstream_ir::lower::Kind;
use millstream_ir::{Blocking, Program};
use millstream_protocol::{Kernel, KernelError, Source};

use crate::driver::Function;
use crate::launch::Shape;

/// Most bytes of a launch's parameters that every GPU supports.
const PARAMETER_BYTES_MAX: usize = 4096;

/// A program as CUDA C.
pub(crate) struct Printed {
    pub(crate) text: String,
    pub(crate) entries: Variants<PrintedEntry>,
    /// The epilogue of a product that a library may perform, as a program of its own.
    pub(crate) epilogue: Option<Variants<PrintedEntry>>,
}

/// One entry point of a program: its name, and the threads of a cube.
pub(crate) type PrintedEntry = (String, [u32; 3]);

/// The loaded entry points of a kernel with the threads of a cube, from which each launch selects one.
pub(crate) type Entries = Variants<(Function, [u32; 3])>;

/// Returns the launch of a kernel with these words and buffer addresses, without dynamic shared memory and options. `cubes`
/// is the count that the caller passed. Allocates nothing.
#[inline]
pub(crate) fn shape(entries: &Entries, cubes: [u32; 3], words: &[u64], addresses: &[u64]) -> Shape {
    let ((function, threads), cubes) = entries.select(cubes, words, addresses);
    Shape {
        function: function.raw,
        cubes,
        threads: *threads,
        ..Shape::default()
    }
}

/// Returns the IR program among a kernel's sources.
pub(crate) fn program_of(kernel: &Kernel) -> Option<&Arc<Program>> {
    kernel.sources().iter().find_map(|source| match source {
        Source::Ir(program) => Some(program),
        _ => None,
    })
}

/// Returns the blocking of a kernel's program.
pub(crate) fn blocking_of(kernel: &Kernel) -> Blocking {
    kernel.extension().copied().unwrap_or_default()
}

/// Returns the declared parameters of a program's entry points with their sizes in bytes.
pub(crate) fn parameters(program: &Program) -> Vec<(String, usize)> {
    let buffers = program.buffers().into_iter().enumerate();
    let pointers = buffers.map(|(index, (dtype, _))| {
        let what = format!("`{dtype}* {}`", program.buffer_name(index));
        (what, size_of::<u64>())
    });
    let words = program.words();
    let words = (words > 0).then(|| ("the launch words".to_owned(), words * size_of::<u64>()));
    pointers.chain(words).collect()
}

impl Printed {
    /// Prints the checked program of a kernel for a GPU with `units` multiprocessors. With `use_library`, also prints the
    /// epilogue of a product separately.
    ///
    /// # Errors
    /// The program cannot be printed.
    pub(crate) fn new(
        kernel: &Kernel,
        program: &Arc<Program>,
        units: usize,
        use_library: bool,
    ) -> Result<Self, KernelError> {
        let failed = |log| compile_error(kernel, log);
        let bytes: usize = parameters(program).iter().map(|(_, bytes)| bytes).sum();
        if bytes > PARAMETER_BYTES_MAX {
            let most = PARAMETER_BYTES_MAX;
            return Err(failed(format!(
                "expected at most {most} bytes of bindings and launch words, got {bytes}"
            )));
        }
        let mut text = print::PRELUDE.to_owned();
        let mut print = |suffix: &str, program: &Arc<Program>, blocking| {
            let name = entry_name(kernel.name()) + suffix;
            let functions = Variants::lower(program, blocking, units)?;
            functions.try_map(|kind, function| {
                let mut name = name.clone();
                match kind {
                    None => {}
                    Some(Kind::Thread { lanes: 1 }) => name += "_threads",
                    // Writing to a `String` cannot fail.
                    Some(Kind::Thread { lanes }) => _ = write!(name, "_threads_{lanes}"),
                    Some(Kind::Row) => name += "_rows",
                    Some(Kind::Cube) => name += "_cubes",
                }
                let printed = print::print(&mut text, &name, &function);
                printed.map_err(|error| error.to_string())?;
                Ok::<_, String>((name, function.threads))
            })
        };
        let entries = print("", program, blocking_of(kernel)).map_err(failed)?;
        let epilogue = match program.as_ref() {
            Program::Matmul(matmul) if use_library => matmul.epilogue.clone(),
            _ => None,
        };
        let epilogue = epilogue.map(|nest| {
            let program = Arc::new(Program::Nest(nest));
            print("_epilogue", &program, Blocking::DEFAULT)
        });
        Ok(Self {
            epilogue: epilogue.transpose().map_err(failed)?,
            entries,
            text,
        })
    }
}

/// Converts a kernel's name to a valid C identifier.
fn entry_name(name: &str) -> String {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let name = name.chars().take(128);
    let name: String = name.map(|c| if letter(c) { c } else { '_' }).collect();
    format!("ms_{name}")
}

// The head of a loop in CUDA C. The sum of the last index and the step may exceed `i64`, which must not be computed: it
// would be undefined behaviour, and the loop would not end.

/// Returns the line of a loop before its body, and the first line of the body. The bounds are the variables of start, end
/// and step; `values` are theirs if they are constants.
fn head<N: Display>(
    index: &N,
    [start, end, step]: &[N; 3],
    values: [Option<i64>; 3],
) -> (String, Option<String>) {
    match values {
        // A constant step is positive (checked). Below the end, a step of one does not exceed it.
        [_, last, Some(by)]
            if by == 1 || last.is_some_and(|last| last.checked_add(by).is_some()) =>
        {
            (
                format!("for (i64 {index} = {start}; {index} < {end}; {index} += {step}) {{"),
                None,
            )
        }
        // From 0 on, the sum of two positive `i64` is always a `u64`.
        [Some(0..), _, Some(by)] => (
            format!(
                "for (u64 t{index} = {start}, n{index} = {end} < 0 ? 0 : {end}; t{index} < n{index}; t{index} += {by}) {{"
            ),
            Some(format!("const i64 {index} = t{index};")),
        ),
        [_, _, by] => {
            // A step that is no constant may be 0, and the loop would not end.
            let guard = match by {
                Some(_) => String::new(),
                None => format!("{step} > 0 && "),
            };
            let head = format!(
                "for (i64 {index} = {start}; {guard}{index} < {end}; {index} = ms::next({index}, {step}, {end})) {{"
            );
            (head, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Floats have the operators of C, which the compiler contracts. All else stays.
    #[test]
    fn only_functions_that_may_contract_have_operators_that_the_compiler_contracts() {
        let printed = |contract: &str| {
            let text = format!(
                "kernel k threads 32 1 1{contract}
                   update x: f32  update y: f64  update z: i32
                 {{
                   %0: f32 = load x  %1: f32 = mul %0 %0  %2: f32 = add %1 %0  store x = %2
                   %3: f64 = load y  %4: f64 = mul %3 %3  %5: f64 = sub %4 %3  store y = %5
                   %6: i32 = load z  %7: i32 = mul %6 %6  %8: i32 = add %7 %6  store z = %8
                   %9: f32 = div %0 %2  store x = %9
                 }}"
            );
            let function = millstream_ir::ssa::parse(&text).expect("the text is a function");
            let mut text = String::new();
            print::print(&mut text, "k", &function).expect("a string has room");
            let sign = |line: &&str| {
                ["mul", "add", "sub", " * ", " + ", " - "]
                    .iter()
                    .any(|op| line.contains(op))
            };
            let lines = text.lines().filter(sign).map(str::trim);
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let of_integers = [
            "const i32 v7 = ms::mul(v6, v6);",
            "const i32 v8 = ms::add(v7, v6);",
        ];
        let exact = [
            "const f32 v1 = ms::mul(v0, v0);",
            "const f32 v2 = ms::add(v1, v0);",
            "const f64 v4 = ms::mul(v3, v3);",
            "const f64 v5 = ms::sub(v4, v3);",
        ];
        assert_eq!(printed(""), [&exact[..], &of_integers].concat());
        let contracted = [
            "const f32 v1 = v0 * v0;",
            "const f32 v2 = v1 + v0;",
            "const f64 v4 = v3 * v3;",
            "const f64 v5 = v4 - v3;",
        ];
        assert_eq!(
            printed(" contract"),
            [&contracted[..], &of_integers].concat()
        );
    }

    #[test]
    fn any_name_becomes_a_c_identifier() {
        assert_eq!(entry_name("a+b * \u{e9}"), "ms_a_b____");
        assert_eq!(entry_name(""), "ms_");
    }
}
