//! Invalid input, objects of other devices, large launches, and a backend's own resources (I5).

use millstream::{
    CubeCount, Error, Kernel, LaunchArgs, Metadata, Read, Update, Write,
    error::{ArgumentError, ArgumentErrorKind},
    read,
    tensor_map::TensorMap,
    update, write,
};

use crate::support::*;

fn kind<T: std::fmt::Debug>(answer: Result<T, Error>) -> ArgumentErrorKind {
    match answer.unwrap_err() {
        Error::Argument(why) => why.kind,
        error => panic!("{error}"),
    }
}

pub(crate) fn offsets_past_the_end_overflowing_sizes_and_foreign_handles_give_typed_errors(on: On) {
    let (rig, other) = (on.open(), on.open());
    let client = rig.client();
    let (stream, foreign) = (client.new_stream(), other.client().new_stream());
    let values = stream.create(&[1_u32, 2, 3]).unwrap();
    let beyond = values.slice(2..9).unwrap_err();
    assert_eq!(beyond, ArgumentError::out_of_bounds(8, 36, 12));
    #[allow(
        clippy::reversed_empty_ranges,
        reason = "the reversed range is the invalid input"
    )]
    let reversed = values.slice(2..1);
    assert_eq!(
        reversed.unwrap_err().to_string(),
        "the range 8..4 of bytes ends before it starts"
    );
    assert!(values.clone().offset_end(u64::MAX).is_err());
    let beyond = values.clone().offset_start(13).unwrap_err();
    assert_eq!(
        beyond.to_string(),
        "bytes 0..13 are out of bounds, the view has 12 bytes"
    );
    let cut = values
        .clone()
        .offset_start(4)
        .unwrap()
        .offset_end(4)
        .unwrap();
    assert_eq!((cut.size(), cut.len()), (4, 1));
    assert_eq!(
        cut.offset_start(5).unwrap_err(),
        ArgumentError::out_of_bounds(0, 5, 4),
        "offsets accumulate, and errors count within the view"
    );
    let cast = values.slice(..1).unwrap().cast::<u64>();
    assert_eq!(cast.unwrap_err().kind, ArgumentErrorKind::Alignment);
    let overflow = stream.empty::<u64>(usize::MAX);
    assert_eq!(kind(overflow), ArgumentErrorKind::TooLarge);
    let foreign_handle = foreign.create(&[1_u32, 2, 3]).unwrap();
    assert!(matches!(
        stream.copy(&foreign_handle, &values),
        Err(Error::Foreign { what: "handle", .. })
    ));
    assert!(matches!(
        stream.read(&foreign_handle).wait(),
        Err(Error::Foreign { .. })
    ));
    let message = |refused: Result<(), Error>| refused.unwrap_err().to_string();
    let advice = "belongs to another device; create it with a client of this one";
    assert_eq!(
        message(launch_update(&stream, &add_one(&client), &foreign_handle)),
        format!(
            "the handle of {} for binding `values` of `add_one` {advice}",
            foreign_handle.id()
        )
    );
    assert_eq!(
        message(launch_update(&foreign, &add_one(&client), &foreign_handle)),
        format!("the kernel `add_one` {advice}")
    );
    let short = stream.write(&values, &[1]);
    assert_eq!(kind(short), ArgumentErrorKind::Length);
    assert_eq!(
        message(stream.copy(&values, &values)),
        "`copy` was not accepted: bindings `source` and `target` overlap in 12 bytes and one of them is written; copy one of them first"
    );
    assert_eq!(
        stream.read(&values).wait().unwrap(),
        [1, 2, 3],
        "a refused call ran"
    );
}

pub(crate) fn arguments_that_do_not_match_the_signature_are_refused(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, transfer, set) = (client.new_stream(), transfer(&client), set(&client));
    let (a, b) = (
        stream.create(&[1_u32; 4]).unwrap(),
        stream.create(&[2_u32; 4]).unwrap(),
    );
    let floats = stream.create(&[1_f32; 4]).unwrap();
    let message = |answer: Result<(), Error>| answer.unwrap_err().to_string();
    assert_eq!(
        message(stream.launch(&transfer, one(), (read(&a),))),
        "`transfer` was not accepted: expected 2 bindings, got 1"
    );
    assert_eq!(
        message(stream.launch(&set, one(), (write(&a),))),
        "`set` was not accepted: expected 2 scalars, got 0"
    );
    assert_eq!(
        message(stream.launch(&set, one(), (write(&a), 1_f32, 4_u32))),
        "`set` was not accepted: scalar `value` is declared as u32, got f32: write a literal as `5_u32`, and a value as `value as u32`"
    );
    assert_eq!(
        message(stream.launch(&transfer, one(), (update(&a), write(&b), 4_u32))),
        "`transfer` was not accepted: binding `src` must be bound with `read`, got `update`: pass `read(&handle)`"
    );
    assert_eq!(
        message(stream.launch(&transfer, one(), (read(&floats), write(&b), 4_u32))),
        "`transfer` was not accepted: binding `src` is declared as u32, got elements of f32: pass a handle of u32, or convert one with `Handle::cast`"
    );
    let overlap = launch_transfer(&stream, &transfer, &a, &a);
    assert_eq!(kind(overlap), ArgumentErrorKind::Overlap);
    let args = LaunchArgs::new()
        .arg(read(&a))
        .arg(write(&b))
        .arg(4_u32)
        .tensor_map(TensorMap::tiled(5, millstream::DType::U32, &[4], &[4]));
    assert_eq!(
        message(stream.launch(&transfer, one(), args)),
        "`transfer` was not accepted: a tensor map refers to binding 5, but the launch has 2; bindings count from 0"
    );
    assert_eq!(stream.read(&b).wait().unwrap(), [2; 4]);
}

/// The halves of one slice do not overlap, and two bindings may read the same bytes.
pub(crate) fn adjacent_or_read_only_bindings_may_share_a_slice(on: On) {
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

/// A launch may be larger than a message: twelve bindings, thirty scalars, metadata.
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

/// The types of a typed kernel are compared with its signature once. Its launches behave like any others, and literals
/// take the declared width.
pub(crate) fn typed_kernel_accepts_exactly_the_types_of_its_signature(on: On) {
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
    // An error that depends on the arguments is an error of the launch, as without types.
    let overlap = transfer.launch(&stream, one(), (&a, &a, 4));
    assert_eq!(kind(overlap), ArgumentErrorKind::Overlap);
    let message = |outcome: Result<(), Error>| outcome.unwrap_err().to_string();
    let expected =
        "`transfer` was not accepted: expected arguments (Read<u32>, Write<u32>, u32), got";
    let advice = "use the types of the signature";
    assert_eq!(
        message(transfer.typed::<(Read<u32>, Write<u32>, f64)>().map(drop)),
        format!("{expected} (Read<u32>, Write<u32>, f64): {advice}")
    );
    assert_eq!(
        message(transfer.typed::<(Read<f32>, Update<u32>, u32)>().map(drop)),
        format!("{expected} (Read<f32>, Update<u32>, u32): {advice}")
    );
    assert_eq!(
        message(transfer.typed::<Read<u32>>().map(drop)),
        format!("{expected} Read<u32>: {advice}")
    );
    assert_eq!(
        message(transfer.typed::<(u32, Read<u32>, Write<u32>)>().map(drop)),
        format!("{expected} (u32, Read<u32>, Write<u32>): {advice}")
    );
    assert!(transfer.typed::<()>().is_err());
}

/// A custom task runs in stream order; a guard gives access to the resources and holds conflicting tasks.
pub(crate) fn custom_tasks_run_in_order_and_a_guard_holds_conflicting_tasks(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, add_one) = (client.new_stream(), add_one(&client));
    let values = stream.create(&[1_u32, 2]).unwrap();
    launch_update(&stream, &add_one, &values).unwrap();
    on.with_resource(&stream, "times_ten", (update(&values),), |resources| {
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
    let message = client.kernel(other).unwrap_err().to_string();
    let backend = rig.device.properties().backend;
    let start = format!(
        "kernel `other` has no source for `{backend}`, only an unknown language; add one of "
    );
    // The kinds of source that the device takes follow.
    assert!(
        message.starts_with(&start) && message.len() > start.len(),
        "{message}"
    );
    let lacking = match on.runs_rust() {
        true => millstream::device::Feature::TensorMaps,
        false => millstream::device::Feature::NativeKernels,
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

/// Each cube has its own coordinates in three dimensions.
pub(crate) fn every_cube_runs_once_with_its_own_coordinates(on: On) {
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

/// `may_alias` permits aliasing pointers and atomics; two references to the same bytes, one of them mutable, are still
/// refused.
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
    assert_eq!(kind(refused), ArgumentErrorKind::Overlap);
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

/// I5: a timed-out wait leaves the answer pending; an answer that was taken already is `Taken`.
pub(crate) fn answer_can_be_waited_for_again_after_a_timeout(on: On) {
    let rig = on.open();
    let (client, valve) = (rig.client(), rig.valve());
    let stream = client.new_stream();
    let values = stream.create(&[5_u32; 64]).unwrap();
    held(&client, &valve).launch(&stream, &values).unwrap();
    let mut answer = stream.read(&values);
    for _ in 0..3 {
        let early = answer.wait_timeout(std::time::Duration::from_millis(1));
        assert!(matches!(early, Err(Error::TimedOut { .. })));
    }
    valve.open();
    let taken = answer
        .wait_timeout(std::time::Duration::from_secs(60))
        .unwrap();
    assert_eq!(taken.len(), 64);
    let error = answer.wait().unwrap_err();
    assert!(matches!(error, Error::Taken), "{error}");
    assert!(error.to_string().contains("`wait_timeout`"), "{error}");
}
