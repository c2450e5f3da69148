//! Nests compared with the reference evaluator ([`naive`]).

mod elementwise;
mod kernels;
mod math;
mod nests;
mod prepared;
mod reductions;
mod runs;
mod scatters;
mod transposed;

use std::fmt::Display;

use millstream_ir::scalar::{self, Number};
use millstream_ir::{Blocking, DType, Nest, Program, Rows};
use millstream_ir_text::naive;
pub(crate) use millstream_kernel_cases::operations::distance;
use millstream_protocol::NativeView;

use crate::{Code, Options, RunError, SingleThread, Team};
use millstream_loops::level::Level as Processor;

/// Whether tests run all their cases (`MILLSTREAM_ALL_CASES=1`), which takes minutes without optimization. Otherwise they
/// omit cases that repeat others with another type or size.
pub(crate) fn all_cases() -> bool {
    std::env::var("MILLSTREAM_ALL_CASES").is_ok_and(|value| value == "1")
}

/// The text of a nest, whose buffers have an access each.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// `outer 1 inner 0 words 1`
    counts: String,
    /// `f32 read [w1 1]`, or with an offset `f32 read + w2 [w1 1]`.
    buffers: Vec<String>,
    values: Vec<String>,
    stores: String,
}

impl Draft {
    pub(crate) fn new(counts: impl Into<String>, buffers: &[&str]) -> Self {
        Self {
            counts: counts.into(),
            buffers: buffers.iter().map(|buffer| (*buffer).to_owned()).collect(),
            values: Vec::new(),
            stores: String::new(),
        }
    }

    /// Adds a buffer with its access. Returns its number.
    pub(crate) fn buffer(&mut self, buffer: String) -> usize {
        self.buffers.push(buffer);
        self.buffers.len() - 1
    }

    /// Adds a value. Returns its number.
    pub(crate) fn value(&mut self, dtype: DType, op: impl Display) -> usize {
        let number = self.values.len();
        self.values.push(format!("%{number} {dtype} = {op}"));
        number
    }

    pub(crate) fn store(&mut self, level: &str, buffer: usize, value: usize) {
        self.stores += &format!(" store {level} {buffer} %{value}");
    }

    pub(crate) fn nest(&self) -> Nest {
        let (counts, values, stores) = (&self.counts, self.values.join(" "), &self.stores);
        let (mut buffers, mut accesses) = (String::new(), String::new());
        for (at, buffer) in self.buffers.iter().enumerate() {
            let mut parts = buffer.splitn(3, ' ');
            let [dtype, mode, access] = [(); 3].map(|()| parts.next().unwrap_or_default());
            buffers += &format!(" buffer {at} {dtype} {mode}");
            accesses += &format!(" access {at} = buffer {at} {access}");
        }
        let text = format!("nest {counts}{buffers}{accesses} {values}{stores}");
        millstream_ir_text::nest(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// Parses a nest: its counts, its buffers with an access each, and its values and stores.
pub(crate) fn nest(counts: &str, buffers: &[&str], body: &str) -> Nest {
    let mut draft = Draft::new(counts, buffers);
    draft.values.push(body.to_owned());
    draft.nest()
}

/// Returns elements for each buffer of a nest.
pub(crate) fn filled(nest: &Nest, count: usize) -> Vec<Vec<u8>> {
    let buffers = nest.buffers.iter().zip(0..);
    buffers
        .map(|(buffer, seed)| elements(buffer.dtype, count, seed, true))
        .collect()
}

/// Returns a pseudorandom number.
pub(crate) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns elements of a type: small numbers, and some special values.
pub(crate) fn elements(dtype: DType, count: usize, seed: u64, specials: bool) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(count * dtype.size());
    for _ in 0..count {
        let draw = random(&mut state);
        let special = specials && draw.is_multiple_of(13);
        let small = ((draw >> 20) % 2001) as f64 / 250.0 - 4.0;
        let datum = match (dtype, special) {
            (DType::Bool, _) => Number::Whole(i128::from(draw >> 30 & 1)),
            (dtype, true) if dtype.is_float() => {
                let all = [
                    f64::NAN,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    0.0,
                    -0.0,
                    1e-42,
                    3e38,
                ];
                Number::Float(all[(draw >> 8) as usize % all.len()])
            }
            (dtype, false) if dtype.is_float() => Number::Float(small),
            (_, true) => Number::Whole(i128::from(draw)),
            (_, false) => Number::Whole(i128::from(draw >> 20) % 19 - 9),
        };
        let bits = datum.bits(dtype);
        bytes.extend_from_slice(&bits.to_le_bytes()[..dtype.size()]);
    }
    bytes
}

/// Returns memory that is aligned for every element type.
pub(crate) fn aligned(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0_u64; bytes.len().div_ceil(8) + 1];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut all = [0; 8];
        all[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_le_bytes(all);
    }
    words
}

/// Returns every level of this processor.
pub(crate) fn levels() -> Vec<Processor> {
    let mut levels = vec![Processor::Base];
    #[cfg(target_arch = "x86_64")]
    levels.extend(
        [Processor::V3, Processor::V4]
            .into_iter()
            .filter(|level| *level <= Processor::of_processor()),
    );
    levels
}

/// Returns the default options with this blocking.
pub(crate) fn blocked(blocking: Blocking) -> Options {
    Options {
        blocking,
        ..Options::default()
    }
}

/// Runs a nest over copies of the buffers. `same` names for each buffer the one whose memory it shares.
pub(crate) fn run(
    nest: &Nest,
    buffers: &[Vec<u8>],
    same: &[usize],
    words: &[u64],
) -> Result<Vec<Vec<u8>>, RunError> {
    nest.check().expect("the nest is valid");
    let code = Code::compile(&Program::Nest(nest.clone()), Options::default())
        .expect("the program compiles");
    run_code(&code, buffers, same, words)
}

pub(crate) fn run_code(
    code: &Code,
    buffers: &[Vec<u8>],
    same: &[usize],
    words: &[u64],
) -> Result<Vec<Vec<u8>>, RunError> {
    run_code_by(code, buffers, same, words, &mut SingleThread)
}

pub(crate) fn run_code_by(
    code: &Code,
    buffers: &[Vec<u8>],
    same: &[usize],
    words: &[u64],
    team: &mut dyn Team,
) -> Result<Vec<Vec<u8>>, RunError> {
    let mut memory: Vec<Vec<u64>> = buffers.iter().map(|bytes| aligned(bytes)).collect();
    let pointers: Vec<*mut u64> = memory.iter_mut().map(Vec::as_mut_ptr).collect();
    let place = |index: usize| same.get(index).copied().unwrap_or(index);
    let views: Vec<NativeView> = (0..buffers.len())
        .map(|index| NativeView {
            pointer: pointers[place(index)].cast(),
            bytes: buffers[index].len() as u64,
        })
        .collect();
    // SAFETY: the memory belongs to this test.
    unsafe { code.run(&views, words, team) }?;
    let bytes = |index: usize| {
        let all = memory[place(index)]
            .iter()
            .flat_map(|word| word.to_le_bytes());
        all.take(buffers[index].len()).collect()
    };
    Ok((0..buffers.len()).map(bytes).collect())
}

/// Returns each level of this processor, with each direction of rows.
fn configurations(nest: &Nest) -> impl Iterator<Item = (Processor, Blocking)> {
    let usual = Blocking::DEFAULT;
    let mut configurations = vec![usual];
    if nest.inner > 0 {
        configurations.extend([Rows::Along, Rows::Across].map(|rows| usual.rows(rows)));
    }
    levels().into_iter().flat_map(move |level| {
        configurations
            .clone()
            .into_iter()
            .map(move |way| (level, way))
    })
}

/// Checks that every level of this processor, with every direction of rows, computes the nest within `units` in the
/// last place.
pub(crate) fn check_within(
    nest: &Nest,
    buffers: &[Vec<u8>],
    same: &[usize],
    words: &[u64],
    units: u64,
) {
    check_by(
        nest,
        buffers,
        same,
        words,
        |what, dtype, found, expected| {
            let both = expected
                .chunks(dtype.size())
                .zip(found.chunks(dtype.size()));
            for (index, (expected, found)) in both.enumerate() {
                let [should, is] = [expected, found].map(|bytes| scalar::load(dtype, bytes));
                let apart = distance(dtype, should, is);
                assert!(
                    apart <= units,
                    "element {index} of {what}: {:?} is {apart} units from {:?}\n{nest:?}, words {words:?}",
                    Number::load(dtype, found),
                    Number::load(dtype, expected),
                );
            }
        },
    );
}

/// Runs the nest at every level of this processor, with every direction of rows, over tiles and as machine code. Checks
/// that these two are equal, and passes what each store wrote, and should have written, to `compare`.
pub(crate) fn check_by(
    nest: &Nest,
    buffers: &[Vec<u8>],
    same: &[usize],
    words: &[u64],
    compare: impl Fn(&str, DType, &[u8], &[u8]),
) {
    nest.check().expect("the nest is valid");
    let place = |index: usize| same.get(index).copied().unwrap_or(index);
    let given: Vec<Vec<u8>> = (0..buffers.len())
        .map(|index| buffers[place(index)].clone())
        .collect();
    let mut expected = given.clone();
    naive::run(nest, &mut expected, words);
    for (level, blocking) in configurations(nest) {
        let program = Program::Nest(nest.clone());
        let code =
            Code::compile_for(&program, level, blocked(blocking)).expect("the program compiles");
        // The first launch runs over tiles, the second as machine code.
        let found = run_code(&code, &given, same, words).expect("the launch runs");
        let again = run_code(&code, &given, same, words).expect("the launch runs");
        for store in &nest.stores {
            let buffer = usize::from(nest.accesses[usize::from(store.access)].buffer);
            let dtype = nest.buffers[buffer].dtype;
            let what = format!("buffer {buffer} at {level:?}, {blocking}");
            let is_nan = |bytes: &[u8]| Number::load(dtype, bytes).is_nan();
            let [tiles, code] = [&found, &again].map(|of| of[buffer].chunks(dtype.size()));
            let differs = tiles
                .zip(code)
                .position(|(a, b)| a != b && !(is_nan(a) && is_nan(b)));
            assert_eq!(
                differs, None,
                "element of {what}, over tiles and in machine code\n{nest:?}"
            );
            compare(&what, dtype, &found[buffer], &expected[buffer]);
        }
    }
}

pub(crate) fn check(nest: &Nest, buffers: &[Vec<u8>], words: &[u64]) {
    check_within(nest, buffers, &[], words, 0);
}
