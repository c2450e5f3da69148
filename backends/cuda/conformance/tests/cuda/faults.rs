//! The driver refuses one call: whoever asked is told, everything else goes on, and nothing is left behind.

use millstream_core::error::Error;
use millstream_core::health::Health;
use rstest::rstest;

use crate::program;
use crate::support::*;

/// I5, I7, I10: each call of a program is refused in turn, from the first of opening to the last of closing.
///
/// A device that is lost frees nothing (I10): then leaks are right, and all else is wrong.
#[rstest]
#[case::invalid_value(1)]
#[case::out_of_memory(2)]
#[case::unknown(999)]
#[case::illegal_address(700)]
fn every_call_refused_in_turn_is_a_typed_error_and_leaks_nothing_i5_i10(#[case] code: u32) {
    for nth in 1.. {
        let gpu = gpu(nth);
        gpu.fault(None, nth, code);
        let (mut lost, mut failed) = (false, false);
        match try_open(2) {
            Ok(device) => {
                let ran = program::run(&device);
                failed = ran.is_err();
                let silent = matches!(ran, Err(Error::TimedOut { .. }));
                assert!(!silent, "call {nth}: nobody is answered");
                lost = matches!(device.health(), Health::Lost { .. });
                let report = device.close(PATIENCE);
                lost |= !report.drained;
                // What a lost device used is left to it, its threads, too.
                assert!(lost || report.threads_left == 0, "call {nth}: {report:?}");
            }
            Err(why) => assert!(why.to_string().contains("the driver"), "call {nth}: {why}"),
        }
        let met = gpu.faults_met();
        let mut reports = gpu.end();
        if lost {
            reports.retain(|report| !report.starts_with("leak: "));
        }
        assert!(reports.is_empty(), "call {nth}: {}", reports.join("\n"));
        if met == 0 {
            assert!(!failed && nth > 100, "the program has {nth} calls");
            break;
        }
    }
}
