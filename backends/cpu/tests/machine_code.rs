//! Executable memory: none without machine code, and none that is also writable.
//!
//! Alone in its binary, because it reads the memory map of the whole process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "rig/mod.rs"]
mod rig;

use std::fs;

use millstream_cpu::Cpu;
use rig::{Q0, Rig, SOFTMAX};

/// Returns the permissions of each anonymous mapping of the process, such as `r-xp`.
fn anonymous() -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    // `7f0c8a000000-7f0c8a021000 rw-p 00000000 00:00 0`, followed by a path, or by a name such as `[heap]`.
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let may = words.nth(1).unwrap().to_owned();
        words.nth(3).is_none().then_some(may)
    };
    maps.lines().filter_map(of).collect()
}

fn executable() -> usize {
    let pieces = anonymous();
    assert!(
        !pieces
            .iter()
            .any(|may| may.contains('w') && may.contains('x')),
        "memory is writable and executable at once: {pieces:?}"
    );
    pieces.iter().filter(|may| may.contains('x')).count()
}

/// Returns the results of a program's first and second launch, and the number of executable mappings afterwards.
fn run(options: Cpu) -> ([Vec<u32>; 2], usize) {
    let mut rig = Rig::new(options.threads(1));
    let input: Vec<u32> = (0..256).map(|at| (at as f32 / 100.0).to_bits()).collect();
    let (input, output) = (rig.slice_of(&input), rig.slice_of(&[0; 256]));
    let nest = rig.nest(SOFTMAX);
    let results = [(); 2].map(|()| {
        let bindings = [input.read(), output.write()];
        let point = rig.launch(Q0, &nest, 1, &bindings, &[16, 16, 16]);
        rig.wait(point).unwrap();
        rig.read(Q0, &output).unwrap()
    });
    (results, executable())
}

#[test]
fn memory_is_executable_only_for_machine_code_and_then_not_writable() {
    let before = executable();
    let (without, pieces) = run(Cpu::default().machine_code(false));
    assert_eq!(pieces, before);
    let (with, pieces) = run(Cpu::default());
    let has_code = cfg!(feature = "machine-code") && is_x86_64_v3();
    assert_eq!(pieces > before, has_code);
    assert_eq!(
        with, without,
        "machine code and tile loops must give the same bits"
    );
}

/// Returns `true` if there is machine code for this processor.
fn is_x86_64_v3() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    false
}
