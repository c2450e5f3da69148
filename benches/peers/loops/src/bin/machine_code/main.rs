//! The machine code of kernels in Rust beside CUDA C that was written by hand, without a GPU: needs NVRTC (`.ci/nvrtc`
//! installs it) and `nvdisasm`, which the Triton wheel of PyPI has (`triton/backends/nvidia/bin`):
//! `MILLSTREAM_NVRTC=$(.ci/nvrtc) NVDISASM=PATH cargo run --release --manifest-path benches/peers/loops/Cargo.toml --features
//! cuda --bin machine_code`.
//!
//! A cell has the instructions of the loop that does the work, for each of its units: iterations, loads, roots, barriers;
//! of a kernel without such a loop, all. *Exact* is a kernel as it is, *contracted* as with `#[kernel(contract)]`, which lets
//! the compiler fuse products and sums as it does those by hand, *unchecked* that with `unsafe(unchecked)`. The ratio is that of
//! contracted to by hand. Registers, spilled bytes and accesses of 64 and 128 bits are those of by hand and contracted.
//!
//! With the name of a kernel, it prints the three programs with their machine code.

use std::error::Error;
use std::io::Write;
use std::process::Command;
use std::sync::Arc;

use millstream::__kernel::call::{Definition, program};
use millstream::Kernel;
use millstream::cuda::{compile_for, cuda_c};
use millstream::ir::Program;
use millstream_algorithms::rodinia::{
    back_propagation, breadth_first, hotspot, k_means, lu, needle,
};
use millstream_algorithms::{convolution, cubecl_book, fluid, maps, options, rays, samples};
use millstream_harness::Table;

const TARGET: &str = "sm_90a";

fn main() -> Result<(), Box<dyn Error>> {
    let header = [
        "kernel",
        "unit",
        "by hand",
        "exact",
        "contracted",
        "unchecked",
        "ratio",
        "registers",
        "spills",
        "wide",
    ];
    let mut table = Table::new(header, 2..10);
    let only = std::env::args().nth(1);
    macro_rules! rows {
        ($($name:literal $of:ty, $unit:literal;)*) => {
            $(if only.as_ref().is_none_or(|only| only == $name) {
                let by_hand = include_str!(concat!($name, ".cu"));
                table.row(row::<$of>($name, by_hand, $unit, only.is_some())?);
            })*
        };
    }
    rows! {
        "saxpy" maps::saxpy, "all";
        "black_scholes" maps::black_scholes, "all";
        "mandelbrot" maps::mandelbrot, "iteration";
        "n_body" maps::n_body, "MUFU.RSQ";
        "convolve_rows" maps::convolve_rows, "LDG";
        "convolve_columns" convolution::convolve_columns, "STS";
        "trace" rays::trace, "LDG";
        "transpose" samples::transpose, "all";
        "partial_sums" samples::partial_sums, "LDG";
        "scan" samples::scan, "all";
        "histogram" samples::histogram, "ATOMS";
        "product" samples::product, "LDS";
        "bitonic" samples::bitonic, "all";
        "price_calls" options::price_calls, "MUFU.EX2";
        "hotspot" hotspot::hotspot, "BAR";
        "k_means" k_means::assign, "LDG";
        "layer_forward" back_propagation::layer_forward, "all";
        "hidden_error" back_propagation::hidden_error, "LDG";
        "expand" breadth_first::expand, "LDG";
        "lu_diagonal" lu::diagonal, "LDS";
        "lu_inside" lu::inside, "all";
        "needle" needle::align, "BAR";
        "gelu" cubecl_book::gelu<'_, f32>, "all";
        "row_sums" cubecl_book::row_sums<'_, f32>, "LDG";
        "product_by_cubes" cubecl_book::product<'_, f32>, "LDS";
        "advect" fluid::advect, "all";
        "jacobi" fluid::jacobi, "all";
    }
    println!("{}", table.text());
    Ok(())
}

/// Returns the cells of a row.
fn row<D: Definition>(
    name: &str,
    by_hand: &str,
    unit: &str,
    is_printed: bool,
) -> Result<Vec<String>, Box<dyn Error>> {
    let function = program::<D>()?;
    let (mut contracted, exact) = (function.clone(), function);
    contracted.contract = true;
    let mut unchecked = contracted.clone();
    unchecked.checked = false;
    let of_program = |function| Kernel::from_program(name, Arc::new(Program::Ssa(function)));
    let sides = [
        Kernel::new(D::NAME).cuda(by_hand),
        of_program(exact)?.exclusive(),
        of_program(contracted)?.exclusive(),
        of_program(unchecked)?.exclusive(),
    ];
    let mut counts = Vec::new();
    let [mut registers, mut spills, mut wide] = [Vec::new(), Vec::new(), Vec::new()];
    for kernel in sides {
        let compiled = compile_for(&kernel, TARGET)?;
        let code = Code::of(&compiled.binary)?;
        if is_printed {
            println!("{}\n{}", cuda_c(&kernel)?, code.lines.join("\n"));
        }
        counts.push(code.instructions(unit));
        registers.push(compiled.registers.to_string());
        spills.push(compiled.spilled_bytes.to_string());
        wide.push(code.wide().to_string());
    }
    let mut cells = vec![name.to_owned(), unit.to_owned()];
    cells.extend(counts.iter().map(|count| format!("{count:.1}")));
    cells.push(format!("{:.2}", counts[2] / counts[0]));
    cells.extend([registers, spills, wide].map(|of| format!("{} {}", of[0], of[2])));
    Ok(cells)
}

/// The machine code of a kernel, without the functions that it calls, such as the slow paths of quotients.
struct Code {
    lines: Vec<String>,
    /// Where each label stands.
    labels: Vec<(String, usize)>,
}

impl Code {
    fn of(binary: &[u8]) -> Result<Self, Box<dyn Error>> {
        let text = disassembled(binary)?;
        let (mut lines, mut labels) = (Vec::new(), Vec::new());
        for line in text.lines().map(str::trim) {
            if line.starts_with("$__internal") {
                break;
            } else if let Some(label) = line.strip_suffix(':') {
                labels.push((label.to_owned(), lines.len()));
            } else if line.starts_with("/*") && !line.contains("NOP") {
                lines.push(line.to_owned());
            }
        }
        Ok(Self { lines, labels })
    }

    /// Returns the first and the last line of each loop.
    fn loops(&self) -> Vec<(usize, usize)> {
        let target = |line: &str| {
            let (_, rest) = line.split_once("BRA ")?;
            let name = rest.split_once("`(")?.1.split_once(')')?.0;
            let mut labels = self.labels.iter();
            labels.find(|(label, _)| label == name).map(|(_, at)| *at)
        };
        let ends = self.lines.iter().enumerate();
        ends.filter_map(|(end, line)| target(line).filter(|at| *at < end).map(|at| (at, end)))
            .collect()
    }

    /// Returns the instructions for each unit, in the innermost loop with units that needs the fewest, which of a loop in two
    /// copies is the one without checks; without a loop with units, all.
    fn instructions(&self, unit: &str) -> f64 {
        let count = |(from, to): &(usize, usize)| {
            let units = self.lines[*from..=*to].iter();
            let units = units.filter(|line| line.contains(unit)).count();
            if unit == "iteration" { 1 } else { units }
        };
        let loops: Vec<_> = self
            .loops()
            .into_iter()
            .filter(|it| count(it) > 0)
            .collect();
        let is_inner = |(from, to): &&(usize, usize)| {
            let mut others = loops.iter().filter(|other| *other != &(*from, *to));
            !others.any(|(a, b)| from <= a && b <= to)
        };
        let inner = loops.iter().filter(is_inner);
        let ratios = inner.map(|it| (it.1 - it.0 + 1) as f64 / count(it) as f64);
        ratios.reduce(f64::min).unwrap_or(self.lines.len() as f64)
    }

    /// Returns the number of accesses of 64 or 128 bits.
    fn wide(&self) -> usize {
        let is_wide = |line: &&String| {
            let mut words = line.split_whitespace();
            words.any(|word| {
                let access = ["LDG", "STG", "LDS", "STS"]
                    .iter()
                    .any(|it| word.starts_with(it));
                access && (word.contains(".64") || word.contains(".128"))
            })
        };
        self.lines.iter().filter(is_wide).count()
    }
}

fn disassembled(binary: &[u8]) -> Result<String, Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("millstream-{}.cubin", std::process::id()));
    std::fs::File::create(&path)?.write_all(binary)?;
    let program = std::env::var("NVDISASM").unwrap_or_else(|_| "nvdisasm".into());
    let output = Command::new(&program).arg("-c").arg(&path).output();
    std::fs::remove_file(&path)?;
    let output = output.map_err(|error| format!("`{program}` (set NVDISASM): {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
