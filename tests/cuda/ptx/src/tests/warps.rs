//! Divergence, reconvergence and collectives of warps.

use super::{LANE, run_words, words};

#[test]
fn diverged_lanes_reconverge_and_shuffle_together() {
    // Even lanes loop longer, but all lanes take part in the shuffle.
    let body = format!(
        "and.b32 %r3, %r0, 1; setp.eq.u32 %p, %r3, 0; mov.u32 %r2, 0; @!%p bra MEET;\n\
         LOOP: add.s32 %r2, %r2, 1; setp.lt.u32 %q, %r2, %r0; @%q bra LOOP;\n\
         MEET: add.s32 %r2, %r2, %r1; xor.b32 %r3, %r0, 1; shfl.sync.idx.b32 %r2|%p, %r2, %r3, 31, -1; {LANE}"
    );
    let got = words(64, &[100; 64], &body);
    let own = |lane: u32| {
        100 + if lane.is_multiple_of(2) {
            lane.max(1)
        } else {
            0
        }
    };
    let expected: Vec<u32> = (0..64).map(|lane| own(lane ^ 1)).collect();
    assert_eq!(got, expected);
}

#[test]
fn the_lanes_of_a_mask_wait_only_for_each_other() {
    // Each half of the warp shuffles at its own instruction.
    let body = format!(
        "setp.lt.u32 %p, %r0, 16; @%p bra LOW;\nshfl.sync.idx.b32 %r2, %r1, 31, 31, 0xFFFF0000; bra END;\n\
         LOW: shfl.sync.idx.b32 %r2, %r1, 3, 31, 0xFFFF;\nEND: {LANE}"
    );
    let input: Vec<u32> = (0..32).map(|lane| lane * 10).collect();
    let got = words(32, &input, &body);
    assert_eq!((got[0], got[15], got[16], got[31]), (30, 30, 310, 310));
    // A mask without the lane itself, and lanes that never arrive.
    let invalid = "shfl.sync.idx.b32 %r2, %r1, 0, 31, 2; ret;";
    let message = run_words(32, &input, invalid).unwrap_err();
    assert!(
        message.contains("does not include the lane itself"),
        "{message}"
    );
    let invalid =
        "setp.eq.u32 %p, %r0, 3; @%p bra AWAY; bar.warp.sync -1; ret; AWAY: bar.sync 0; ret;";
    let message = run_words(32, &input, invalid).unwrap_err();
    assert!(message.contains("deadlock"), "{message}");
    // Exited lanes do not participate.
    let ended =
        format!("setp.eq.u32 %p, %r0, 3; @%p ret; bar.warp.sync -1; mov.u32 %r2, 5; {LANE}");
    assert_eq!(words(32, &input, &ended)[2..5], [5, 0, 5]);
}
