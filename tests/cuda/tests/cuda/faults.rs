//! The driver refuses one call: whoever asked is told, everything else goes on, and nothing is left behind.

use millstream_protocol::error::Error;
use millstream_protocol::health::Health;
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

/// I4, I7: a copy of several parts is refused whole where there is no room for one of them: nothing of it is under way, its blocks
/// are used by nobody, and the device goes on.
#[test]
fn a_copy_that_has_no_room_for_a_part_is_refused_whole_i4_i7() {
    for upload in [true, false] {
        let gpu = gpu(1);
        let device = open(2);
        let stream = device.new_client().new_stream();
        let long = stream.empty::<u8>(3 << 20).unwrap();
        stream.fill(&long, 5).unwrap();
        stream.sync().wait().unwrap();
        // The second of three blocks.
        gpu.fault(Some("cuMemHostAlloc"), 2, 2);
        let refused = match upload {
            true => stream.read(&stream.create(&vec![1_u8; 3 << 20]).unwrap()),
            false => stream.read(&long),
        };
        assert!(
            matches!(refused.wait(), Err(Error::Failed(_))),
            "upload {upload}"
        );
        assert_eq!(gpu.faults_met(), 1);
        assert_eq!(stream.read(&long).wait().unwrap(), vec![5; 3 << 20]);
        assert!(device.close(PATIENCE).drained);
        drop((stream, long, device));
        gpu.assert_clean();
    }
}

/// I2, I5: what is refused in its middle cannot be ordered with what comes later: the device is lost, and says so.
#[test]
fn a_copy_that_is_refused_in_its_middle_is_the_end_i2_i5() {
    for call in ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"] {
        let gpu = gpu(2);
        let device = open(2);
        let stream = device.new_client().new_stream();
        gpu.fault(Some(call), 2, 1);
        // Owned bytes go in blocks.
        let long = stream.create_owned(vec![1_u8; 3 << 20]);
        let long = long.map_err(Error::from);
        let read = long.and_then(|long| stream.read(&long).wait());
        assert!(
            matches!(read, Err(Error::DeviceLost { .. })),
            "{call}: {read:?}"
        );
        assert_eq!(gpu.faults_met(), 1);
        device.close(PATIENCE);
        drop((stream, device));
        let mut reports = gpu.end();
        reports.retain(|report| !report.starts_with("leak: "));
        assert!(reports.is_empty(), "{call}: {}", reports.join("\n"));
    }
}
