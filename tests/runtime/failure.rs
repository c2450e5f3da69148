//! What goes wrong, how far it reaches, and how it is told (I5, I6, I7).

use crate::support::*;
use millstream::{Cpu, Error, Kernel, Reason, read, update, write};
use rstest::rstest;
use rstest_reuse::apply;

/// I7.
#[apply(every_device)]
fn a_panic_in_a_kernel_poisons_exactly_what_it_would_have_written_and_the_message_reaches_the_reader(
    #[case] on: On,
) {
    let rig = on.open();
    let client = rig.client();
    let (boom, transfer, add_one) = (boom(&client), transfer(&client), add_one(&client));
    let stream = client.stream();
    let whole = stream.create(&[1_u32, 2, 3, 4]).unwrap();
    let half = whole.slice(..2).unwrap();
    let rest = whole.slice(2..).unwrap();
    launch_update(&stream, &boom, &half).unwrap();
    assert_eq!(
        sentence(stream.read(&half).wait()),
        "`boom` failed: panicked with \"boom\""
    );
    assert_eq!(stream.read(&rest).wait().unwrap(), [3, 4]);
    // It travels with the data, through other streams, and names the chain.
    let other = client.stream();
    let copy = other.empty::<u32>(2).unwrap();
    launch_transfer(&other, &transfer, &half, &copy).unwrap();
    launch_update(&other, &add_one, &copy).unwrap();
    let told = sentence(other.read(&copy).wait());
    assert_eq!(
        told,
        "`boom` failed: panicked with \"boom\"; so these did not run: `transfer`, `add_one`"
    );
    // Who does not touch the data notices nothing.
    let free = other.create(&[5_u32]).unwrap();
    launch_update(&other, &add_one, &free).unwrap();
    assert_eq!(other.read(&free).wait().unwrap(), [6]);
}

/// I7: a `Write` heals, a `ReadWrite` does not.
#[apply(every_device)]
fn an_overwrite_heals_poisoned_data_and_an_update_does_not(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let (boom, add_one, set) = (boom(&client), add_one(&client), set(&client));
    let stream = client.stream();
    let values = stream.create(&[1_u32; 8]).unwrap();
    launch_update(&stream, &boom, &values).unwrap();
    launch_update(&stream, &add_one, &values).unwrap();
    assert!(matches!(stream.read(&values).wait(), Err(Error::Failed(_))));
    stream.launch(&set, one(), (write(&values), 9_u32)).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [9; 8]);
    launch_update(&stream, &boom, &values).unwrap();
    stream.write(&values, &[3; 8]).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [3; 8]);
    launch_update(&stream, &boom, &values).unwrap();
    stream.fill(&values, 4).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [4; 8]);
}

/// I7: poison is set, read and cleared in execution order.
#[apply(every_device)]
fn a_panic_after_a_full_overwrite_was_queued_does_not_poison_the_new_data(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let (boom, set) = (boom(&client), set(&client));
    let (first, second) = (client.stream(), client.stream());
    for round in 0..50 {
        let values = first.create(&[1_u32; 4]).unwrap();
        launch_update(&first, &boom, &values).unwrap();
        second.launch(&set, one(), (write(&values), round)).unwrap();
        assert_eq!(second.read(&values).wait().unwrap(), [round; 4]);
    }
}

/// I6: panics keep coming, nothing is lost or hangs.
#[apply(every_device)]
fn a_thousand_panics_leave_the_device_well(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let quiet = Kernel::new("quiet")
        .updates::<u32>("v")
        .native(|_, _| std::panic::resume_unwind(Box::new("quiet")));
    let (quiet, add_one) = (client.kernel(quiet).unwrap(), add_one(&client));
    let stream = client.stream();
    for _ in 0..1_000 {
        let values = stream.create(&[1_u32]).unwrap();
        launch_update(&stream, &quiet, &values).unwrap();
    }
    let values = stream.create(&[1_u32]).unwrap();
    launch_update(&stream, &add_one, &values).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [2]);
}

/// I7, for user code on host threads.
#[apply(every_device)]
fn a_panic_in_a_host_function_poisons_what_it_was_bound_to(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.stream();
    let (bound, free) = (
        stream.create(&[1_u32]).unwrap(),
        stream.create(&[2_u32]).unwrap(),
    );
    stream
        .host("saver", (update(&bound),), || {
            std::panic::resume_unwind(Box::new("disk full"))
        })
        .unwrap();
    let told = stream.read(&bound).wait().unwrap_err();
    assert_eq!(
        told.failure().unwrap().reason,
        Reason::Panicked("disk full".into())
    );
    assert_eq!(stream.read(&free).wait().unwrap(), [2]);
}

/// I5: a blocking call where it would wait for ever is a typed error.
#[apply(every_device)]
fn a_blocking_call_in_user_code_of_the_runtime_is_an_error(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.stream();
    let values = stream.create(&[1_u32]).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let (inner, inner_values) = (client.stream(), values.clone());
    stream
        .host("waits", (), move || {
            sender
                .send(inner.read(&inner_values).wait().map(drop))
                .unwrap();
        })
        .unwrap();
    stream.sync().wait().unwrap();
    assert!(matches!(
        receiver.recv().unwrap(),
        Err(Error::WouldDeadlock)
    ));
}

/// I6, I7: what a guard is asked for has failed; that is the answer, not a device that is closed.
#[apply(every_device)]
fn a_guard_of_failed_data_answers_with_the_failure(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.stream();
    let values = stream.create(&[1_u32]).unwrap();
    launch_update(&stream, &boom(&client), &values).unwrap();
    let asked = stream.get_resource::<Cpu>((read(&values),)).wait();
    assert_eq!(
        asked.err().unwrap().to_string(),
        "`boom` failed: panicked with \"boom\""
    );
}

/// I7: a task that uses a backend's own resources is called as its author says.
#[apply(every_device)]
fn a_panic_in_custom_work_poisons_what_it_was_bound_to_under_its_name(#[case] on: On) {
    let rig = on.open();
    let stream = rig.client().stream();
    let values = stream.create(&[1_u32]).unwrap();
    let out_of_bounds = |resources: &mut millstream::CpuResources| {
        resources.write::<u32>(1)[0] = 1;
    };
    stream
        .with_resource::<Cpu>("denoise", (update(&values),), out_of_bounds)
        .unwrap();
    assert_eq!(
        sentence(stream.read(&values).wait()),
        "`denoise` failed: panicked with \"binding 1 of 1 was asked for\""
    );
}
