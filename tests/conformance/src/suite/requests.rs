//! Invalid input, objects of other devices, large launches, and a backend's own resources (I5).

use std::sync::atomic::Ordering;
use std::time::Duration;

use millstream::device::Feature;
use millstream::error::{ArgumentError, ArgumentErrorKind};
use millstream::{
    CubeCount, DType, Error, Kernel, LaunchArgs, Read, Update, Write, read, tensor_map::TensorMap,
    update, write,
};

use crate::support::*;

pub(crate) fn offsets_past_the_end_overflowing_sizes_and_foreign_handles_give_typed_errors(on: On) {
    let (rig, other) = (on.open(), on.open());
    let client = rig.client();
    let (stream, foreign) = (client.new_stream(), other.client().new_stream());
    let values = stream.put(&[1_u32, 2, 3]);
    let out_of_bounds = ArgumentError::out_of_bounds;
    assert_eq!(values.slice(2..9).unwrap_err(), out_of_bounds(8, 36, 12));
    #[allow(
        clippy::reversed_empty_ranges,
        reason = "the reversed range is the invalid input"
    )]
    let reversed = values.slice(2..1).unwrap_err().to_string();
    assert_eq!(reversed, "the range 8..4 of bytes ends before it starts");
    assert!(values.clone().offset_end(u64::MAX).is_err());
    let beyond = values.clone().offset_start(13).unwrap_err();
    assert_eq!(beyond, out_of_bounds(0, 13, 12));
    let expected = "bytes 0..13 are out of bounds, the view has 12 bytes";
    assert_eq!(beyond.to_string(), expected);
    // Offsets accumulate, and errors count within the view.
    let cut = values.clone().offset_start(4).unwrap();
    let cut = cut.offset_end(4).unwrap();
    assert_eq!((cut.size(), cut.len()), (4, 1));
    assert_eq!(cut.offset_start(5).unwrap_err(), out_of_bounds(0, 5, 4));
    let half = values.slice(..1).unwrap().cast::<u64>();
    assert_eq!(misfit(half), ArgumentErrorKind::Alignment);
    let huge = stream.empty::<u64>(usize::MAX);
    assert_eq!(misfit(huge), ArgumentErrorKind::TooLarge);
    let foreign_handle = foreign.put(&[1_u32, 2, 3]);
    let copied = stream.copy(&foreign_handle, &values);
    let read = stream.read(&foreign_handle).wait().map(drop);
    for refused in [copied, read] {
        assert!(matches!(
            refused,
            Err(Error::Foreign { what: "handle", .. })
        ));
    }
    let id = foreign_handle.id();
    let advice = "belongs to another device; create it with a client of this one";
    for (stream, what) in [
        (
            &stream,
            format!("handle of {id} for binding `values` of `add_one`"),
        ),
        (&foreign, "kernel `add_one`".to_owned()),
    ] {
        let refused = launch_update(stream, &add_one(&client), &foreign_handle);
        assert_eq!(error_text(refused), format!("the {what} {advice}"));
    }
    assert_eq!(
        misfit(stream.write(&values, &[1])),
        ArgumentErrorKind::Length
    );
    let why = error_text(stream.copy(&values, &values));
    let expected = "`copy` was not accepted: bindings `source` and `target` overlap in 12 bytes and one of them is written; copy one of them first";
    assert_eq!(why, expected);
    assert_eq!(stream.get(&values), [1, 2, 3], "a refused call ran");
}

pub(crate) fn arguments_that_do_not_match_the_signature_are_refused(on: On) {
    let (_rig, client, stream) = on.start();
    let (transfer, set) = (transfer(&client), set(&client));
    let a = stream.put(&[1_u32; 4]);
    let b = stream.put(&[2_u32; 4]);
    let floats = stream.put(&[1_f32; 4]);
    for (refused, why) in [
        (
            stream.launch(&transfer, one(), (read(&a),)),
            "`transfer` was not accepted: expected 2 bindings, got 1",
        ),
        (
            stream.launch(&set, one(), (write(&a),)),
            "`set` was not accepted: expected 2 scalars, got 0",
        ),
        (
            stream.launch(&set, one(), (write(&a), 1_f32, 4_u32)),
            "`set` was not accepted: scalar `value` is declared as u32, got f32: write a literal as `5_u32`, and a value as `value as u32`",
        ),
        (
            stream.launch(&transfer, one(), (update(&a), write(&b), 4_u32)),
            "`transfer` was not accepted: binding `src` must be bound with `read`, got `update`: pass `read(&handle)`",
        ),
    ] {
        assert_eq!(error_text(refused), why);
    }
    let refused = stream.launch(&transfer, one(), (read(&floats), write(&b), 4_u32));
    assert_eq!(misfit(refused), ArgumentErrorKind::Type);
    let refused = launch_transfer(&stream, &transfer, &a, &a);
    assert_eq!(misfit(refused), ArgumentErrorKind::Overlap);
    let map = TensorMap::tiled(5, DType::U32, &[4], &[4]);
    let args = LaunchArgs::new().arg(read(&a)).arg(write(&b)).arg(4_u32);
    let why = error_text(stream.launch(&transfer, one(), args.tensor_map(map)));
    let expected = "`transfer` was not accepted: a tensor map refers to binding 5, but the launch has 2; bindings count from 0";
    assert_eq!(why, expected);
    assert_eq!(stream.get(&b), [2; 4]);
}

/// The halves of one slice do not overlap, and two bindings may read the same bytes.
pub(crate) fn adjacent_or_read_only_bindings_may_share_a_slice(on: On) {
    let (_rig, client, stream) = on.start();
    let transfer = transfer(&client);
    let whole = stream.put(&[1_u32, 2, 0, 0]);
    let (left, right) = (whole.slice(..2).unwrap(), whole.slice(2..).unwrap());
    launch_transfer(&stream, &transfer, &left, &right).unwrap();
    assert_eq!(stream.get(&whole), [1, 2, 1, 2]);
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
    let arguments = (read(&left), read(&left), write(&out), 1_u32);
    stream.launch(&sum, one(), arguments).unwrap();
    assert_eq!(stream.get(&out), [2]);
}

/// The types of a typed kernel are compared with its signature once. Its launches behave like any others, and literals
/// take the declared width.
pub(crate) fn typed_kernel_accepts_exactly_the_types_of_its_signature(on: On) {
    let (_rig, client, stream) = on.start();
    let (set, transfer) = (set(&client), transfer(&client));
    let a = stream.empty::<u32>(4).unwrap();
    let b = stream.empty::<u32>(4).unwrap();
    let set = set.typed::<(Write<u32>, u32, u32)>().unwrap();
    let transfer = transfer.typed::<(Read<u32>, Write<u32>, u32)>().unwrap();
    set.launch(&stream, one(), (&a, 7, 4)).unwrap();
    let arguments = transfer.arguments((&a, &b, 4));
    let step = stream.record(|recorder| recorder.launch(&transfer, one(), arguments));
    step.unwrap().replay(&stream).unwrap();
    assert_eq!(stream.get(&b), [7; 4]);
    // An error that depends on the arguments is an error of the launch, as without types.
    let refused = transfer.launch(&stream, one(), (&a, &a, 4));
    assert_eq!(misfit(refused), ArgumentErrorKind::Overlap);
    type Swapped = (u32, Read<u32>, Write<u32>);
    for (refused, got) in [
        (
            transfer.typed::<(Read<u32>, Write<u32>, f64)>().map(drop),
            "(Read<u32>, Write<u32>, f64)",
        ),
        (
            transfer.typed::<(Read<f32>, Update<u32>, u32)>().map(drop),
            "(Read<f32>, Update<u32>, u32)",
        ),
        (transfer.typed::<Read<u32>>().map(drop), "Read<u32>"),
        (
            transfer.typed::<Swapped>().map(drop),
            "(u32, Read<u32>, Write<u32>)",
        ),
    ] {
        let expected = format!(
            "`transfer` was not accepted: expected arguments (Read<u32>, Write<u32>, u32), got {got}: \
             use the types of the signature"
        );
        assert_eq!(error_text(refused), expected);
    }
    assert!(transfer.typed::<()>().is_err());
}

/// A custom task runs in stream order; a guard gives access to the resources and holds conflicting tasks.
pub(crate) fn custom_tasks_run_in_order_and_a_guard_holds_conflicting_tasks(on: On) {
    let (_rig, client, stream) = on.start();
    let add_one = add_one(&client);
    let values = stream.put(&[1_u32, 2]);
    launch_update(&stream, &add_one, &values).unwrap();
    let times_ten = |resources: Resources<'_>| {
        resources.change(0, |words| words.iter_mut().for_each(|value| *value *= 10));
    };
    on.with_resource(&stream, "times_ten", (update(&values),), times_ten)
        .unwrap();
    launch_update(&stream, &add_one, &values).unwrap();
    assert_eq!(stream.get(&values), [21, 31]);
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
    let message = error_text(client.kernel(other));
    let backend = rig.device.properties().backend;
    let start = format!(
        "kernel `other` has no source for `{backend}`, only an unknown language; add one of "
    );
    // The kinds of source that the device takes follow.
    let kinds = message.strip_prefix(&start);
    assert!(kinds.is_some_and(|kinds| !kinds.is_empty()), "{message}");
    let lacking = match on.runs_rust() {
        true => Feature::TensorMaps,
        false => Feature::NativeKernels,
    };
    let needs = Kernel::new("needs").requires(lacking).native(|_, _| {});
    let message = error_text(client.kernel(needs));
    assert!(
        message.contains(&format!("requires {lacking}")),
        "{message}"
    );
}

/// Each cube has its own coordinates in three dimensions.
pub(crate) fn every_cube_runs_once_with_its_own_coordinates(on: On) {
    let (_rig, client, stream) = on.start();
    let places = Kernel::new("places")
        .writes::<u32>("out")
        .native(|cube, args| {
            args.chunk::<u32>(0)
                .fill(cube.x() + 10 * cube.y() + 100 * cube.z());
        });
    let places = prepare(&client, places).unwrap();
    let out = stream.empty::<u32>(2 * 3 * 4).unwrap();
    let cubes = CubeCount::d3(2, 3, 4);
    stream.launch(&places, cubes, (write(&out),)).unwrap();
    let expected: Vec<u32> = (0..4)
        .flat_map(|z| (0..3).flat_map(move |y| (0..2).map(move |x| x + 10 * y + 100 * z)))
        .collect();
    assert_eq!(stream.get(&out), expected);
}

/// `may_alias` permits aliasing pointers and atomics; two references to the same bytes, one of them mutable, are still
/// refused.
pub(crate) fn a_kernel_that_may_alias_still_gets_no_two_references_to_the_same_bytes(on: On) {
    let (_rig, client, stream) = on.start();
    let values = stream.put(&[1_u32; 8]);
    let references = Kernel::new("transfer")
        .reads::<u32>("a")
        .updates::<u32>("b")
        .scalar::<u32>("n")
        .may_alias()
        .native(|_, _| {});
    let references = prepare(&client, references).unwrap();
    let refused = stream.launch(&references, one(), (read(&values), update(&values), 8_u32));
    assert_eq!(misfit(refused), ArgumentErrorKind::Overlap);
    let atomics = Kernel::new("atomics")
        .updates_atomically::<u32>("a")
        .updates_atomically::<u32>("b")
        .may_alias()
        .native(|_, args| {
            for binding in 0..2 {
                args.atomics::<u32>(binding)[0].fetch_add(1, Ordering::Relaxed);
            }
        });
    let atomics = prepare(&client, atomics).unwrap();
    let both = (update(&values), update(&values));
    stream.launch(&atomics, one(), both).unwrap();
    assert_eq!(stream.get(&values)[0], 3);
}

/// I5: a timed-out wait leaves the answer pending; an answer that was taken already is `Taken`.
/// Needs: Threads, HeldKernels.
pub(crate) fn answer_can_be_waited_for_again_after_a_timeout(on: On) {
    let rig = on.open();
    let (client, valve) = (rig.client(), rig.valve());
    let stream = client.new_stream();
    let values = stream.put(&[5_u32; 64]);
    held(&client, &valve).launch(&stream, &values).unwrap();
    let mut answer = stream.read(&values);
    for _ in 0..3 {
        let early = answer.wait_timeout(Duration::from_millis(1));
        assert!(matches!(early, Err(Error::TimedOut { .. })));
    }
    valve.open();
    assert_eq!(answer.wait_timeout(PATIENCE).unwrap().len(), 64);
    let error = answer.wait().unwrap_err();
    assert!(matches!(error, Error::Taken), "{error}");
    assert!(error.to_string().contains("`wait_timeout`"), "{error}");
}
