//! Failures, and how far they reach (I6, I7).

use millstream_protocol::{
    Access, DeviceOptions, Failure, HostNeeds, HostPlace, HostWork, LaunchCount, Op,
};

use super::build::{Answer, Slice, Stream};
use super::rig::Rig;

fn rig(queues: usize) -> Rig {
    Rig::new(queues, DeviceOptions::default().max_tasks(100))
}

/// Returns the text of the failure, if there is one.
fn failed(rig: &Rig, answer: &mut Answer) -> Option<String> {
    match answer.look(rig).expect("every request is answered (I5)") {
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

fn read(rig: &mut Rig, stream: &Stream, slice: &Slice) -> Option<String> {
    let mut answer = rig.copy_out(stream, &[slice.read()]);
    rig.drain();
    failed(rig, &mut answer)
}

/// A refused task keeps its place: later tasks come after its waits.
#[test]
fn refused_launch_poisons_only_its_outputs_and_keeps_its_place_i6_i7() {
    let mut rig = rig(2);
    let [a, b] = rig.streams();
    let (x, y, z) = (rig.slice(&a, 64), rig.slice(&b, 64), rig.slice(&b, 64));
    rig.ledger_mut().refused.insert(2);
    rig.launch(&a, 1, &[x.write()]);
    let half = y.part(0..32, Access::Write);
    rig.launch(&b, 2, &[x.read(), half]);
    rig.launch(&b, 3, &[x.read(), z.write()]);
    rig.rest();
    // The wait of the refused task serves the next one.
    assert_eq!(rig.waits(), [(1, 0, 1)]);
    assert_eq!(rig.order(1), [3]);
    assert_eq!(rig.in_flight(1), 2);
    let text = read(&mut rig, &b, &y).unwrap();
    assert_eq!(text, "`run` failed: the device refused it, scripted");
    assert_eq!(read(&mut rig, &b, &z), None);
    assert_eq!(read(&mut rig, &a, &x), None);
    let mut rest = rig.copy_out(&b, &[y.part(32..64, Access::Read)]);
    rig.drain();
    assert_eq!(
        failed(&rig, &mut rest),
        None,
        "only the bytes that it would have written are poisoned"
    );
}

/// I6: a host function without its resources does not run, and its caller receives the error.
#[test]
fn host_function_without_resources_poisons_its_outputs_i6() {
    let mut rig = rig(1);
    let [a, _b] = rig.streams();
    let [x, y] = rig.slices(&a, 64);
    rig.ledger_mut().refuse_resources = true;
    let (sender, error) = std::sync::mpsc::channel();
    let work = HostWork {
        name: "guard".into(),
        needs: HostNeeds::Resources,
        run: Box::new(|_, _| panic!("it ran")),
        place: HostPlace::UserCode,
        on_failure: Some(Box::new(move |failure| sender.send(failure).unwrap())),
    };
    rig.submit(&a, Op::Host(Box::new(work)), &[x.update(), y.read()]);
    rig.rest();
    let text = "`guard` failed: the device refused it, scripted";
    assert_eq!(error.try_recv().unwrap().to_string(), text);
    assert_eq!(read(&mut rig, &a, &x).unwrap(), text);
    assert_eq!(
        read(&mut rig, &a, &y),
        None,
        "only the bytes that it would have written are poisoned"
    );
}

/// Whichever copy of an answer is refused, the answer is one error, and the queue goes on.
#[test]
fn refused_copy_out_fails_the_answer_and_not_the_data_i7() {
    for nth in 0..3 {
        let mut rig = rig(1);
        let [a, _b] = rig.streams();
        let slices: [_; 3] = rig.slices(&a, 64);
        rig.admit();
        rig.ledger_mut().refuse_copy = Some(nth);
        let sources = slices.each_ref().map(Slice::read);
        let mut answer = rig.copy_out(&a, &sources);
        rig.launch(&a, 1, &[slices[0].update()]);
        rig.drain();
        assert_eq!(
            failed(&rig, &mut answer).unwrap(),
            "`copy out` (of `read`) failed: the device refused it, scripted"
        );
        assert_eq!(rig.order(0), [1]);
        for slice in &slices {
            assert_eq!(read(&mut rig, &a, slice), None);
        }
    }
}

/// I7 within a recording: tasks that read the outputs of the failed one do not run, the others do.
#[test]
fn refused_task_of_a_replay_fails_only_tasks_that_read_it_i7() {
    let mut rig = rig(1);
    let [a, _b] = rig.streams();
    let [x, y, z, w] = &rig.slices(&a, 64);
    rig.ledger_mut().refused.insert(1);
    let launches = [
        (1, vec![x.write()]),
        (2, vec![x.read(), y.write()]),
        (3, vec![z.write()]),
        (4, vec![w.read(), x.write()]),
    ];
    let recording = rig.record(&launches);
    rig.replay(&a, &recording, &recording.parameters);
    rig.rest();
    assert_eq!((rig.order(0), rig.in_flight(0)), (vec![3, 4], 4));
    assert!(read(&mut rig, &a, y).is_some());
    for healthy in [x, z, w] {
        assert_eq!(read(&mut rig, &a, healthy), None);
    }
    // Once the data is clean again, so is the replay.
    rig.ledger_mut().refused.clear();
    rig.replay(&a, &recording, &recording.parameters);
    assert_eq!(read(&mut rig, &a, y), None);
}

/// I7: a parameter overwrites bytes that another parameter reads first; that read fails.
#[test]
fn replay_that_reads_poisoned_bytes_through_another_parameter_fails_i7() {
    let mut rig = rig(1);
    let [a, _b] = rig.streams();
    let [x, y, z] = rig.slices(&a, 64);
    let launches = [(1, vec![x.read(), y.write()]), (2, vec![z.write()])];
    let recording = rig.record(&launches);
    rig.ledger_mut().refused.insert(3);
    rig.launch(&a, 3, &[x.write()]);
    rig.replay(&a, &recording, &[x.read(), y.write(), x.write()]);
    assert!(read(&mut rig, &a, &y).is_some(), "it reads poisoned bytes");
    assert_eq!(
        read(&mut rig, &a, &x),
        None,
        "it is overwritten after the read"
    );
}

/// Poison that a queue found while a task ran is healed in the same way.
#[test]
fn host_function_that_overwrites_heals_poison_of_a_queue_i7() {
    let mut rig = rig(1);
    let [a, _b] = rig.streams();
    let x = rig.slice(&a, 64);
    let failure = Failure::panicked(&"kernel".into(), "boom".into());
    let poison = &rig.table.slot(x.id().index()).unwrap().payload().poison;
    poison.mark(0..64, failure);
    rig.host(&a, &[x.write()]);
    rig.drain();
    let poison = &rig.table.slot(x.id().index()).unwrap().payload().poison;
    assert!(poison.find(0..64).is_none());
}

/// Empty views are valid arguments, whatever the state of the slice.
#[test]
fn empty_part_of_a_poisoned_slice_fails_no_task_i7() {
    let mut rig = rig(1);
    let [a, _b] = rig.streams();
    let [x, y] = rig.slices(&a, 64);
    rig.ledger_mut().refused.insert(1);
    rig.launch(&a, 1, &[x.write()]);
    rig.launch(&a, 2, &[x.part(16..16, Access::Read), y.write()]);
    assert_eq!(read(&mut rig, &a, &y), None);
}

/// Only the device knows whether such a launch wrote anything (I7).
#[test]
fn launch_with_a_dynamic_count_does_not_heal_at_issue_i7() {
    let mut rig = rig(1);
    let a = rig.stream();
    let (x, count) = (rig.slice(&a, 64), rig.slice(&a, 12));
    rig.ledger_mut().refused.insert(1);
    rig.launch(&a, 1, &[x.write()]);
    let bindings = [x.write(), count.read()];
    rig.launch_counted(&a, 2, &bindings, LaunchCount::Dynamic);
    assert!(read(&mut rig, &a, &x).is_some());
    rig.launch(&a, 3, &[x.write()]);
    assert_eq!(read(&mut rig, &a, &x), None);
}
