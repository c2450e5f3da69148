//! The machine code of kernels in Rust beside CUDA C that was written by hand, without a GPU: needs NVRTC (`.ci/nvrtc`
//! installs it) and `nvdisasm`, which the Triton wheel of PyPI has (`triton/backends/nvidia/bin`):
//! `MILLSTREAM_NVRTC=$(.ci/nvrtc) NVDISASM=PATH cargo run --release --manifest-path benches/peers/loops/Cargo.toml --features
//! cuda --bin machine_code`.
//!
//! A cell has the instructions of the loop that does the work, for each of its units: loads, products or atomic additions.
//! *Checked* is as a kernel is, *unchecked* as with `#[kernel(unsafe(unchecked))]`. A compiler may fuse the products and
//! sums of CUDA C; those of a kernel in Rust it may not.

use std::error::Error;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use millstream::__kernel::call::{Definition, program};
use millstream::Kernel;
use millstream::cuda::{Compiled, compile_for};
use millstream::ir::Program;
use millstream_algorithms::rodinia::k_means;
use millstream_algorithms::{maps, samples};
use millstream_harness::Table;

const TARGET: &str = "sm_90a";

fn main() -> Result<(), Box<dyn Error>> {
    let header = [
        "kernel",
        "unit",
        "by hand",
        "checked",
        "unchecked",
        "registers",
        "spills",
    ];
    let mut table = Table::new(header, 2..7);
    macro_rules! rows {
        ($($name:literal $of:ty, $unit:literal;)*) => {
            $(table.row(row::<$of>($name, include_str!(concat!($name, ".cu")), $unit)?);)*
        };
    }
    rows! {
        "saxpy" maps::saxpy, "";
        "n_body" maps::n_body, "MUFU.RSQ";
        "mandelbrot" maps::mandelbrot, "";
        "convolve_rows" maps::convolve_rows, "LDG";
        "k_means" k_means::assign, "LDG";
        "product" samples::product, "LDS";
        "partial_sums" samples::partial_sums, "LDG";
        "histogram" samples::histogram, "ATOMS";
    }
    println!("{}", table.text());
    Ok(())
}

/// The cells of a row: instructions, and of registers and spilled bytes those by hand, checked and unchecked.
fn row<D: Definition>(
    name: &str,
    by_hand: &str,
    unit: &str,
) -> Result<Vec<String>, Box<dyn Error>> {
    let mut function = program::<D>()?;
    let checked = Kernel::from_program(name, Arc::new(Program::Ssa(function.clone())))?;
    function.checked = false;
    let unchecked = Kernel::from_program(name, Arc::new(Program::Ssa(function)))?;
    let sides = [Kernel::new(name).cuda(by_hand), checked, unchecked];
    let mut cells = vec![
        name.to_owned(),
        if unit.is_empty() { "all" } else { unit }.to_owned(),
    ];
    let [mut registers, mut spills] = [Vec::new(), Vec::new()];
    for kernel in sides {
        let compiled = compile_for(&kernel, TARGET)?;
        cells.push(format!("{:.1}", instructions(&compiled, unit)?));
        registers.push(compiled.registers.to_string());
        spills.push(compiled.spilled_bytes.to_string());
    }
    cells.extend([registers.join(" "), spills.join(" ")]);
    Ok(cells)
}

/// Returns the instructions for each unit, in the innermost loop that needs the fewest, which of a loop in two copies is the
/// one without checks; of a kernel without a loop, all.
fn instructions(compiled: &Compiled, unit: &str) -> Result<f64, Box<dyn Error>> {
    let lines = disassembled(&compiled.binary)?;
    let label = |line: &str| line.strip_suffix(':').map(str::to_owned);
    let (mut code, mut labels) = (Vec::new(), Vec::new());
    for line in lines.lines().map(str::trim) {
        if let Some(label) = label(line) {
            labels.push((label, code.len()));
        } else if line.starts_with("/*") && !line.contains("NOP") {
            code.push(line);
        }
    }
    let target = |line: &str| {
        let (_, rest) = line.split_once("BRA ")?;
        let name = rest.split_once("(")?.1.split_once(')')?.0;
        labels
            .iter()
            .find(|(label, _)| label == name)
            .map(|(_, at)| *at)
    };
    let ends = code.iter().enumerate();
    let loops: Vec<_> = ends
        .filter_map(|(end, line)| target(line).filter(|at| *at < end).map(|at| (at, end)))
        .collect();
    let is_inner = |(from, to): &&(usize, usize)| {
        !loops
            .iter()
            .any(|(a, b)| (a, b) != (from, to) && from <= a && b <= to)
    };
    let count = |(from, to): &(usize, usize)| {
        let units = code[*from..=*to].iter().filter(|line| line.contains(unit));
        if unit.is_empty() { 1 } else { units.count() }
    };
    let inner = loops.iter().filter(is_inner).filter(|it| count(it) > 0);
    let ratios = inner.map(|it| (it.1 - it.0 + 1) as f64 / count(it) as f64);
    Ok(ratios.reduce(f64::min).unwrap_or(code.len() as f64))
}

fn disassembled(binary: &[u8]) -> Result<String, Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("millstream-{}.cubin", std::process::id()));
    std::fs::File::create(&path)?.write_all(binary)?;
    let program = std::env::var("NVDISASM").unwrap_or_else(|_| "nvdisasm".into());
    let output = Command::new(&program)
        .arg("-c")
        .arg(&path)
        .stderr(Stdio::inherit())
        .output();
    std::fs::remove_file(&path)?;
    let output = output.map_err(|error| format!("`{program}` (set NVDISASM): {error}"))?;
    Ok(String::from_utf8(output.stdout)?)
}
