//! Scalars of recordings that each replay sets by value (I5, I9).

use millstream::error::ArgumentErrorKind;
use millstream::{Error, Kernel, stream::RecordedWord, update, write};

use crate::support::*;

const LEN: usize = 8;

/// `set` has two scalars in one word: a replay sets either of them, both, or none, and whole words beside them.
pub(crate) fn replay_sets_scalar_parameters_beside_fixed_scalars_and_words(on: On) {
    let (_rig, client, stream) = on.start();
    let set = set(&client);
    let parts = [(); 4].map(|()| stream.put(&[0_u32; LEN]));
    let mut recorder = stream.recorder();
    let (value, n) = (recorder.scalar::<u32>(), recorder.scalar::<u32>());
    let first = (write(&parts[0]), &value, LEN as u32);
    recorder.launch(&set, one(), first).unwrap();
    let second = (write(&parts[1]), 5_u32, &n);
    recorder.launch(&set, one(), second).unwrap();
    let third = (write(&parts[2]), &value, &n);
    recorder.launch(&set, one(), third).unwrap();
    let bindings = [write(parts[3].as_bytes())];
    let mut in_slot = |slot| {
        let words = [RecordedWord::Slot(slot)];
        recorder.launch_words(&set, one(), &bindings, &words)
    };
    in_slot(0).unwrap();
    // A slot beyond the limit is refused, and not recorded.
    for slot in [u32::MAX, 1 << 24] {
        assert_eq!(misfit(in_slot(slot)), ArgumentErrorKind::TooLarge);
    }
    let recording = recorder.finish().unwrap();
    assert_eq!((recording.len(), recording.words()), (4, 1));
    for round in [1, 2, u32::MAX] {
        let words = [super::parameters::packed(9, LEN as u32)];
        let args = recording.set(&value, round).words(&words);
        args.set(&n, LEN as u32).replay(&stream).unwrap();
        let expected = [round, 5, round, 9];
        for (part, expected) in parts.iter().zip(expected) {
            assert_eq!(stream.get(part), [expected; LEN]);
        }
    }
}

/// Types of every width, in one launch: the widest are packed first, whatever the declared order.
/// Needs: RustKernels.
pub(crate) fn scalar_parameters_have_every_width(on: On) {
    let (_rig, client, stream) = on.start();
    let kernel = Kernel::new("widths")
        .writes::<f64>("out")
        .scalar::<u8>("a")
        .scalar::<f64>("b")
        .scalar::<u16>("c")
        .scalar::<f32>("d")
        .scalar::<u8>("e")
        .scalar::<i32>("f")
        .native(|_, args| {
            let values = [
                f64::from(args.scalar::<u8>(0)),
                args.scalar::<f64>(1),
                f64::from(args.scalar::<u16>(2)),
                f64::from(args.scalar::<f32>(3)),
                f64::from(args.scalar::<u8>(4)),
                f64::from(args.scalar::<i32>(5)),
            ];
            args.chunk::<f64>(0).copy_from_slice(&values);
        });
    let kernel = client.kernel(kernel).unwrap();
    let first = stream.put(&[0.0; 6]);
    let second = stream.put(&[0.0; 6]);
    let mut recorder = stream.recorder();
    let a = recorder.scalar::<u8>();
    let b = recorder.scalar::<f64>();
    let c = recorder.scalar::<u16>();
    let d = recorder.scalar::<f32>();
    let e = recorder.scalar::<u8>();
    let f = recorder.scalar::<i32>();
    let all = (write(&first), &a, &b, &c, &d, &e, &f);
    recorder.launch(&kernel, one(), all).unwrap();
    let some = (write(&second), &e, 0.25_f64, &c, 0.5_f32, 8_u8, &f);
    recorder.launch(&kernel, one(), some).unwrap();
    let recording = recorder.finish().unwrap();
    for sign in [1, -1] {
        let args = recording.set(&f, 70_000 * sign).set(&e, 255).set(&d, 1.5);
        let args = args.set(&c, 60_000).set(&b, -2.5).set(&a, 7);
        args.replay(&stream).unwrap();
        let signed = f64::from(70_000 * sign);
        let expected = [7.0, -2.5, 60_000.0, 1.5, 255.0, signed];
        assert_eq!(stream.get(&first), expected);
        let expected = [255.0, 0.25, 60_000.0, 0.5, 8.0, signed];
        assert_eq!(stream.get(&second), expected);
    }
}

/// I5: a replay without the value of a parameter, and a parameter in the wrong place, are errors that submit nothing.
pub(crate) fn misused_scalar_parameter_is_refused_and_submits_nothing_i5(on: On) {
    let (rig, client, stream) = on.start();
    let (set, add_one) = (set(&client), add_one(&client));
    let out = stream.put(&[3_u32; LEN]);
    let mut recorder = stream.recorder();
    let (unused, value) = (recorder.scalar::<u32>(), recorder.scalar::<u32>());
    recorder
        .launch(&set, one(), (write(&out), &value, LEN as u32))
        .unwrap();
    let wide = recorder.scalar::<u64>();
    let refused = recorder.launch(&add_one, one(), (update(&out), &wide));
    assert_eq!(misfit(refused), ArgumentErrorKind::Type);
    // The refused launch left nothing behind.
    recorder.copy(&out, &stream.empty(LEN).unwrap()).unwrap();
    let mut other = stream.recorder();
    let foreign = other.scalar::<u32>();
    let assert_misused = |result: Result<(), Error>, index: u32, what: &str| {
        let Err(Error::Argument(why)) = result else {
            panic!("{result:?}");
        };
        let text = format!("scalar parameter {index} {what}");
        assert!(why.to_string().contains(&text), "{why}");
        assert_eq!(why.kind, ArgumentErrorKind::Parameter);
    };
    let refused = recorder.launch(&add_one, one(), (update(&out), &foreign));
    assert_misused(refused, 0, "belongs to another recorder");
    let recording = recorder.finish().unwrap();
    assert_eq!(recording.len(), 2);
    stream.drain();
    let tasks = rig.stats().tasks;
    assert_misused(recording.replay(&stream), 1, "has no value");
    let no_value = recording.replay_args(&stream, &[], &[]);
    assert_misused(no_value, 1, "has no value");
    let args = |value| recording.set(value, 4);
    let twice = args(&value).set(&value, 5).replay(&stream);
    assert_misused(twice, 1, "is set twice");
    let set_unused = args(&unused).replay(&stream);
    assert_misused(set_unused, 0, "is taken by no launch");
    let set_foreign = args(&foreign).replay(&stream);
    assert_misused(set_foreign, 0, "belongs to another recorder");
    let outside = stream.launch(&add_one, one(), (update(&out), &value));
    assert_misused(outside, 1, "is passed to a launch outside of a recording");
    let stats = rig.stats();
    assert_eq!((stats.tasks, stats.failures), (tasks, 0));
    assert_eq!(stream.get(&out), [3; LEN]);
    args(&value).replay(&stream.nowait()).unwrap();
    assert_eq!(stream.get(&out), [4; LEN]);
}
