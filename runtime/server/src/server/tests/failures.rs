//! What goes wrong, and how far it reaches (I6, I7).

use millstream_protocol::access::Access;
use millstream_protocol::failure::Failure;
use millstream_protocol::launch::LaunchCount;
use millstream_protocol::message::{HostWork, Op};
use millstream_protocol::options::DeviceOptions;

use super::build::{Answer, Slice, Stream};
use super::rig::Rig;

fn rig(queues: usize) -> Rig {
    Rig::new(queues, DeviceOptions::default().max_tasks(100))
}

/// The failure's sentence, if it is one.
fn failed(rig: &Rig, answer: &mut Answer) -> Option<String> {
    match answer.look(rig).expect("every ask is answered (I5)") {
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

fn read(rig: &mut Rig, stream: &Stream, slice: &Slice) -> Option<String> {
    let mut answer = rig.copy_out(stream, &[slice.read()]);
    rig.drain();
    failed(rig, &mut answer)
}

/// The refused task keeps its place: what comes after it comes after what it waited for.
#[test]
fn a_refused_launch_poisons_its_outputs_and_nothing_else_and_keeps_its_place() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y, z) = (rig.slice(&a, 64), rig.slice(&b, 64), rig.slice(&b, 64));
    rig.ledger.get().refused.insert(2);
    rig.launch(&a, &kernel, 1, &[x.write()]);
    let half = y.part(0..32, Access::Write);
    rig.launch(&b, &kernel, 2, &[x.read(), half]);
    rig.launch(&b, &kernel, 3, &[x.read(), z.write()]);
    rig.rest();
    // The wait of the refused task serves the next one.
    assert_eq!(rig.waits(), [(1, 0, 1)]);
    assert_eq!(rig.order(1), [3]);
    assert_eq!(rig.in_flight(1), 2);
    let sentence = read(&mut rig, &b, &y).unwrap();
    assert_eq!(sentence, "`run` failed: the device refused it, scripted");
    assert_eq!(read(&mut rig, &b, &z), None);
    assert_eq!(read(&mut rig, &a, &x), None);
    let mut rest = rig.copy_out(&b, &[y.part(32..64, Access::Read)]);
    rig.drain();
    assert_eq!(
        failed(&rig, &mut rest),
        None,
        "only what it would have written"
    );
}

#[test]
fn failures_travel_along_reads_and_stop_at_whole_writes() {
    let mut rig = rig(1);
    let (kernel, a, _b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y, z) = (rig.slice(&a, 64), rig.slice(&a, 64), rig.slice(&a, 64));
    rig.ledger.get().refused.insert(1);
    rig.launch(&a, &kernel, 1, &[x.write()]);
    rig.launch(&a, &kernel, 2, &[x.read(), y.write()]);
    rig.launch(&a, &kernel, 3, &[y.read(), z.update()]);
    assert!(
        read(&mut rig, &a, &z)
            .unwrap()
            .contains("so these did not run")
    );
    rig.launch(&a, &kernel, 4, &[z.update()]);
    assert!(read(&mut rig, &a, &z).is_some(), "an update does not heal");
    rig.launch(&a, &kernel, 5, &[z.write()]);
    assert_eq!(read(&mut rig, &a, &z), None);
    assert!(read(&mut rig, &a, &y).is_some());
    assert_eq!(rig.order(0), [5]);
}

/// I6: a host function without its resources does not run, and whoever asked is told.
#[test]
fn a_host_function_whose_resources_are_refused_poisons_what_it_would_have_written() {
    let mut rig = rig(1);
    let (a, _b) = (rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&a, 64));
    rig.ledger.get().refuse_resources = true;
    let (sender, told) = std::sync::mpsc::channel();
    let work = HostWork {
        name: "guard".into(),
        resources: true,
        run: Box::new(|_, _| panic!("it ran")),
        told: Some(Box::new(move |failure| sender.send(failure).unwrap())),
    };
    rig.submit(&a, Op::Host(Box::new(work)), &[x.update(), y.read()]);
    rig.rest();
    let sentence = "`guard` failed: the device refused it, scripted";
    assert_eq!(told.try_recv().unwrap().to_string(), sentence);
    assert_eq!(read(&mut rig, &a, &x).unwrap(), sentence);
    assert_eq!(
        read(&mut rig, &a, &y),
        None,
        "only what it would have written"
    );
}

#[test]
fn a_refused_copy_in_poisons_its_target() {
    let mut rig = rig(1);
    let (a, _b) = (rig.stream(), rig.stream());
    let x = rig.slice(&a, 64);
    rig.ledger.get().refuse_copy = Some(0);
    rig.copy_in(&a, vec![1; 64], x.write());
    assert_eq!(
        read(&mut rig, &a, &x).unwrap(),
        "`copy in` failed: the device refused it, scripted"
    );
}

/// Whichever copy of an answer is refused, the answer says so, once, and the queue goes on.
#[test]
fn a_refused_copy_out_fails_the_answer_and_not_the_data() {
    for nth in 0..3 {
        let mut rig = rig(1);
        let (kernel, a, _b) = (rig.kernel(), rig.stream(), rig.stream());
        let slices = [rig.slice(&a, 64), rig.slice(&a, 64), rig.slice(&a, 64)];
        rig.admit();
        rig.ledger.get().refuse_copy = Some(nth);
        let sources = [slices[0].read(), slices[1].read(), slices[2].read()];
        let mut answer = rig.copy_out(&a, &sources);
        rig.launch(&a, &kernel, 1, &[slices[0].update()]);
        rig.drain();
        assert_eq!(
            failed(&rig, &mut answer).unwrap(),
            "`copy out` failed: the device refused it, scripted"
        );
        assert_eq!(rig.order(0), [1]);
        for slice in &slices {
            assert_eq!(read(&mut rig, &a, slice), None);
        }
    }
}

/// I7 within a recording: what reads the failed task's outputs does not run, the rest does.
#[test]
fn a_refused_task_of_a_replay_fails_what_reads_it_and_nothing_else() {
    let mut rig = rig(1);
    let (kernel, a, _b) = (rig.kernel(), rig.stream(), rig.stream());
    let slices = [
        rig.slice(&a, 64),
        rig.slice(&a, 64),
        rig.slice(&a, 64),
        rig.slice(&a, 64),
    ];
    let [x, y, z, w] = &slices;
    rig.ledger.get().refused.insert(1);
    let launches = [
        (1, vec![x.write()]),
        (2, vec![x.read(), y.write()]),
        (3, vec![z.write()]),
        (4, vec![w.read(), x.write()]),
    ];
    let recording = rig.record(&kernel, &launches);
    rig.replay(&a, &recording, &recording.parameters);
    rig.rest();
    assert_eq!((rig.order(0), rig.in_flight(0)), (vec![3, 4], 4));
    assert!(read(&mut rig, &a, y).is_some());
    for healthy in [x, z, w] {
        assert_eq!(read(&mut rig, &a, healthy), None);
    }
    // Once the data is good again the replay is too.
    rig.ledger.get().refused.clear();
    rig.replay(&a, &recording, &recording.parameters);
    assert_eq!(read(&mut rig, &a, y), None);
}

/// I7: bytes that one parameter writes before it reads are read first through another, which fails on them.
#[test]
fn what_a_replay_reads_through_another_parameter_first_fails() {
    let mut rig = rig(1);
    let (kernel, a, _b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y, z) = (rig.slice(&a, 64), rig.slice(&a, 64), rig.slice(&a, 64));
    let launches = [(1, vec![x.read(), y.write()]), (2, vec![z.write()])];
    let recording = rig.record(&kernel, &launches);
    rig.ledger.get().refused.insert(3);
    rig.launch(&a, &kernel, 3, &[x.write()]);
    rig.replay(&a, &recording, &[x.read(), y.write(), x.write()]);
    assert!(read(&mut rig, &a, &y).is_some(), "what it read had failed");
    assert_eq!(read(&mut rig, &a, &x), None, "it is written after that");
}

#[test]
fn a_failed_host_function_poisons_what_it_would_have_written() {
    let mut rig = rig(1);
    let (a, _b) = (rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&a, 64));
    rig.host(&a, 1, &[x.update(), y.read()], Err("no luck"));
    let sentence = read(&mut rig, &a, &x).unwrap();
    assert_eq!(sentence, "`host` failed: panicked with \"no luck\"");
    assert_eq!(read(&mut rig, &a, &y), None);
}

#[test]
fn a_host_function_does_not_run_on_failed_data() {
    let mut rig = rig(1);
    let (kernel, a, _b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&a, 64));
    rig.ledger.get().refused.insert(1);
    rig.launch(&a, &kernel, 1, &[x.write()]);
    rig.host(&a, 2, &[x.read(), y.write()], Ok(()));
    rig.rest();
    assert_eq!(rig.hosts(), 0);
    assert!(read(&mut rig, &a, &y).unwrap().contains("`host`"));
}

/// What failed while it ran, on a backend whose tasks can, heals in the same ways.
#[test]
fn a_host_function_that_writes_whole_heals_what_failed_while_it_ran() {
    let mut rig = rig(1);
    let (a, _b) = (rig.stream(), rig.stream());
    let x = rig.slice(&a, 64);
    let failure = Failure::panicked(&"kernel".into(), "boom".into());
    let poison = &rig.table.slot(x.id().index()).unwrap().payload().poison;
    poison.mark(0..64, failure);
    rig.host(&a, 1, &[x.write()], Ok(()));
    rig.drain();
    let poison = &rig.table.slot(x.id().index()).unwrap().payload().poison;
    assert!(poison.find(0..64).is_none());
}

/// Views of no bytes are valid arguments, whatever has become of the slice.
#[test]
fn an_empty_part_of_a_failed_slice_fails_nobody() {
    let mut rig = rig(1);
    let (kernel, a, _b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&a, 64));
    rig.ledger.get().refused.insert(1);
    rig.launch(&a, &kernel, 1, &[x.write()]);
    rig.launch(&a, &kernel, 2, &[x.part(16..16, Access::Read), y.write()]);
    assert_eq!(read(&mut rig, &a, &y), None);
}

/// A launch of no cube reads and writes nothing: what had failed stays so, and what it would have read is of no concern (I7).
#[test]
fn launch_of_no_cube_neither_heals_nor_passes_failures_on() {
    let mut rig = rig(1);
    let (kernel, a) = (rig.kernel(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&a, 64));
    rig.ledger.get().refused.insert(1);
    rig.launch(&a, &kernel, 1, &[x.write()]);
    let none = LaunchCount::Static([4, 0, 1]);
    rig.launch_counted(&a, &kernel, 2, &[x.write()], none);
    rig.launch_counted(&a, &kernel, 3, &[x.read(), y.write()], none);
    assert!(read(&mut rig, &a, &x).is_some());
    assert_eq!(read(&mut rig, &a, &y), None);
    assert!(rig.order(0).is_empty(), "the backend has no launch");
}

/// Only the device knows whether such a launch wrote anything (I7).
#[test]
fn launch_with_a_count_on_the_device_does_not_heal_what_failed_before_it_ran() {
    let mut rig = rig(1);
    let (kernel, a) = (rig.kernel(), rig.stream());
    let (x, count) = (rig.slice(&a, 64), rig.slice(&a, 12));
    rig.ledger.get().refused.insert(1);
    rig.launch(&a, &kernel, 1, &[x.write()]);
    let bindings = [x.write(), count.read()];
    rig.launch_counted(&a, &kernel, 2, &bindings, LaunchCount::Dynamic);
    assert!(read(&mut rig, &a, &x).is_some());
    rig.launch(&a, &kernel, 3, &[x.write()]);
    assert_eq!(read(&mut rig, &a, &x), None);
}
