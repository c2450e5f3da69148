//! Bad input, foreign things, large launches, a backend's own resources (I5).

use millstream::{
    CubeCount, Error, Kernel, LaunchArgs, LaunchError, MemoryError, Metadata, Read, TensorMap,
    Update, Write, read, update, write,
};

use crate::support::*;

fn launch_error<T: std::fmt::Debug>(answer: Result<T, Error>) -> LaunchError {
    match answer.unwrap_err() {
        Error::Launch { why, .. } => why,
        error => panic!("{error}"),
    }
}

pub(crate) fn offsets_past_the_end_overflowing_sizes_and_foreign_handles_give_typed_errors(on: On) {
    let (rig, other) = (on.open(), on.open());
    let client = rig.client();
    let (stream, foreign) = (client.new_stream(), other.client().new_stream());
    let values = stream.create(&[1_u32, 2, 3]).unwrap();
    assert!(matches!(
        values.slice(2..9),
        Err(LaunchError::OutOfBounds {
            start: 8,
            end: 36,
            size: 12
        })
    ));
    #[allow(clippy::reversed_empty_ranges, reason = "that is the bad input")]
    let reversed = values.slice(2..1);
    assert!(matches!(reversed, Err(LaunchError::OutOfBounds { .. })));
    assert!(
        values.clone().offset_start(13).is_err() && values.clone().offset_end(u64::MAX).is_err()
    );
    let cut = values
        .clone()
        .offset_start(4)
        .unwrap()
        .offset_end(4)
        .unwrap();
    assert_eq!((cut.size(), cut.len()), (4, 1));
    assert!(cut.offset_start(5).is_err(), "offsets add up");
    assert!(matches!(
        values.slice(..1).unwrap().cast::<u64>(),
        Err(LaunchError::Indivisible { .. })
    ));
    assert!(matches!(
        stream.empty::<u64>(usize::MAX),
        Err(Error::Memory(MemoryError::SizeOverflow { .. }))
    ));
    let strange = foreign.create(&[1_u32, 2, 3]).unwrap();
    assert!(matches!(
        stream.copy(&strange, &values),
        Err(Error::Foreign { what: "handle" })
    ));
    assert!(matches!(
        stream.read(&strange).wait(),
        Err(Error::Foreign { .. })
    ));
    assert!(matches!(
        launch_update(&stream, &add_one(&client), &strange),
        Err(Error::Foreign { .. })
    ));
    assert!(matches!(
        launch_update(&foreign, &add_one(&client), &strange),
        Err(Error::Foreign { what: "kernel" })
    ));
    assert!(matches!(
        launch_error(stream.write(&values, &[1])),
        LaunchError::Length { .. }
    ));
    assert!(matches!(
        launch_error(stream.copy(&values, &values)),
        LaunchError::Overlap { .. }
    ));
    assert_eq!(
        stream.read(&values).wait().unwrap(),
        [1, 2, 3],
        "nothing of it ran"
    );
}

pub(crate) fn arguments_that_do_not_fit_the_signature_are_refused_with_a_sentence(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, transfer, set) = (client.new_stream(), transfer(&client), set(&client));
    let (a, b) = (
        stream.create(&[1_u32; 4]).unwrap(),
        stream.create(&[2_u32; 4]).unwrap(),
    );
    let floats = stream.create(&[1_f32; 4]).unwrap();
    let tell = |answer: Result<(), Error>| answer.unwrap_err().to_string();
    assert_eq!(
        tell(stream.launch(&transfer, one(), (read(&a),))),
        "`transfer` was not accepted: expected 2 bindings, got 1"
    );
    assert_eq!(
        tell(stream.launch(&set, one(), (write(&a),))),
        "`set` was not accepted: expected 2 scalars, got 0"
    );
    assert_eq!(
        tell(stream.launch(&set, one(), (write(&a), 1_f32, 4_u32))),
        "`set` was not accepted: scalar `value` is declared as u32, the call passes f32: write a literal as `5_u32`, and a value as `value as u32`"
    );
    assert_eq!(
        tell(stream.launch(&transfer, one(), (update(&a), write(&b), 4_u32))),
        "`transfer` was not accepted: binding `src` is declared as read, the call passes update"
    );
    assert!(matches!(
        launch_error(stream.launch(&transfer, one(), (read(&floats), write(&b), 4_u32))),
        LaunchError::ElementType { .. }
    ));
    assert!(matches!(
        launch_error(launch_transfer(&stream, &transfer, &a, &a)),
        LaunchError::Overlap { .. }
    ));
    let args = LaunchArgs::new()
        .arg(read(&a))
        .arg(write(&b))
        .arg(4_u32)
        .tensor_map(TensorMap::tiled(5, millstream::DType::U32, &[4], &[4]));
    assert!(matches!(
        launch_error(stream.launch(&transfer, one(), args)),
        LaunchError::TensorMapBinding {
            binding: 5,
            bindings: 2
        }
    ));
    assert_eq!(stream.read(&b).wait().unwrap(), [2; 4]);
}

/// Halves of one slice do not overlap; reading one thing twice is fine.
pub(crate) fn bindings_that_only_touch_or_are_only_read_may_share_a_slice(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, transfer) = (client.new_stream(), transfer(&client));
    let whole = stream.create(&[1_u32, 2, 0, 0]).unwrap();
    let (left, right) = (whole.slice(..2).unwrap(), whole.slice(2..).unwrap());
    launch_transfer(&stream, &transfer, &left, &right).unwrap();
    assert_eq!(stream.read(&whole).wait().unwrap(), [1, 2, 1, 2]);
    let sum = Kernel::new("sum")
        .reads::<u32>("a")
        .reads::<u32>("b")
        .writes::<u32>("out")
        .scalar::<u32>("n")
        .native(|_, args| {
            args.chunk::<u32>(2)[0] = args.read::<u32>(0)[0] + args.read::<u32>(1)[0];
        });
    let sum = prepare(&client, sum).unwrap();
    let out = stream.empty::<u32>(1).unwrap();
    stream
        .launch(&sum, one(), (read(&left), read(&left), write(&out), 1_u32))
        .unwrap();
    assert_eq!(stream.read(&out).wait().unwrap(), [2]);
}

/// More than fits a message: twelve bindings, thirty scalars, metadata.
pub(crate) fn launches_larger_than_a_message_work(on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.new_stream();
    let mut kernel = Kernel::new("large");
    for index in 0..11 {
        kernel = kernel.reads::<u32>(format!("in{index}"));
    }
    kernel = kernel.writes::<u64>("out");
    for index in 0..30 {
        kernel = kernel.scalar::<u64>(format!("s{index}"));
    }
    let kernel = kernel.native(|_, args| {
        let inputs: u64 = (0..11)
            .map(|index| u64::from(args.read::<u32>(index)[0]))
            .sum();
        let scalars: u64 = (0..30).map(|index| args.scalar::<u64>(index)).sum();
        args.chunk::<u64>(11)[0] = inputs
            + scalars
            + args
                .metadata()
                .iter()
                .map(|word| u64::from(*word))
                .sum::<u64>();
    });
    let kernel = prepare(&client, kernel.with(MetadataWords(7))).unwrap();
    let inputs: Vec<_> = (0..11_u32)
        .map(|value| stream.create(&[value]).unwrap())
        .collect();
    let out = stream.empty::<u64>(1).unwrap();
    let metadata = Metadata::new().input(&[4], &[1], 4).unwrap();
    let words: u64 = metadata.words().iter().map(|word| u64::from(*word)).sum();
    let mut args = LaunchArgs::new().metadata(metadata);
    for input in &inputs {
        args = args.arg(read(input));
    }
    args = args.arg(write(&out));
    for scalar in 0..30_u64 {
        args = args.arg(scalar);
    }
    stream.launch(&kernel, one(), args).unwrap();
    assert_eq!(stream.read(&out).wait().unwrap(), [55 + 435 + words]);
}

/// The types of a kernel are compared with its signature once; launches then run as any others, and literals have the declared
/// width.
pub(crate) fn a_typed_kernel_takes_what_its_signature_declares(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, set, transfer) = (client.new_stream(), set(&client), transfer(&client));
    let (a, b) = (
        stream.empty::<u32>(4).unwrap(),
        stream.empty::<u32>(4).unwrap(),
    );
    let set = set.typed::<(Write<u32>, u32, u32)>().unwrap();
    let transfer = transfer.typed::<(Read<u32>, Write<u32>, u32)>().unwrap();
    set.launch(&stream, one(), (&a, 7, 4)).unwrap();
    let step = stream
        .record(|recorder| recorder.launch(&transfer, one(), transfer.arguments((&a, &b, 4))));
    step.unwrap().replay(&stream).unwrap();
    assert_eq!(stream.read(&b).wait().unwrap(), [7; 4]);
    // What only a launch can know is an error of the launch, as without types.
    assert!(matches!(
        launch_error(transfer.launch(&stream, one(), (&a, &a, 4))),
        LaunchError::Overlap { .. }
    ));
    let tell = |outcome: Result<(), Error>| outcome.unwrap_err().to_string();
    let says = "`transfer` was not accepted: expected arguments (Read<u32>, Write<u32>, u32), got";
    let mend = "use the types of the signature";
    assert_eq!(
        tell(transfer.typed::<(Read<u32>, Write<u32>, f64)>().map(drop)),
        format!("{says} (Read<u32>, Write<u32>, f64): {mend}")
    );
    assert_eq!(
        tell(transfer.typed::<(Read<f32>, Update<u32>, u32)>().map(drop)),
        format!("{says} (Read<f32>, Update<u32>, u32): {mend}")
    );
    assert_eq!(
        tell(transfer.typed::<Read<u32>>().map(drop)),
        format!("{says} Read<u32>: {mend}")
    );
    assert_eq!(
        tell(transfer.typed::<(u32, Read<u32>, Write<u32>)>().map(drop)),
        format!("{says} (u32, Read<u32>, Write<u32>): {mend}")
    );
    assert!(transfer.typed::<()>().is_err());
}

/// A backend's own resources, as a task in order and behind a guard.
pub(crate) fn resources_are_reached_in_order_and_a_guard_holds_back_what_conflicts(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, add_one) = (client.new_stream(), add_one(&client));
    let values = stream.create(&[1_u32, 2]).unwrap();
    launch_update(&stream, &add_one, &values).unwrap();
    on.with_resource(&stream, "times ten", (update(&values),), |mut resources| {
        resources.change(0, |words| words.iter_mut().for_each(|value| *value *= 10));
    })
    .unwrap();
    launch_update(&stream, &add_one, &values).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [21, 31]);
    let guard = on.guard(&stream, (read(&values),)).unwrap();
    assert_eq!(guard.words(), [21, 31]);
    let other = client.new_stream();
    launch_update(&other, &add_one, &values).unwrap();
    let mut blocked = other.read(&values);
    assert!(blocked.try_take().is_none());
    drop(guard);
    assert_eq!(blocked.wait().unwrap(), [22, 32]);
}

pub(crate) fn a_kernel_that_the_device_cannot_run_is_refused_when_it_is_prepared(on: On) {
    let rig = on.open();
    let client = rig.client();
    let other = Kernel::new("other").text("an unknown language", "other");
    let told = client.kernel(other).unwrap_err().to_string();
    let backend = rig.device.properties().backend;
    let start = format!(
        "kernel `other` has no source for `{backend}`, only an unknown language; add one of "
    );
    // What the device takes follows.
    assert!(
        told.starts_with(&start) && told.len() > start.len(),
        "{told}"
    );
    let lacking = match on.runs_rust() {
        true => millstream::Feature::TensorMaps,
        false => millstream::Feature::NativeKernels,
    };
    let needs = Kernel::new("needs").requires(lacking).native(|_, _| {});
    assert!(
        client
            .kernel(needs)
            .unwrap_err()
            .to_string()
            .contains(&format!("requires {lacking}"))
    );
}

/// Cubes are told apart, in three dimensions.
pub(crate) fn every_cube_runs_once_and_knows_its_place(on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.new_stream();
    let places = Kernel::new("places")
        .writes::<u32>("out")
        .native(|cube, args| {
            args.chunk::<u32>(0)
                .fill(cube.x() + 10 * cube.y() + 100 * cube.z());
        });
    let places = prepare(&client, places).unwrap();
    let out = stream.empty::<u32>(2 * 3 * 4).unwrap();
    stream
        .launch(&places, CubeCount::d3(2, 3, 4), (write(&out),))
        .unwrap();
    let expected: Vec<u32> = (0..4)
        .flat_map(|z| (0..3).flat_map(move |y| (0..2).map(move |x| x + 10 * y + 100 * z)))
        .collect();
    assert_eq!(stream.read(&out).wait().unwrap(), expected);
}

/// `may_alias` is about pointers and atomics: two references of which one writes stay impossible.
pub(crate) fn a_kernel_that_may_alias_still_gets_no_two_references_to_the_same_bytes(on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.new_stream();
    let values = stream.create(&[1_u32; 8]).unwrap();
    let references = Kernel::new("transfer")
        .reads::<u32>("a")
        .updates::<u32>("b")
        .scalar::<u32>("n")
        .may_alias()
        .native(|_, _| {});
    let references = prepare(&client, references).unwrap();
    let refused = stream.launch(&references, one(), (read(&values), update(&values), 8_u32));
    assert!(matches!(launch_error(refused), LaunchError::Overlap { .. }));
    let atomics = Kernel::new("atomics")
        .updates_atomically::<u32>("a")
        .updates_atomically::<u32>("b")
        .may_alias();
    let atomics = atomics.native(|_, args| {
        args.atomics::<u32>(0)[0].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        args.atomics::<u32>(1)[0].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    let atomics = prepare(&client, atomics).unwrap();
    stream
        .launch(&atomics, one(), (update(&values), update(&values)))
        .unwrap();
    assert_eq!(stream.read(&values).wait().unwrap()[0], 3);
}

/// I5: a timeout leaves the answer where it is; what was taken is told so.
pub(crate) fn an_answer_that_came_too_late_is_waited_for_again(on: On) {
    let rig = on.open();
    let (client, valve) = (rig.client(), rig.valve());
    let stream = client.new_stream();
    let values = stream.create(&[5_u32; 64]).unwrap();
    held(&client, &valve).launch(&stream, &values).unwrap();
    let mut answer = stream.read(&values);
    for _ in 0..3 {
        let told = answer.wait_timeout(std::time::Duration::from_millis(1));
        assert!(matches!(told, Err(Error::TimedOut { .. })));
    }
    valve.open();
    let taken = answer
        .wait_timeout(std::time::Duration::from_secs(60))
        .unwrap();
    assert_eq!(taken.len(), 64);
    let told = answer.wait().unwrap_err();
    assert!(matches!(told, Error::Taken), "{told}");
    assert!(told.to_string().contains("`wait_timeout`"), "{told}");
}
