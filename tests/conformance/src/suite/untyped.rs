//! Launches whose arguments are built at run time, without element types: they may be larger than a message, and return
//! the same errors as typed launches. Also half-precision elements (I5).

use millstream::{
    Access, Argument, ComputeClient, CubeCount, Handle, Kernel, KernelHandle, LaunchArgs, Metadata,
    Stream, bf16, bind, f16, read, stream::RecordedWord, update, write,
};

use crate::support::*;

/// More bindings and words than a message has room for.
const INPUTS: usize = 11;
const WORDS: usize = 30;

/// Prepares a kernel that adds all its inputs, scalars and words of metadata.
fn large(client: &ComputeClient) -> KernelHandle {
    let mut kernel = Kernel::new("large");
    for index in 0..INPUTS {
        kernel = kernel.reads::<u32>(format!("in{index}"));
    }
    kernel = kernel.writes::<u64>("out");
    for index in 0..WORDS {
        kernel = kernel.scalar::<u64>(format!("s{index}"));
    }
    let kernel = kernel.native(|_, args| {
        let inputs = (0..INPUTS).map(|index| u64::from(args.read::<u32>(index)[0]));
        let scalars = (0..WORDS).map(|index| args.scalar::<u64>(index));
        let metadata = args.metadata().iter().map(|word| u64::from(*word));
        args.chunk::<u64>(INPUTS)[0] = inputs.chain(scalars).chain(metadata).sum();
    });
    prepare(client, kernel.with(MetadataWords(7))).unwrap()
}

fn inputs(stream: &Stream, values: std::ops::Range<u32>) -> Vec<Handle<u32>> {
    values.map(|value| stream.put(&[value])).collect()
}

pub(crate) fn untyped_bytes_and_words_work_as_arguments(on: On) {
    let (_rig, client, stream) = on.start();
    let (large, add_one) = (large(&client), add_one(&client));
    let (inputs, out) = (inputs(&stream, 0..11), stream.empty::<u64>(1).unwrap());
    let mut bindings: Vec<_> = inputs.iter().map(|input| read(input.as_bytes())).collect();
    bindings.push(write(out.as_bytes()));
    let words: Vec<u64> = (0..WORDS as u64).collect();
    let launched = stream.launch_words(&large, one(), &bindings, &words);
    launched.unwrap();
    assert_eq!(stream.get(&out), [55 + 435]);
    // The same with types and metadata.
    let metadata = Metadata::new().input(&[4], &[1], 4).unwrap();
    let sum: u64 = metadata.words().iter().map(|word| u64::from(*word)).sum();
    let mut args = LaunchArgs::new().metadata(metadata);
    for input in &inputs {
        args = args.arg(read(input));
    }
    args = args.arg(write(&out));
    for scalar in words {
        args = args.arg(scalar);
    }
    stream.launch(&large, one(), args).unwrap();
    assert_eq!(stream.get(&out), [55 + 435 + sum]);
    // If scalars are smaller than a word, a word has several of them, or one and padding.
    let values = stream.put(&[7_u32; 4]);
    let (nowait, cubes) = (stream.nowait(), CubeCount::d1(2));
    let bindings = [update(values.as_bytes())];
    let launched = nowait.launch_words(&add_one, cubes, &bindings, &[4]);
    launched.unwrap();
    assert_eq!(stream.get(&values), [8; 4]);
}

/// A replay with more bindings and words than a message has room for. All words are in slots, in reverse order.
pub(crate) fn a_replay_takes_any_number_of_parameters_and_words(on: On) {
    let (_rig, client, stream) = on.start();
    let large = large(&client);
    let recording = stream
        .record(|recorder| {
            let formal = (0..INPUTS).map(|_| recorder.parameter::<u32>(1));
            let formal: Vec<_> = formal.collect::<Result<_, _>>()?;
            let mut bindings: Vec<_> = formal.iter().map(|input| read(input.as_bytes())).collect();
            let out = recorder.parameter::<u64>(1)?;
            bindings.push(write(out.as_bytes()));
            let words: Vec<_> = (0..WORDS as u32).rev().map(RecordedWord::Slot).collect();
            recorder.launch_words(&large, one(), &bindings, &words)
        })
        .unwrap();
    assert_eq!(recording.parameters(), INPUTS + 1);
    assert_eq!(recording.words(), WORDS);
    for round in 0..3 {
        let inputs = inputs(&stream, round..11 + round);
        let out = stream.empty::<u64>(1).unwrap();
        let mut bound: Vec<_> = inputs.iter().map(Handle::as_bytes).enumerate().collect();
        bound.push((INPUTS, out.as_bytes()));
        let round = u64::from(round);
        let words: Vec<u64> = (0..WORDS as u64).map(|word| word << round).collect();
        recording.replay_args(&stream, &bound, &words).unwrap();
        let expected = 55 + 11 * round + (435 << round);
        assert_eq!(stream.get(&out), [expected]);
    }
}

pub(crate) fn untyped_arguments_that_do_not_match_are_refused(on: On) {
    let (_rig, client, stream) = on.start();
    let transfer = transfer(&client);
    let bytes = stream.put(&[0_u8; 32]);
    let part = |range: std::ops::Range<usize>| bytes.slice(range).unwrap();
    let refused = |from: &Handle<u8>, to: (&Handle<u8>, Access), words: &[u64]| {
        let bindings = [read(from), bind(to.0, to.1)];
        let refused = error_text(stream.launch_words(&transfer, one(), &bindings, words));
        let words: Vec<_> = words.iter().copied().map(RecordedWord::Value).collect();
        let record = stream.record(|r| r.launch_words(&transfer, one(), &bindings, &words));
        assert_eq!(record.map(drop).unwrap_err().to_string(), refused);
        let why = refused.strip_prefix("`transfer` was not accepted: ");
        why.unwrap().to_owned()
    };
    let (front, back) = (part(0..16), part(16..32));
    for (from, to, access, words, why) in [
        (
            &front,
            &back,
            Access::Write,
            &[][..],
            "expected 1 word, got 0",
        ),
        (
            &front,
            &back,
            Access::Write,
            &[4, 4],
            "expected 1 word, got 2",
        ),
        (
            &part(1..17),
            &back,
            Access::Write,
            &[4],
            "binding `src` starts at byte 1, which is not a multiple of its element size of 4 bytes: slice at a multiple of 4, or copy the data to a new slice",
        ),
        (
            &part(0..15),
            &back,
            Access::Write,
            &[4],
            "binding `src` has 15 bytes, which are not a multiple of its element size of 4 bytes: pass whole elements",
        ),
        (
            &front,
            &back,
            Access::ReadWrite,
            &[4],
            "binding `dst` must be bound with `write`, got `update`: pass `write(&handle)`",
        ),
        (
            &front,
            &part(12..28),
            Access::Write,
            &[4],
            "bindings `src` and `dst` overlap in 4 bytes and one of them is written; copy one of them first",
        ),
    ] {
        assert_eq!(refused(from, (to, access), words), why);
    }
    let bindings = [read(&front)];
    let why = error_text(stream.launch_words(&transfer, one(), &bindings, &[4]));
    assert_eq!(
        why,
        "`transfer` was not accepted: expected 2 bindings, got 1"
    );
    // A typed launch takes no bytes in place of elements.
    let typed = stream.launch(&transfer, one(), (read(&front), write(&back), 4_u32));
    assert!(error_text(typed).contains("`src` is declared as u32, got elements of u8"));
}

/// `launch_with`: all arguments must be written, and no more; what is not complete is not submitted.
pub(crate) fn arguments_are_written_one_by_one(on: On) {
    let (_rig, client, stream) = on.start();
    let (large, add_one) = (large(&client), add_one(&client));
    let (inputs, out) = (inputs(&stream, 0..11), stream.empty::<u64>(1).unwrap());
    let words: Vec<u64> = (0..WORDS as u64).collect();
    let launched = stream.launch_with(&large, one(), |to| {
        assert!(to.words_in_place().is_none(), "they are on the heap");
        for input in &inputs {
            to.bytes(input.as_bytes(), Access::Read)?;
        }
        write(&out).write(to)?;
        to.words(&words)?;
        Ok(true)
    });
    assert!(launched.unwrap());
    assert_eq!(stream.get(&out), [55 + 435]);
    let values = stream.put(&[7_u32; 4]);
    let bytes = values.as_bytes();
    let launch = |bindings: usize, scalars: usize, complete: bool| {
        stream.launch_with(&add_one, CubeCount::d1(2), |to| {
            for _ in 0..bindings {
                to.bytes(bytes, Access::ReadWrite)?;
            }
            for _ in 0..scalars {
                4_u32.write(to)?;
            }
            Ok(complete)
        })
    };
    let errors = [(0, 1), (1, 0), (2, 1), (1, 2)].map(|(bindings, scalars)| {
        let error = error_text(launch(bindings, scalars, true));
        error.replace("`add_one` was not accepted: ", "")
    });
    let bindings = |given| format!("expected 1 binding, got {given}");
    let scalars = |given| format!("expected 1 scalar, got {given}");
    assert_eq!(errors, [bindings(0), scalars(0), bindings(2), scalars(2)]);
    assert!(!launch(1, 1, false).unwrap());
    let in_place = stream.launch_with(&add_one, CubeCount::d1(2), |to| {
        update(&values).write(to)?;
        to.words_in_place().unwrap()[0] = 4;
        Ok(true)
    });
    assert!(in_place.unwrap());
    assert_eq!(stream.get(&values), [8; 4], "it ran once");
}

pub(crate) fn half_precision_values_are_elements(on: On) {
    let (_rig, _, stream) = on.start();
    let values = [0.5, -2.0, 65504.0, f32::INFINITY];
    let (halves, brains) = (values.map(f16::from_f32), values.map(bf16::from_f32));
    let a = stream.put(&halves);
    let b = stream.put(&brains);
    assert_eq!((a.size(), b.size()), (8, 8));
    assert_eq!(stream.get(&a), halves);
    assert_eq!(stream.get(&b), brains);
    stream.fill(&a, f16::from_f32(1.5)).unwrap();
    assert_eq!(stream.get(&a), [f16::from_f32(1.5); 4]);
    let bits = stream.get(&a.cast::<u16>().unwrap());
    assert_eq!(bits, [0x3e00; 4]);
}

/// Needs: RustKernels.
pub(crate) fn kernels_take_half_precision_arguments(on: On) {
    let (_rig, client, stream) = on.start();
    let scale = Kernel::new("scale")
        .reads::<bf16>("src")
        .writes::<f16>("dst")
        .scalar::<u32>("unused")
        .scalar::<f16>("by")
        .native(|_, args| {
            let by = args.scalar::<f16>(1).to_f32();
            let (src, start) = (args.read::<bf16>(0), args.chunk_start(1));
            for (value, from) in args.chunk::<f16>(1).iter_mut().zip(&src[start..]) {
                *value = f16::from_f32(from.to_f32() * by);
            }
        });
    let scale = client.kernel(scale).unwrap();
    let src = stream.put(&[1.0, 2.0, 3.0].map(bf16::from_f32));
    let dst = stream.empty::<f16>(3).unwrap();
    let arguments = (read(&src), write(&dst), 0_u32, f16::from_f32(0.5));
    stream.launch(&scale, CubeCount::d1(2), arguments).unwrap();
    let expected = [0.5, 1.0, 1.5].map(f16::from_f32);
    assert_eq!(stream.get(&dst), expected);
}
