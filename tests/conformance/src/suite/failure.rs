//! Failures: what they poison, how they are reported, and what heals them (I5, I6, I7).

use crate::support::*;
use millstream::{CubeCount, Error, Kernel, NativeArgs, Reason, Stream, read, update, write};

/// The message of a failed [`boom`].
const BOOM: &str = "`boom` failed: panicked with \"boom\"";

fn assert_failed(stream: &Stream, values: &millstream::Handle<u32>) {
    assert!(matches!(stream.read(values).wait(), Err(Error::Failed(_))));
}

/// I7: a failure follows its data through other streams and reaches nothing else.
pub(crate) fn kernel_panic_poisons_exactly_its_outputs_and_readers_receive_the_message(on: On) {
    let (_rig, client, stream) = on.start();
    let (boom, transfer, add_one) = (boom(on, &client), transfer(&client), add_one(&client));
    let whole = stream.put(&[1_u32, 2, 3, 4]);
    let half = whole.slice(..2).unwrap();
    let rest = whole.slice(2..).unwrap();
    boom.launch(&stream, &half).unwrap();
    assert_eq!(stream.failure(&half), BOOM);
    assert_eq!(stream.get(&rest), [3, 4]);
    // The failure follows the data to another stream and names the tasks that did not run.
    let other = client.new_stream();
    let copy = other.empty::<u32>(2).unwrap();
    launch_transfer(&other, &transfer, &half, &copy).unwrap();
    launch_update(&other, &add_one, &copy).unwrap();
    let inherited = format!("{BOOM}; so these did not run: `transfer`, `add_one`");
    assert_eq!(other.failure(&copy), inherited);
    // Tasks on other data run.
    let free = other.put(&[5_u32]);
    launch_update(&other, &add_one, &free).unwrap();
    assert_eq!(other.get(&free), [6]);
}

/// I7: a `Write` heals, a `ReadWrite` does not.
pub(crate) fn an_overwrite_heals_poisoned_data_and_an_update_does_not(on: On) {
    let (_rig, client, stream) = on.start();
    let (boom, add_one, set) = (boom(on, &client), add_one(&client), set(&client));
    let values = stream.put(&[1_u32; 8]);
    boom.launch(&stream, &values).unwrap();
    launch_update(&stream, &add_one, &values).unwrap();
    assert_failed(&stream, &values);
    stream.launch(&set, one(), to(&values, 9)).unwrap();
    assert_eq!(stream.get(&values), [9; 8]);
    boom.launch(&stream, &values).unwrap();
    stream.write(&values, &[3; 8]).unwrap();
    assert_eq!(stream.get(&values), [3; 8]);
    boom.launch(&stream, &values).unwrap();
    stream.fill(&values, 4).unwrap();
    assert_eq!(stream.get(&values), [4; 8]);
}

/// I7: poison marks are set, read and cleared in execution order.
pub(crate) fn a_panic_after_a_full_overwrite_was_queued_does_not_poison_the_new_data(on: On) {
    let (_rig, client, second) = on.start();
    let (boom, set) = (boom(on, &client), set(&client));
    let first = client.new_stream();
    for round in 0..50 {
        let values = first.put(&[1_u32; 4]);
        boom.launch(&first, &values).unwrap();
        second.launch(&set, one(), to(&values, round)).unwrap();
        assert_eq!(second.get(&values), [round; 4]);
    }
}

/// I6: after many panics no task is lost and no caller hangs.
pub(crate) fn device_works_after_a_thousand_kernel_panics(on: On) {
    let (_rig, client, stream) = on.start();
    let quiet = Boom::new(on, &client, || std::panic::resume_unwind(Box::new("quiet")));
    let add_one = add_one(&client);
    for _ in 0..1_000 {
        let values = stream.put(&[1_u32]);
        quiet.launch(&stream, &values).unwrap();
    }
    let values = stream.put(&[1_u32]);
    launch_update(&stream, &add_one, &values).unwrap();
    assert_eq!(stream.get(&values), [2]);
}

/// I7: the same for user code on host threads.
pub(crate) fn host_function_panic_poisons_its_bindings(on: On) {
    let (_rig, _, stream) = on.start();
    let bound = stream.put(&[1_u32]);
    let free = stream.put(&[2_u32]);
    let saver = || std::panic::resume_unwind(Box::new("disk full"));
    stream.host("saver", (update(&bound),), saver).unwrap();
    let error = stream.read(&bound).wait().unwrap_err();
    assert_eq!(reason(&error), &Reason::Panicked("disk full".into()));
    assert_eq!(stream.get(&free), [2]);
}

/// I5: a blocking call that would never return is a typed error.
pub(crate) fn blocking_call_on_a_runtime_thread_returns_would_deadlock(on: On) {
    let (_rig, client, stream) = on.start();
    let values = stream.put(&[1_u32]);
    let (sender, receiver) = std::sync::mpsc::channel();
    let (inner, inner_values) = (client.new_stream(), values.clone());
    let waits = move || sender.send(inner.read(&inner_values).wait()).unwrap();
    stream.host("waits", (), waits).unwrap();
    stream.drain();
    let answer = receiver.recv().unwrap();
    assert!(matches!(answer, Err(Error::WouldDeadlock)));
}

/// I6, I7: a request for a guard of poisoned data returns the failure, not `Closed`.
pub(crate) fn guard_of_poisoned_data_returns_the_failure(on: On) {
    let (_rig, client, stream) = on.start();
    let values = stream.put(&[1_u32]);
    boom(on, &client).launch(&stream, &values).unwrap();
    let guard = on.guard(&stream, (read(&values),));
    assert_eq!(guard.err().unwrap().to_string(), BOOM);
}

/// I7: a failed custom task has the name that its author passed.
pub(crate) fn custom_task_panic_poisons_its_bindings_and_names_the_task(on: On) {
    let (_rig, _, stream) = on.start();
    let values = stream.put(&[1_u32]);
    let panics = |_: Resources<'_>| panic!("too noisy");
    on.with_resource(&stream, "denoise", (update(&values),), panics)
        .unwrap();
    let expected = "`denoise` failed: panicked with \"too noisy\"";
    assert_eq!(stream.failure(&values), expected);
}

/// I7: a checked kernel that does not use its arguments as declared fails, and the message names the correct accessor.
/// Needs: RustKernels.
pub(crate) fn kernel_that_misuses_its_arguments_fails_and_the_message_names_the_fix(on: On) {
    type Misuse = fn(&NativeArgs<'_>);
    let (_rig, client, stream) = on.start();
    let misuses: [(Misuse, &str); 6] = [
        (
            |args| args.chunk::<u32>(0)[0] = 1,
            "binding 0 `src` is declared as read: take `args.read(0)`",
        ),
        (
            |args| _ = args.read::<u32>(1)[0],
            "binding 1 `dst` is declared as written: take `args.chunk(1)`",
        ),
        (
            |args| args.chunk::<u32>(2)[0] = 1,
            "binding 2 `sum` is declared as updated atomically: take `args.atomics(2)`",
        ),
        (
            |args| args.chunk::<f32>(1)[0] = 1.0,
            "binding 1 `dst` is declared as u32, not f32: take it as u32",
        ),
        (
            |args| _ = args.read::<u32>(3)[0],
            "binding 3 is not declared, the kernel declares 3, counted from 0",
        ),
        // A cube takes its chunk once.
        (
            |args| (0..2).for_each(|value| args.chunk::<u32>(1)[0] = value),
            "the chunk of binding 1 `dst` was taken twice by one cube: keep the first",
        ),
    ];
    for (misuse, message) in misuses {
        let kernel = Kernel::new("wrong")
            .reads::<u32>("src")
            .writes::<u32>("dst")
            .updates_atomically::<u32>("sum")
            .native(move |_, args| misuse(args));
        let kernel = client.kernel(kernel).unwrap();
        let [src, dst, sum] = [0_u32, 1, 2].map(|value| stream.put(&[value]));
        let arguments = (read(&src), write(&dst), update(&sum));
        stream.launch(&kernel, one(), arguments).unwrap();
        assert_eq!(stream.get(&src), [0], "`src` is only read");
        let expected = format!("`wrong` failed: panicked with \"{message}\"");
        assert_eq!(stream.failure(&dst), expected);
    }
}

/// I7, I12: the size of a failure does not grow with the number of tasks that inherit it, and code that formats or
/// drops it does not recurse over them.
pub(crate) fn failure_keeps_its_size_when_thousands_of_tasks_inherit_it(on: On) {
    const TASKS: u64 = 5_000;
    let (_rig, client, stream) = on.start();
    let (boom, add_one) = (boom(on, &client), add_one(&client));
    let values = stream.put(&[1_u32; 4]);
    boom.launch(&stream, &values).unwrap();
    for _ in 0..TASKS {
        launch_update(&stream, &add_one, &values).unwrap();
    }
    let error = stream.read(&values).wait().unwrap_err();
    assert!(format!("{error:?}").len() < 4_000);
    let failure = error.failure().unwrap();
    let origin = failure.origin.as_ref().unwrap();
    let stopped = origin.omitted + origin.between.len() as u64 + 1;
    assert_eq!((failure.root().task.as_ref(), stopped), ("boom", TASKS));
}

/// I7: poisoned ranges of one slice stay exact, even if there are many.
pub(crate) fn bytes_between_hundreds_of_poisoned_ranges_stay_clean(on: On) {
    const RANGES: usize = 300;
    let (_rig, client, stream) = on.start();
    let boom = boom(on, &client);
    let values = stream.put(&vec![7_u32; 2 * RANGES]);
    for index in 0..RANGES {
        let one = values.slice(2 * index..2 * index + 1).unwrap();
        boom.launch(&stream, &one).unwrap();
    }
    for index in 0..RANGES {
        let [poisoned, clean] =
            [2 * index, 2 * index + 1].map(|at| values.slice(at..at + 1).unwrap());
        assert_failed(&stream, &poisoned);
        assert_eq!(stream.get(&clean), [7]);
    }
}

/// I7: no cube ran, so the outputs are not defined, and the inputs do not matter.
pub(crate) fn launch_of_zero_cubes_does_not_heal_its_outputs(on: On) {
    let (_rig, client, stream) = on.start();
    let (boom, set) = (boom(on, &client), set(&client));
    let [values, other] = [1_u32, 2].map(|value| stream.put(&[value; 8]));
    boom.launch(&stream, &values).unwrap();
    let none = CubeCount::cover(0, 256);
    stream
        .launch(&transfer(&client), none.clone(), across(&values, &other))
        .unwrap();
    assert_eq!(stream.get(&other), [2; 8]);
    stream.launch(&set, none.clone(), to(&values, 9)).unwrap();
    assert_failed(&stream, &values);
    let recording = stream
        .record(|recorder| recorder.launch(&set, none, to(&values, 9)))
        .unwrap();
    recording.replay(&stream).unwrap();
    assert_failed(&stream, &values);
    stream.launch(&set, one(), to(&values, 9)).unwrap();
    assert_eq!(stream.get(&values), [9; 8]);
}

/// I7: a dynamic count is known only when the launch runs. Without the ability to heal then, the data stays failed until
/// a launch with a known count overwrites it.
/// Needs: DynamicCounts.
pub(crate) fn launch_with_a_dynamic_count_heals_only_if_a_cube_runs(on: On) {
    let (_rig, client, stream) = on.start();
    let (boom, set) = (boom(on, &client), set(&client));
    let values = stream.put(&[1_u32; 8]);
    let count = stream.put(&[0_u32, 1, 1]);
    let launch = || {
        let count = CubeCount::Dynamic(count.clone());
        stream.launch(&set, count, to(&values, 9)).unwrap();
    };
    launch();
    assert_eq!(stream.get(&values), [1; 8], "a cube ran");
    boom.launch(&stream, &values).unwrap();
    launch();
    assert_failed(&stream, &values);
    stream.write(&count, &[1, 1, 1]).unwrap();
    launch();
    if !on.abilities().dynamic_launches_heal {
        assert_failed(&stream, &values);
        stream.launch(&set, one(), to(&values, 9)).unwrap();
    }
    assert_eq!(stream.get(&values), [9; 8]);
    let own = stream.launch(&set, CubeCount::Dynamic(count.clone()), to(&count, 1));
    assert!(own.unwrap_err().to_string().contains("cube count"));
}
