//! Failures are settled in execution order, before the cursor passes (I5, I7).

use std::sync::mpsc;

use millstream_cpu::Cpu;
use millstream_protocol::{BoundCount, Extent, Kernel, Reason};

use crate::rig::{Prepared, Q0, Rig, Slice};

fn exploding(rig: &Rig) -> Prepared {
    rig.prepare(
        Kernel::new("explode")
            .writes::<u32>("out")
            .native(|cube, _| {
                assert!(cube.index() != 3, "cube {} exploded", cube.index());
            }),
    )
}

/// A rig, and a slice of 8 words that a panic has poisoned.
fn poisoned() -> (Rig, Slice) {
    let mut rig = Rig::new(Cpu::default().queues(2).threads(3));
    let slice = rig.slice_of(&[1; 8]);
    let explode = exploding(&rig);
    rig.launch(Q0, &explode, 8, &[slice.write()], &[]);
    (rig, slice)
}

#[test]
fn panic_poisons_the_outputs_of_its_task_only_i7() {
    let (mut rig, slice) = poisoned();
    let other = rig.slice_of(&[5]);
    let failure = rig.read(Q0, &slice).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "`explode` failed: panicked with \"cube 3 exploded\""
    );
    assert_eq!(failure.extent, Extent::MaybePartial);
    assert_eq!(rig.read(Q0, &other).unwrap(), [5]);
}

#[test]
fn task_that_reads_poison_does_not_run_and_poisons_its_outputs() {
    let (mut rig, slice) = poisoned();
    let out = rig.slice_of(&[9; 8]);
    let copy = rig.prepare(
        Kernel::new("double")
            .reads::<u32>("in")
            .writes::<u32>("out")
            .native(|_, _| {
                unreachable!("its input is poisoned");
            }),
    );
    rig.launch(Q0, &copy, 1, &[slice.read(), out.write()], &[]);
    let failure = rig.read(Q0, &out).unwrap_err();
    assert_eq!(
        (failure.task.as_ref(), &failure.reason),
        ("double", &Reason::Input)
    );
    assert_eq!(failure.extent, Extent::NotRun);
    assert_eq!(failure.root().task.as_ref(), "explode");
    let after = rig.slice_of(&[0; 8]);
    rig.copy(Q0, &out.read(), &after.write());
    let failure = rig.read(Q0, &after).unwrap_err();
    let origin = failure.origin.as_ref().expect("it inherited a failure");
    assert_eq!(failure.task.as_ref(), "copy");
    assert_eq!(origin.between[0].as_ref(), "double");
    assert_eq!(origin.root.task.as_ref(), "explode");
}

#[test]
fn custom_work_receives_the_failure_of_its_input() {
    let (mut rig, slice) = poisoned();
    let (sender, received) = mpsc::channel();
    let point = rig.custom(Q0, &[slice.read()], move |value| {
        sender.send(value.map(drop).unwrap_err()).unwrap();
    });
    rig.wait(point).unwrap();
    assert_eq!(received.recv().unwrap().task.as_ref(), "explode");
}

#[test]
fn poisoned_dynamic_count_is_a_poisoned_input() {
    let mut rig = Rig::new(Cpu::default().queues(1));
    let (count, out) = (rig.slice_of(&[8, 1, 1]), rig.slice_of(&[1]));
    let explode = exploding(&rig);
    rig.launch(Q0, &explode, 8, &[count.write()], &[]);
    let fine = rig.prepare(Kernel::new("fine").writes::<u32>("out").native(|_, _| ()));
    let dynamic = BoundCount::Dynamic(count.read());
    rig.try_launch(Q0, &fine, dynamic, &[out.write()], &[])
        .unwrap();
    assert_eq!(
        rig.read(Q0, &out).unwrap_err().root().task.as_ref(),
        "explode"
    );
}

#[test]
fn dynamic_count_beyond_the_maximum_fails_the_task() {
    let mut rig = Rig::new(Cpu::default().queues(1));
    let (count, out) = (rig.slice_of(&[u32::MAX; 3]), rig.slice_of(&[1]));
    let fine = rig.prepare(Kernel::new("fine").writes::<u32>("out").native(|_, _| ()));
    let dynamic = BoundCount::Dynamic(count.read());
    rig.try_launch(Q0, &fine, dynamic, &[out.write()], &[])
        .unwrap();
    let failure = rig.read(Q0, &out).unwrap_err();
    assert!(matches!(failure.reason, Reason::Refused(_)) && failure.extent == Extent::NotRun);
    let fixed = BoundCount::Static([u32::MAX; 3]);
    assert!(
        rig.try_launch(Q0, &fine, fixed, &[out.write()], &[])
            .is_err()
    );
}

#[test]
fn user_data_that_panics_when_dropped_does_not_stop_the_queue() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("panic in drop");
        }
    }
    let mut rig = Rig::new(Cpu::default().queues(1));
    let slice = rig.slice_of(&[4]);
    let value = PanicsOnDrop;
    let kernel = Kernel::new("panics_on_drop")
        .reads::<u32>("in")
        .native(move |_, _| {
            let _ = &value;
        });
    let prepared = rig.prepare(kernel);
    rig.launch(Q0, &prepared, 1, &[slice.read()], &[]);
    // Either of the two references may be the last; neither may stop the queue.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(prepared)));
    assert_eq!(rig.read(Q0, &slice).unwrap(), [4]);
}
