//! Bad input, foreign things, large launches, a backend's own resources (I5).

use millstream::{
    CubeCount, Error, Kernel, LaunchArgs, LaunchError, MemoryError, Metadata, TensorMap, read,
    update, write,
};
use rstest::rstest;
use rstest_reuse::apply;

use crate::support::*;

fn launch_error<T: std::fmt::Debug>(answer: Result<T, Error>) -> LaunchError {
    match answer.unwrap_err() {
        Error::Launch { why, .. } => why,
        error => panic!("{error}"),
    }
}

#[apply(every_device)]
fn offsets_past_the_end_overflowing_sizes_and_foreign_handles_give_typed_errors(#[case] on: On) {
    let (rig, other) = (on.open(), on.open());
    let client = rig.client();
    let (stream, foreign) = (client.stream(), other.client().stream());
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

#[apply(every_device)]
fn arguments_that_do_not_fit_the_signature_are_refused_with_a_sentence(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, transfer, set) = (client.stream(), transfer(&client), set(&client));
    let (a, b) = (
        stream.create(&[1_u32; 4]).unwrap(),
        stream.create(&[2_u32; 4]).unwrap(),
    );
    let floats = stream.create(&[1_f32; 4]).unwrap();
    let tell = |answer: Result<(), Error>| answer.unwrap_err().to_string();
    assert_eq!(
        tell(stream.launch(&transfer, one(), (read(&a),))),
        "`transfer` was not accepted: it takes 2 bindings, 1 was given"
    );
    assert_eq!(
        tell(stream.launch(&set, one(), (write(&a),))),
        "`set` was not accepted: it takes 2 scalars, 0 were given"
    );
    assert_eq!(
        tell(stream.launch(&set, one(), (write(&a), 1_f32, 4_u32))),
        "`set` was not accepted: scalar `value` is declared as u32, the call gives f32: write a literal as `5_u32`, and a value as `value as u32`"
    );
    assert_eq!(
        tell(stream.launch(&transfer, one(), (update(&a), write(&b), 4_u32))),
        "`transfer` was not accepted: binding `src` is declared as read, the call says update"
    );
    assert!(matches!(
        launch_error(stream.launch(&transfer, one(), (read(&floats), write(&b), 4_u32))),
        LaunchError::ElementType { .. }
    ));
    assert!(matches!(
        launch_error(launch_transfer(&stream, &transfer, &a, &a)),
        LaunchError::Overlap { .. }
    ));
    let bytes = stream.create(&[0_u8; 64]).unwrap();
    let odd = bytes.slice(1..5).unwrap().cast::<u32>().unwrap();
    assert!(matches!(
        launch_error(stream.launch(&set, one(), to(&odd, 1))),
        LaunchError::Misaligned {
            offset: 1,
            align: 4,
            ..
        }
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
#[apply(every_device)]
fn bindings_that_only_touch_or_are_only_read_may_share_a_slice(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, transfer) = (client.stream(), transfer(&client));
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
    let sum = client.kernel(sum.elements_ptx()).unwrap();
    let out = stream.empty::<u32>(1).unwrap();
    stream
        .launch(&sum, one(), (read(&left), read(&left), write(&out), 1_u32))
        .unwrap();
    assert_eq!(stream.read(&out).wait().unwrap(), [2]);
}

/// More than fits a message: twelve bindings, thirty scalars, metadata.
#[apply(every_device)]
fn launches_larger_than_a_message_work(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.stream();
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
    let kernel = client.kernel(kernel.large_ptx(7)).unwrap();
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

/// A backend's own resources, as a task in order and behind a guard.
#[apply(every_device)]
fn resources_are_reached_in_order_and_a_guard_holds_back_what_conflicts(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, add_one) = (client.stream(), add_one(&client));
    let values = stream.create(&[1_u32, 2]).unwrap();
    launch_update(&stream, &add_one, &values).unwrap();
    on.with_resource(&stream, "times ten", (update(&values),), |mut resources| {
        resources.words(0).iter_mut().for_each(|value| *value *= 10);
    })
    .unwrap();
    launch_update(&stream, &add_one, &values).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [21, 31]);
    let guard = on.guard(&stream, (read(&values),)).unwrap();
    assert_eq!(guard.words(), [21, 31]);
    let other = client.stream();
    launch_update(&other, &add_one, &values).unwrap();
    let mut blocked = other.read(&values);
    assert!(blocked.try_take().is_none());
    drop(guard);
    assert_eq!(blocked.wait().unwrap(), [22, 32]);
}

#[apply(every_device)]
fn a_kernel_that_the_device_cannot_run_is_refused_when_it_is_prepared(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let (other, kind) = match on.is_cuda() {
        true => (Kernel::new("other").native(|_, _| {}), "native"),
        false => (
            Kernel::new("other").cuda("__global__ void other() {}"),
            "CUDA C",
        ),
    };
    let told = client.kernel(other).unwrap_err().to_string();
    let backend = rig.device.properties().backend;
    assert_eq!(
        told,
        format!("kernel `other` has no source for `{backend}`, only {kind}; add one")
    );
    let lacking = match on.is_cuda() {
        true => millstream::Feature::NativeKernels,
        false => millstream::Feature::TensorMaps,
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
#[apply(every_device)]
fn every_cube_runs_once_and_knows_its_place(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.stream();
    let places = Kernel::new("places")
        .writes::<u32>("out")
        .native(|cube, args| {
            args.chunk::<u32>(0)
                .fill(cube.x() + 10 * cube.y() + 100 * cube.z());
        });
    let places = client.kernel(places.cubes_ptx()).unwrap();
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
#[apply(every_device)]
fn a_kernel_that_may_alias_still_gets_no_two_references_to_the_same_bytes(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.stream();
    let values = stream.create(&[1_u32; 8]).unwrap();
    let references = Kernel::new("transfer")
        .reads::<u32>("a")
        .updates::<u32>("b")
        .scalar::<u32>("n")
        .may_alias()
        .native(|_, _| {});
    let references = client.kernel(references.elements_ptx()).unwrap();
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
    let atomics = client.kernel(atomics.cubes_ptx()).unwrap();
    stream
        .launch(&atomics, one(), (update(&values), update(&values)))
        .unwrap();
    assert_eq!(stream.read(&values).wait().unwrap()[0], 3);
}

/// I5: on a driven device a kernel that submits into a full mailbox is told, it does not hang.
#[test]
fn a_kernel_that_submits_into_a_full_mailbox_of_its_own_driven_device_is_told() {
    let rig = On::CpuDriven.open_with(millstream::DeviceOptions::default().mailbox_capacity(4));
    let client = rig.client();
    let stream = client.stream();
    let (inner, values) = (client.stream(), stream.create(&[0_u32]).unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    let mine = values.clone();
    let submits = Kernel::new("submits")
        .updates::<u32>("v")
        .native(move |_, _| {
            let refused = (0..100).find_map(|value| inner.fill(&mine, value).err());
            sender.send(refused).unwrap();
        });
    let submits = client.kernel(submits).unwrap();
    stream.launch(&submits, one(), (update(&values),)).unwrap();
    stream.sync().wait().unwrap();
    assert!(matches!(
        receiver.recv().unwrap(),
        Some(Error::WouldDeadlock)
    ));
}

/// A single argument needs no tuple, counts may be numbers or borrowed, and `usize` and `bool` are scalars of one width everywhere.
#[rstest]
#[case::cpu(On::Cpu)]
#[case::sim(On::Sim)]
fn arguments_and_counts_have_short_forms(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let adds = Kernel::new("adds")
        .updates::<u32>("values")
        .native(|_, args| {
            args.chunk::<u32>(0)
                .iter_mut()
                .for_each(|value| *value += 1);
        });
    let (add_one, stream) = (client.kernel(adds).unwrap(), client.stream());
    let values = stream.create(&[0_u32; 64]).unwrap();
    let count = CubeCount::cover(values.len(), 16);
    stream.launch(&add_one, &count, update(&values)).unwrap();
    #[allow(unused_parens, reason = "what newcomers write")]
    stream.launch(&add_one, &count, (update(&values))).unwrap();
    stream.launch(&add_one, count, &values).unwrap();
    stream.launch(&add_one, 4, [update(&values)]).unwrap();
    stream.launch(&add_one, [2, 2], (update(&values),)).unwrap();
    stream
        .launch(&add_one, [4, 1, 1], (update(&values),))
        .unwrap();
    stream.launch(&add_one, (1, 2, 2), update(&values)).unwrap();
    stream.host("looks", read(&values), || ()).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [7; 64]);
}

#[test]
fn scalars_of_the_machines_width_have_one_of_their_own() {
    let rig = On::Cpu.open();
    let client = rig.client();
    let kernel = Kernel::new("takes")
        .writes::<u64>("out")
        .scalar::<u64>("len")
        .scalar::<i64>("shift")
        .scalar::<u8>("flag")
        .native(|_, args| {
            let sum = args.scalar::<u64>(0) + args.scalar::<i64>(1) as u64;
            args.chunk::<u64>(0)[0] = sum + u64::from(args.scalar::<u8>(2));
        });
    let (kernel, stream) = (client.kernel(kernel).unwrap(), client.stream());
    let out = stream.empty::<u64>(1).unwrap();
    let (len, shift) = (500_usize, 30_isize);
    stream
        .launch(&kernel, 1, (write(&out), len, shift, true))
        .unwrap();
    assert_eq!(stream.read(&out).wait().unwrap(), [531]);
    let told = stream.launch(&kernel, 1, (write(&out), 5, shift, true));
    assert_eq!(
        told.unwrap_err().to_string(),
        "`takes` was not accepted: scalar `len` is declared as u64, the call gives i32: write a literal as `5_u64`, and a value as `value as u64`"
    );
}

/// I5: a timeout leaves the answer where it is; what was taken is told so.
#[apply(every_threaded_device)]
fn an_answer_that_came_too_late_is_waited_for_again(#[case] on: On) {
    let rig = on.open();
    let (client, valve) = (rig.client(), rig.valve());
    let stream = client.stream();
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

/// `?` in the closure needs no type to be named, and a failure is the answer.
#[test]
fn a_closure_that_may_fail_is_profiled() {
    let rig = On::Cpu.open();
    let stream = rig.client().stream();
    let values = stream.create(&[0_u32; 8]).unwrap();
    let profiled = stream.try_profiled(|stream| {
        stream.fill(&values, 1)?;
        Ok(3)
    });
    let (made, profile) = profiled.unwrap();
    assert_eq!((made, profile.wait().unwrap().tasks), (3, 1));
    let failed = stream.try_profiled(|stream| {
        stream.fill(&values, 1)?;
        stream.copy(&values, &values)
    });
    assert!(matches!(failed.map(drop), Err(Error::Launch { .. })));
}
