//! The texts of argument errors: what is wrong with which argument, and what to do.

use millstream::stream::RecordedWord;
use millstream::{
    Cpu, CubeCount, Device, DeviceProperties, Error, Kernel, Metadata, TensorSpec, read, write,
};

use crate::altered::{Altered, Change};
use crate::support::*;

#[test]
fn argument_errors_name_the_argument_and_the_remedy() {
    let small = |of: &mut DeviceProperties| of.max_cube_count = [8, 4, 2];
    let kind = Altered::new(Cpu::default().threads(1), Change::Properties(small));
    let device = Device::open(kind).unwrap();
    let client = device.new_client();
    let stream = client.new_stream();
    let kernel = Kernel::new("k")
        .reads::<f32>("x")
        .writes::<f32>("y")
        .scalar::<u32>("n")
        .native(|_, _| ());
    let kernel = client.kernel(kernel).unwrap();
    let (x, y) = (stream.put(&[1_f32; 4]), stream.put(&[1_f32; 4]));
    let (numbers, counts) = (stream.put(&[1_u32; 4]), stream.put(&[1_u32; 2]));
    let launch = |count: CubeCount| stream.launch(&kernel, count, (read(&x), write(&y), 4_u32));
    let mut recorder = stream.recorder();
    let (unused, value) = (recorder.scalar::<u32>(), recorder.scalar::<u32>());
    let bindings = [read(x.as_bytes()), write(y.as_bytes())];
    let far = [RecordedWord::Slot(1 << 24)];
    let slot = recorder.launch_words(&kernel, 1, &bindings, &far);
    let foreign = stream.recorder().scalar::<u32>();
    let recorded = recorder.launch(&kernel, 1, (read(&x), write(&y), &foreign));
    recorder
        .launch(&kernel, 1, (read(&x), write(&y), &value))
        .unwrap();
    let recording = recorder.finish().unwrap();
    let set = |scalar, value| recording.set(scalar, value);
    let wide = [u64::MAX / 2, 4];
    let metadata = Metadata::new().input(&[1 << 32], &[1], 1);
    for (refused, why) in [
        (
            launch(CubeCount::d2(8, 5)),
            "`k` was not accepted: expected at most 4 cubes along axis y, got 5; use more threads per cube, or several launches",
        ),
        (
            launch(CubeCount::Dynamic(counts)),
            "`k` was not accepted: a dynamic cube count must be 3 `u32` (x, y, z), got a handle of 2",
        ),
        (
            stream.launch(&kernel, 1, (read(&numbers), write(&y), 4_u32)),
            "`k` was not accepted: binding `x` is declared as f32, got elements of u32: pass a handle of f32, or convert one with `Handle::cast`",
        ),
        (
            slot,
            "`k` was not accepted: word slot 16777216 is beyond the last of 16777216, counted from 0; number slots from 0 without gaps",
        ),
        (
            recorded,
            "`k` was not accepted: scalar parameter 0 belongs to another recorder; use one that `Recorder::scalar` returned for this recording",
        ),
        (
            set(&unused, 1).replay(&stream),
            "`replay` was not accepted: scalar parameter 0 is taken by no launch of the recording; set only parameters that a launch takes",
        ),
        (
            set(&value, 1).set(&value, 2).replay(&stream),
            "`replay` was not accepted: scalar parameter 1 is set twice; set it once",
        ),
        (
            recording.replay(&stream),
            "`replay` was not accepted: scalar parameter 1 has no value; set one with `ReplayArgs::set`",
        ),
        (
            metadata.map(drop).map_err(Error::from),
            "4294967296 does not fit in the 32 bits of a metadata word; pass it as a `u64` scalar",
        ),
        (
            stream
                .empty_tensors::<f32>(&[TensorSpec::dense(&wide)])
                .map(drop),
            "`tensor` was not accepted: a layout of shape [9223372036854775807, 4] with elements of 4 bytes reaches beyond 2^64 bytes; use smaller lengths or strides",
        ),
    ] {
        assert_eq!(error_text(refused), why);
    }
    assert_eq!(stream.get(&y), [1_f32; 4], "a refused launch ran");
}
