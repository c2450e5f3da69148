//! Races between the threads of a launch.

use super::{Machine, run_words, text};

/// Returns the races of a body in one block of `threads` threads.
fn races(threads: u32, body: &str) -> Vec<String> {
    let body = format!(
        ".shared .align 4 .b8 s[512]; mov.u64 %rd4, s; mul.wide.u32 %rd5, %r0, 4; add.s64 %rd5, %rd4, %rd5; {body} ret;"
    );
    run_words(threads, &[1; 64], &body).unwrap().1
}

#[test]
fn a_missing_barrier_is_a_race() {
    let neighbour = "st.shared.u32 [%rd5], %r0; BARRIER xor.b32 %r2, %r0, OTHER; mul.wide.u32 %rd6, %r2, 4; add.s64 %rd6, %rd4, %rd6;\n\
                     ld.shared.u32 %r2, [%rd6]; st.global.u32 [%rd2], %r2;";
    let with = |barrier: &str, other: &str| {
        races(
            64,
            &neighbour
                .replace("BARRIER", barrier)
                .replace("OTHER", other),
        )
    };
    let found = with("", "1");
    assert!(
        matches!(&found[..], [one, other] if one.contains("which thread [0, 0, 0] of cube [0, 0, 0] reads")
            && other.contains("which thread [0, 0, 0] of cube [0, 0, 0] writes")),
        "{found:?}"
    );
    assert_eq!(with("bar.sync 0;", "1"), [""; 0]);
    // A warp barrier orders only the lanes of the warp.
    assert_eq!(with("bar.warp.sync -1;", "1"), [""; 0]);
    assert_eq!(with("bar.warp.sync -1;", "32").len(), 1);
    // All threads write one word: different values race, equal values and atomic operations do not.
    for (count, threads, body) in [
        (1, 64, "st.shared.u32 [%rd4], %r0;"),
        (0, 64, "st.shared.u32 [%rd4], 5;"),
        (0, 64, "red.shared.add.u32 [%rd4], 1;"),
        (
            1,
            64,
            "st.shared.u32 [%rd4], %r0;\nred.shared.add.u32 [%rd4], 5;",
        ),
        (
            1,
            64,
            "ld.shared.u32 %r2, [%rd4]; setp.eq.u32 %p, %r0, 40; @%p st.shared.u32 [%rd4], 7;",
        ),
        (
            0,
            64,
            "ld.shared.u32 %r2, [%rd4]; bar.sync 0; setp.eq.u32 %p, %r0, 40; @%p st.shared.u32 [%rd4], 7;",
        ),
        (
            0,
            32,
            "ld.shared.u32 %r2, [%rd4]; bar.warp.sync -1; setp.eq.u32 %p, %r0, 4; @%p st.shared.u32 [%rd4], 7;",
        ),
    ] {
        let found = races(threads, body);
        assert_eq!(found.len(), count, "{body}: {found:?}");
    }
}

#[test]
fn blocks_that_access_the_same_global_memory_race_except_atomically() {
    let run = |body: &str| {
        let mut machine = Machine::default();
        let kernels = machine.load(&text(body)).unwrap();
        let (to, from) = (machine.put(&[0_u32; 64]), machine.put(&[1_u32; 64]));
        machine.run(&kernels[0], 2, 32, &[to, from]).unwrap()
    };
    let found = run("st.global.u32 [%rd2], %r8; ret;");
    assert!(
        matches!(&found[..], [one] if one.contains("of cube [1, 0, 0] writes global") && one.contains("of cube [0, 0, 0] writes")),
        "{found:?}"
    );
    assert_eq!(run("red.global.add.u32 [%rd2], %r8; ret;"), [""; 0]);
    // A barrier orders only the threads of one block.
    assert_eq!(
        run("ld.global.u32 %r2, [%rd2]; bar.sync 0; st.global.u32 [%rd2], 9; ret;").len(),
        1
    );
    // Each block accesses its own memory.
    assert_eq!(
        run(
            "mul.wide.u32 %rd4, %r8, 128; add.s64 %rd2, %rd2, %rd4; st.global.u32 [%rd2], %r8; ret;"
        ),
        [""; 0]
    );
}
