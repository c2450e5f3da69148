//! Tests that run kernels without a driver.

mod races;
mod warps;

use std::ptr::NonNull;
use std::sync::Arc;

use crate::{Fault, Global, Kernel, Launch, Trap, Variable, Window, parse, run};

/// Memory with blocks at multiples of 64 KiB.
#[derive(Default)]
pub(super) struct Machine {
    blocks: Vec<Vec<u64>>,
}

const APART: u64 = 1 << 16;

impl Machine {
    /// Adds a block with these values and returns its address.
    pub(super) fn put<T: Copy>(&mut self, values: &[T]) -> u64 {
        let bytes = size_of_val(values);
        let mut block = vec![0_u64; bytes.div_ceil(8).max(1)];
        // SAFETY: the block has room for the values.
        unsafe {
            std::ptr::copy_nonoverlapping(
                values.as_ptr().cast(),
                block.as_mut_ptr().cast::<u8>(),
                bytes,
            );
        }
        self.blocks.push(block);
        self.blocks.len() as u64 * APART
    }

    pub(super) fn get<T: Copy>(&self, address: u64, count: usize) -> Vec<T> {
        let block = &self.blocks[(address / APART) as usize - 1];
        assert!(count * size_of::<T>() <= block.len() * 8);
        // SAFETY: the block has as many values, and is aligned to 8 bytes.
        unsafe { std::slice::from_raw_parts(block.as_ptr().cast::<T>(), count).to_vec() }
    }

    pub(super) fn load(&mut self, text: &str) -> Result<Vec<Arc<Kernel>>, String> {
        let kernels = parse(text, &mut |variable: Variable<'_>| {
            let mut bytes = vec![0_u8; variable.bytes];
            bytes[..variable.initial.len()].copy_from_slice(variable.initial);
            Ok(self.put(&bytes))
        })?;
        Ok(kernels.into_iter().map(Arc::new).collect())
    }

    /// Runs a kernel with 64-bit parameters and returns the races.
    pub(super) fn run(
        &mut self,
        kernel: &Arc<Kernel>,
        cubes: u32,
        threads: u32,
        parameters: &[u64],
    ) -> Result<Vec<String>, String> {
        let mut bytes: Vec<u8> = parameters
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        bytes.resize(bytes.len().max(kernel.parameter_bytes()), 0);
        let launch = Launch {
            kernel,
            cubes: [cubes, 1, 1],
            threads: [threads, 1, 1],
            shared_bytes: 1024,
            parameters: &bytes,
        };
        let outcome = run(&launch, self);
        outcome
            .result
            .map_err(|trap| trap.message)
            .map(|()| outcome.races)
    }
}

impl Global for Machine {
    fn window(&mut self, address: u64, bytes: u64) -> Result<Window, Trap> {
        let illegal = || Trap {
            fault: Fault::IllegalAddress,
            message: format!("out of bounds: {address:#x}"),
        };
        let number = (address / APART).checked_sub(1).ok_or_else(illegal)?;
        let block = self.blocks.get_mut(number as usize).ok_or_else(illegal)?;
        let window = Window {
            start: (number + 1) * APART,
            bytes: block.len() as u64 * 8,
            at: NonNull::from(&mut block[0]).cast(),
        };
        match address + bytes <= window.start + window.bytes {
            true => Ok(window),
            false => Err(illegal()),
        }
    }
}

/// Parses a kernel with this body, an output `o` and an input `i` as 64-bit addresses, and registers of all kinds.
pub(super) fn kernel(body: &str) -> Result<Vec<Arc<Kernel>>, String> {
    Machine::default().load(&text(body))
}

fn text(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 o, .param .u64 i, .param .u64 n)\n\
         {{\n.reg .pred %p, %q; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .f64 %d<9>;\n\
         ld.param.u64 %rd0, [o]; ld.param.u64 %rd1, [i]; mov.u32 %r0, %tid.x; mov.u32 %r8, %ctaid.x;\n\
         mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd1, %rd2; add.s64 %rd2, %rd0, %rd2; ld.global.u32 %r1, [%rd3];\n{body}\n}}"
    )
}

/// Runs one block in which each thread has its input word in `%r1` and stores one at `[%rd2]`. Returns the words and
/// the races.
pub(super) fn run_words(
    threads: u32,
    input: &[u32],
    body: &str,
) -> Result<(Vec<u32>, Vec<String>), String> {
    let mut machine = Machine::default();
    let kernels = machine.load(&text(body))?;
    let mut words = input.to_vec();
    words.resize(threads as usize, 0);
    let (to, from) = (
        machine.put(&vec![0_u32; threads as usize]),
        machine.put(&words),
    );
    let races = machine.run(&kernels[0], 1, threads, &[to, from])?;
    Ok((machine.get(to, threads as usize), races))
}

/// As [`run_words`], but requires that there are no races.
fn words(threads: u32, input: &[u32], body: &str) -> Vec<u32> {
    let (words, races) =
        run_words(threads, input, body).unwrap_or_else(|message| panic!("{message}"));
    assert!(races.is_empty(), "{races:?}");
    words
}

/// A loop with loads, stores and arithmetic. Also prints the speed.
#[test]
fn a_loop_computes_the_same_as_rust() {
    const STEPS: u32 = 2000;
    let body = format!(
        "mov.u32 %r2, 0; mov.u32 %r3, 0; mov.f32 %f1, 0f3F800000;\n\
         L: add.s32 %r2, %r2, %r1; xor.b32 %r2, %r2, %r3; mul.lo.s32 %r2, %r2, 3;\n\
         fma.rn.f32 %f1, %f1, 0f3F000000, 0f3F800000; st.global.u32 [%rd2], %r2; ld.global.u32 %r2, [%rd2];\n\
         add.s32 %r3, %r3, 1; setp.lt.u32 %p, %r3, {STEPS}; @%p bra L;\n\
         cvt.rzi.u32.f32 %r4, %f1; add.s32 %r2, %r2, %r4; st.global.u32 [%rd2], %r2; ret;"
    );
    let input: Vec<u32> = (0..256).collect();
    let start = std::time::Instant::now();
    let got = words(256, &input, &body);
    let rate = 256.0 * 9.0 * f64::from(STEPS) / start.elapsed().as_secs_f64() / 1e6;
    println!("{rate:.0} million instructions per second");
    let expected = input.iter().map(|word| {
        let step = |sum: u32, at: u32| (sum.wrapping_add(*word) ^ at).wrapping_mul(3);
        // 1 + 1/2 + 1/4 + ..
        (0..STEPS).fold(0, step) + 2
    });
    assert_eq!(got, expected.collect::<Vec<_>>());
}

const LANE: &str = "st.global.u32 [%rd2], %r2; ret;";

#[test]
fn words_are_packed_and_carries_are_kept() {
    let of = |body: &str| words(1, &[0x3C00_4000], &format!("{body} {LANE}"))[0];
    // Halves: 1 in the upper half, 2 in the lower.
    assert_eq!(
        of("mov.b32 {%h1, %h2}, %r1; mov.b32 %r2, {%h2, %h1};"),
        0x4000_3C00
    );
    assert_eq!(
        of("mov.b32 {%h1, _}, %r1; cvt.f32.f16 %f1, %h1; mov.b32 %r2, %f1;"),
        2.0_f32.to_bits()
    );
    assert_eq!(
        of("mov.b64 %rd5, {%r1, 7}; shr.u64 %rd5, %rd5, 32; cvt.u32.u64 %r2, %rd5;"),
        7
    );
    assert_eq!(
        of("copysign.f32 %f1, 0fBF800000, 0f40000000; mov.b32 %r2, %f1;"),
        (-2.0_f32).to_bits()
    );
    assert_eq!(of("add.cc.u32 %r3, -1, 1; addc.u32 %r2, 5, 5;"), 11);
    assert_eq!(
        of("sub.cc.u32 %r3, 0, 1; subc.u32 %r2, 5, 5;"),
        u32::MAX,
        "the borrow"
    );
}

#[test]
fn functions_have_their_own_parameters_variables_and_memory() {
    let mut machine = Machine::default();
    let kernels = machine
        .load(
            ".version 8.0\n.target sm_80\n.address_size 64\n.const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 0xff};\n\
             .global .align 4 .u32 counter = 40;\n.func (.param .b32 r) twice(.param .b32 a);\n\
             .visible .entry k(.param .u64 o) {\n.local .align 8 .b8 own[16]; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p;\n\
             ld.param.u64 %rd1, [o]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;\n\
             mov.u64 %rd3, own; cvta.local.u64 %rd4, %rd3; st.local.u32 [%rd3+4], %r1; setp.lt.u32 %p, %r1, 8; @%p bra FEW;\n\
             { .param .b32 p; st.param.b32 [p], %r1; .param .b32 q; call.uni (q), twice, (p); ld.param.b32 %r2, [q]; }\nbra BOTH;\n\
             FEW: { .reg .b32 %r1; .param .b32 p; mov.u32 %r1, 100; st.param.b32 [p], %r1; .param .b32 q; call (q), twice, (p); ld.param.b32 %r2, [q]; }\n\
             BOTH: ld.u32 %r3, [%rd4+4]; add.s32 %r2, %r2, %r3; and.b32 %r3, %r1, 3; mul.wide.u32 %rd5, %r3, 4; mov.u64 %rd6, table;\n\
             add.s64 %rd5, %rd6, %rd5; ld.const.u32 %r3, [%rd5]; add.s32 %r2, %r2, %r3; atom.global.add.u32 %r4, [counter], 1;\n\
             st.global.u32 [%rd1], %r2; ret; }\n\
             .func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %x<3>; ld.param.b32 %x1, [a]; add.s32 %x2, %x1, %x1; st.param.b32 [r], %x2; ret; }",
        )
        .unwrap();
    let to = machine.put(&[0_u32; 64]);
    assert_eq!(machine.run(&kernels[0], 1, 64, &[to]).unwrap(), [""; 0]);
    let table = [1, 2, 4, 255];
    let expected: Vec<u32> = (0..64)
        .map(|at: u32| at + table[at as usize % 4] + 2 * if at < 8 { 100 } else { at })
        .collect();
    assert_eq!(machine.get::<u32>(to, 64), expected);
    // The variables are allocated first: the constants, then the counter.
    assert_eq!(machine.get::<u32>(2 * APART, 1), [104]);
}

/// Each operation on 0xfffffff0 and 0x35 in shared memory: what was there, and what is there.
#[test]
fn atomic_operations_return_what_was_there() {
    for (operation, stored) in [
        ("add.u32", 0x25),
        ("min.s32", 0xffff_fff0),
        ("min.u32", 0x35),
        ("max.s32", 0x35),
        ("max.u32", 0xffff_fff0),
        ("and.b32", 0x30),
        ("or.b32", 0xffff_fff5),
        ("xor.b32", 0xffff_ffc5),
        ("exch.b32", 0x35),
    ] {
        let of = |last: &str| {
            let body = format!(
                ".shared .align 4 .u32 at; st.shared.u32 [at], %r1; atom.shared.{operation} %r2, [at], 0x35; {last} {LANE}"
            );
            words(1, &[0xffff_fff0], &body)[0]
        };
        assert_eq!(of(""), 0xffff_fff0, "{operation}");
        assert_eq!(of("ld.shared.u32 %r2, [at];"), stored, "{operation}");
    }
    for (expected, stored) in [(7, 9), (8, 7)] {
        let body = format!(
            ".shared .align 4 .u32 at; st.shared.u32 [at], %r1; atom.shared.cas.b32 %r2, [at], {expected}, 9; ld.shared.u32 %r3, [at]; \
             mad.lo.s32 %r2, %r2, 100, %r3; {LANE}"
        );
        assert_eq!(words(1, &[7], &body), [700 + stored]);
    }
}

#[test]
fn a_polling_thread_does_not_block_the_thread_that_it_waits_for() {
    // Lane 0 waits for lane 1, and all lanes for a lane of the last warp.
    let body = format!(
        ".shared .align 4 .u32 near; .shared .align 4 .u32 far; setp.eq.u32 %p, %r0, 0; @%p st.shared.u32 [near], 0;\n\
         @%p st.shared.u32 [far], 0; bar.sync 0; setp.eq.u32 %q, %r0, 95; @%q red.shared.add.u32 [far], 7;\n\
         @!%p bra NEXT; TRY: atom.shared.add.u32 %r3, [near], 0; setp.eq.u32 %q, %r3, 0; @%q bra TRY;\n\
         NEXT: setp.eq.u32 %q, %r0, 1; @%q red.shared.add.u32 [near], 1;\n\
         LAST: atom.shared.add.u32 %r2, [far], 0; setp.eq.u32 %q, %r2, 0; @%q bra LAST; {LANE}"
    );
    assert_eq!(words(96, &[2; 96], &body), [7; 96]);
    let never = "L: bra L;";
    let message = run_words(1, &[0], never).unwrap_err();
    assert!(message.contains("not to terminate"), "{message}");
}

#[test]
fn a_trap_names_the_line_and_the_thread() {
    for (body, message) in [
        (
            "st.shared.u32 [2000], %r1; ret;",
            "out of bounds: 4 bytes at offset 2000 of the 1024 bytes of shared",
        ),
        (
            "setp.eq.u32 %p, %r0, 5; @%p st.global.u32 [%rd2+2], %r1; ret;",
            "thread [5, 0, 0] of cube [0, 0, 0]: misaligned: 4 bytes",
        ),
        ("div.u32 %r2, %r1, 0; ret;", "integer division by 0"),
        ("trap;", "executes `trap`"),
        (
            "mov.u64 %rd4, 0x0b2000000000; st.u32 [%rd4], %r1; ret;",
            "writes to its parameters",
        ),
        (
            "setp.eq.u32 %p, %r0, 5; @%p bra A; bar.sync 0; ret; A: bar.sync 1; ret;",
            "different barriers",
        ),
    ] {
        let error = run_words(32, &[1], body).unwrap_err();
        assert!(
            error.contains(message) && error.contains("kernel `k`"),
            "{body}: {error}"
        );
    }
}

#[test]
fn parameters_have_the_layout_of_a_c_struct() {
    let read = Machine::default()
        .load(".entry k(.param .u32 a, .param .u64 b, .param .align 64 .b8 c[128]) { ret; }")
        .unwrap();
    let places: Vec<_> = read[0]
        .parameters
        .iter()
        .map(|of| (of.offset, of.bytes))
        .collect();
    assert_eq!(places, [(0, 4), (8, 8), (64, 128)]);
}

#[test]
fn unsupported_text_is_an_error_with_its_line() {
    for (body, message) in [
        ("frobnicate.s32 %r1, %r2;", "line 9: `frobnicate.s32`"),
        ("add.frob.f32 %f1, %f2, %f2;", "frob"),
        ("add.sat.u32 %r1, %r2, %r2;", "sat"),
        ("add.s32 %r1, %r9, %r2;", "%r9"),
        ("add.s32 %r1, %r2;", "operands"),
        ("cvt.f16.f32 %h1, %f2;", "rounding"),
        ("mov.u32 %r1, %clock;", "%clock"),
        ("bra NOWHERE;", "NOWHERE"),
        ("{ bra INNER; } { INNER: }", "INNER"),
        ("call helper;", "helper"),
        ("bar.sync 0, 64;", "barriers of all threads"),
        ("shfl.sync.left.b32 %r1, %r2, 1, 0, -1;", "shuffle mode"),
        ("atom.global.inc.u32 %r1, [%rd1], 7;", "atomic operation"),
        ("cvt.rn.f16x2.f32 %r1, %f1, %f2;", "f16x2"),
        ("membar.gl;", "`membar.gl`"),
        ("min.ftz.f32 %f1, %f2, %f2;", "min.ftz.f32"),
        ("cvt.rn.sat.f32.s32 %f1, %r2;", "rounding"),
        ("st.const.u32 [%rd1], %r1;", "constants"),
        ("cp.async.ca.shared.global [%rd1], [%rd2], 16;", "cp.async"),
        (".frobnicate 3;", "`.frobnicate`"),
    ] {
        let error = kernel(body).unwrap_err();
        assert!(error.contains(message), "{body}: {error}");
    }
    let itself = ".func f() { call f; ret; } .entry k() { call f; ret; }";
    let error = Machine::default().load(itself).unwrap_err();
    assert!(error.contains("calls itself"), "{error}");
    let nowhere = ".extern .func f(); .entry k() { call f; ret; }";
    let error = Machine::default().load(nowhere).unwrap_err();
    assert!(error.contains("`f` is not defined"), "{error}");
}
