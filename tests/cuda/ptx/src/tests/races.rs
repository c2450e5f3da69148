//! Races between the threads of a launch.

use super::{Machine, run_words, text};

/// The races of a body, by one block of so many threads.
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
    let wrong = with("", "1");
    assert!(
        matches!(&wrong[..], [one] if one.contains("which thread [1, 0, 0] of cube [0, 0, 0] writes")),
        "{wrong:?}"
    );
    assert_eq!(with("bar.sync 0;", "1"), [""; 0]);
    // A barrier of warps orders within them alone.
    assert_eq!(with("bar.warp.sync -1;", "1"), [""; 0]);
    assert_eq!(with("bar.warp.sync -1;", "32").len(), 2);
    // All write one word: other values are a race, one value is none, and atomic operations are none.
    assert_eq!(races(64, "st.shared.u32 [%rd4], %r0;").len(), 1);
    assert_eq!(races(64, "st.shared.u32 [%rd4], 5;"), [""; 0]);
    assert_eq!(races(64, "red.shared.add.u32 [%rd4], 1;"), [""; 0]);
    assert_eq!(
        races(
            64,
            "st.shared.u32 [%rd4], %r0;\nred.shared.add.u32 [%rd4], 1;"
        )
        .len(),
        2
    );
    assert_eq!(
        races(
            64,
            "ld.shared.u32 %r2, [%rd4]; setp.eq.u32 %p, %r0, 40; @%p st.shared.u32 [%rd4], 7;"
        )
        .len(),
        1
    );
    assert_eq!(
        races(
            64,
            "ld.shared.u32 %r2, [%rd4]; bar.sync 0; setp.eq.u32 %p, %r0, 40; @%p st.shared.u32 [%rd4], 7;"
        ),
        [""; 0]
    );
    assert_eq!(
        races(
            32,
            "ld.shared.u32 %r2, [%rd4]; bar.warp.sync -1; setp.eq.u32 %p, %r0, 4; @%p st.shared.u32 [%rd4], 7;"
        ),
        [""; 0]
    );
}

#[test]
fn blocks_that_touch_the_same_global_memory_race_unless_they_do_so_atomically() {
    let run = |body: &str| {
        let mut machine = Machine::default();
        let kernels = machine.load(&text(body)).unwrap();
        let (to, from) = (machine.put(&[0_u32; 64]), machine.put(&[1_u32; 64]));
        machine.run(&kernels[0], 2, 32, &[to, from]).unwrap()
    };
    let wrong = run("st.global.u32 [%rd2], %r8; ret;");
    assert!(
        matches!(&wrong[..], [one] if one.contains("of cube [1, 0, 0] writes global") && one.contains("of cube [0, 0, 0] writes")),
        "{wrong:?}"
    );
    assert_eq!(run("red.global.add.u32 [%rd2], %r8; ret;"), [""; 0]);
    // A barrier is of one block alone.
    assert_eq!(
        run("ld.global.u32 %r2, [%rd2]; bar.sync 0; st.global.u32 [%rd2], 9; ret;").len(),
        1
    );
    // Fences order what is not followed here.
    assert_eq!(run("st.global.u32 [%rd2], %r8; membar.gl; ret;"), [""; 0]);
    // Each its own.
    assert_eq!(
        run(
            "mul.wide.u32 %rd4, %r8, 128; add.s64 %rd2, %rd2, %rd4; st.global.u32 [%rd2], %r8; ret;"
        ),
        [""; 0]
    );
}
