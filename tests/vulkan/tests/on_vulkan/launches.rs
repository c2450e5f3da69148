//! Launches: cube counts that a kernel writes on the device, counts beyond the limit of one dispatch, and parameter
//! blocks beyond the size of push constants.

use std::sync::Arc;

use millstream::ir::ssa::{Axis, Builder, Function, Position};
use millstream::ir::{DType, Program};
use millstream::{Access, CubeCount, Handle, Kernel, LaunchArgs, bind, update, write};
use millstream_conformance::Subject;
use rstest::rstest;

use crate::gpu::{Buffers, Gpu};
use crate::subject::OnVulkan;

/// A function that each cube of one thread runs: it adds 1 to the element of its index, and writes the total counts of
/// cubes after these elements.
fn places() -> Function {
    let k = Builder::new("places", [1, 1, 1]);
    let (visits, counts) = (
        k.update("visits", DType::U32),
        k.write("counts", DType::U32),
    );
    let [x, y, z] = Axis::ALL.map(|axis| k.position(Position::Cube, axis));
    let [width, height, depth] = Axis::ALL.map(|axis| k.position(Position::Cubes, axis));
    let at = x + (y + z * height) * width;
    visits.set(at, visits.get(at) + k.constant(1).cast(DType::U32));
    k.when(at.eq(width * height * depth - 1), || {
        for (nth, count) in [width, height, depth].into_iter().enumerate() {
            counts.set(nth as i64, count.cast(DType::U32));
        }
    });
    k.build().unwrap()
}

/// A function of one thread that writes three counts.
fn counts_writer() -> Function {
    let k = Builder::new("counts", [1, 1, 1]);
    let counts = k.write("counts", DType::U32);
    for at in 0..3 {
        let count = k.scalar(format!("n{at}"), DType::U32);
        counts.set(at, count);
    }
    k.build().unwrap()
}

/// Runs `places`. Returns the number of cubes of each index, and the counts that the last of them saw.
fn run_places(gpu: &Gpu, total: usize, count: CubeCount) -> (Vec<u32>, Vec<u32>) {
    let kernel = gpu.kernel(places());
    let visits: Handle<u32> = gpu.stream.create(&vec![0; total]).unwrap();
    let seen: Handle<u32> = gpu.stream.create(&[u32::MAX; 3]).unwrap();
    let arguments = (update(&visits), write(&seen));
    gpu.stream.launch(&kernel, count, arguments).unwrap();
    let visits = gpu.stream.read(&visits).wait().unwrap();
    (visits, gpu.stream.read(&seen).wait().unwrap())
}

#[rstest]
fn cube_counts_that_a_kernel_wrote_are_those_that_run(
    #[values([1, 1, 1], [5, 3, 2], [700, 1, 1])] counts: [u32; 3],
    // The counts begin in the middle of a slice.
    #[values(0, 1, 5)] offset: usize,
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    let Some(gpu) = Gpu::open(buffers) else {
        return;
    };
    let room: Handle<u32> = gpu.stream.create(&[9; 16]).unwrap();
    let view = room.slice(offset..offset + 3).unwrap();
    let writer = gpu.kernel(counts_writer());
    let [x, y, z] = counts;
    let arguments = (write(&view), x, y, z);
    gpu.stream.launch(&writer, 1, arguments).unwrap();
    let total = counts.iter().product::<u32>() as usize;
    let (visits, seen) = run_places(&gpu, total, CubeCount::from(&view));
    assert_eq!(visits, vec![1; total]);
    assert_eq!(seen, counts);
}

/// A later task overwrites the counts: the launch before has read its own.
#[test]
fn counts_of_several_launches_are_read_in_order() {
    let Some(gpu) = Gpu::open(Buffers::Descriptors) else {
        return;
    };
    let (writer, kernel) = (gpu.kernel(counts_writer()), gpu.kernel(places()));
    let view: Handle<u32> = gpu.stream.create(&[0; 3]).unwrap();
    let seen: Handle<u32> = gpu.stream.create(&[0; 3]).unwrap();
    let visits: Handle<u32> = gpu.stream.create(&[0; 20]).unwrap();
    for count in [3_u32, 0, 20, 0, 11] {
        let arguments = (write(&view), count, 1_u32, 1_u32);
        gpu.stream.launch(&writer, 1, arguments).unwrap();
        let arguments = (update(&visits), write(&seen));
        gpu.stream.launch(&kernel, &view, arguments).unwrap();
    }
    let visits = gpu.stream.read(&visits).wait().unwrap();
    let expected = (0..20).map(|at| [3, 20, 11].iter().filter(|count| at < **count).count() as u32);
    assert_eq!(visits, expected.collect::<Vec<_>>());
    assert_eq!(gpu.stream.read(&seen).wait().unwrap(), [11, 1, 1]);
}

/// Vulkan leaves counts beyond the limits of the device undefined: such a launch does nothing, and later ones run.
#[rstest]
fn launch_does_nothing_if_a_cube_count_of_the_device_exceeds_the_limits(
    #[values([u32::MAX, 1, 1], [1, u32::MAX, 1], [1, 1, u32::MAX])] counts: [u32; 3],
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    let Some(gpu) = Gpu::open(buffers) else {
        return;
    };
    let exceeding: Handle<u32> = gpu.stream.create(&counts).unwrap();
    let (visits, seen) = run_places(&gpu, 20, CubeCount::from(&exceeding));
    assert_eq!((visits, seen), (vec![0; 20], vec![u32::MAX; 3]));
    let fitting: Handle<u32> = gpu.stream.create(&[20, 1, 1]).unwrap();
    let (visits, seen) = run_places(&gpu, 20, CubeCount::from(&fitting));
    assert_eq!((visits, seen), (vec![1; 20], vec![20, 1, 1]));
    // What was launched stays as it was.
    assert_eq!(gpu.stream.read(&exceeding).wait().unwrap(), counts);
}

/// Every cube of several dispatches runs once, at its place in the launch, and sees the counts of the launch.
#[rstest]
#[case::x([70_000, 1, 1])]
#[case::y([1, 65_536, 1])]
#[case::z([2, 1, 70_001])]
#[case::two_axes([65_537, 1, 2])]
fn a_launch_beyond_the_limit_of_a_dispatch_is_one_grid(
    #[case] counts: [u32; 3],
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    let Some(gpu) = Gpu::open(buffers) else {
        return;
    };
    let total = counts.iter().product::<u32>() as usize;
    let [x, y, z] = counts;
    let (visits, seen) = run_places(&gpu, total, CubeCount::d3(x, y, z));
    assert_eq!(visits.iter().position(|visits| *visits != 1), None);
    assert_eq!(seen, counts);
}

/// A module of a user does not know the place of a dispatch in its launch.
#[test]
fn a_launch_of_spirv_beyond_the_limit_of_a_dispatch_is_refused() {
    let Some(gpu) = Gpu::open(Buffers::Addresses) else {
        return;
    };
    let kernel = Kernel::new("set")
        .writes::<u32>("dst")
        .scalar::<u32>("value")
        .scalar::<u32>("n");
    let kernel = gpu.client.kernel(OnVulkan.twin(kernel)).unwrap();
    let values: Handle<u32> = gpu.stream.create(&[1; 4]).unwrap();
    let most = gpu.client.properties().max_cube_count[2];
    let arguments = (write(&values), 5_u32, 4_u32);
    let count = CubeCount::d3(1, 1, most);
    gpu.stream.launch(&kernel, count, arguments).unwrap();
    let error = gpu.stream.read(&values).wait().unwrap_err().to_string();
    assert!(error.contains("in a launch of SPIR-V"), "{error}");
    // The data is defined again by a launch within the limits.
    let arguments = (write(&values), 5_u32, 4_u32);
    gpu.stream.launch(&kernel, 1, arguments).unwrap();
    assert_eq!(gpu.stream.read(&values).wait().unwrap(), [5; 4]);
}

/// A function with `words` launch words that stores their weighted sum at the place that the last one is.
fn sum_of_words(words: usize) -> Function {
    let k = Builder::new("words", [1, 1, 1]);
    let out = k.update("out", DType::U64);
    let values: Vec<_> = (0..words)
        .map(|nth| k.scalar(format!("w{nth}"), DType::U64))
        .collect();
    let zero = k.constant(0).cast(DType::U64);
    let sum = values.iter().zip(1_i64..).fold(zero, |sum, (word, by)| {
        sum + *word * k.constant(by).cast(DType::U64)
    });
    out.set(values[words - 1].cast(DType::I64), sum);
    drop(values);
    k.build().unwrap()
}

/// Each launch of a batch has its own block. Blocks of 255 to 4,096 bytes are on both sides of the sizes of push
/// constants, and some hundred launches need more than one piece of memory for them.
#[rstest]
fn every_launch_of_a_batch_has_its_own_words(
    #[values(15, 16, 31, 32, 33, 100, 500)] words: usize,
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    const LAUNCHES: usize = 120;
    let Some(gpu) = Gpu::open(buffers) else {
        return;
    };
    let kernel = gpu.kernel(sum_of_words(words));
    let out: Handle<u64> = gpu.stream.create(&[0; LAUNCHES]).unwrap();
    let word = |launch: usize, nth: usize| match nth + 1 == words {
        true => launch as u64,
        false => (launch as u64) << 32 | (nth as u64 * 77),
    };
    for launch in 0..LAUNCHES {
        let mut arguments = LaunchArgs::new().arg(bind(&out, Access::ReadWrite));
        for nth in 0..words {
            arguments = arguments.arg(word(launch, nth));
        }
        gpu.stream.launch(&kernel, 1, arguments).unwrap();
    }
    let expected = (0..LAUNCHES).map(|launch| {
        (0..words).fold(0_u64, |sum, nth| {
            sum.wrapping_add(word(launch, nth).wrapping_mul(nth as u64 + 1))
        })
    });
    let expected: Vec<u64> = expected.collect();
    assert_eq!(gpu.stream.read(&out).wait().unwrap(), expected);
}

/// A block that holds the counts and is not pushed as a whole.
#[rstest]
fn a_large_parameter_block_ends_with_the_cube_counts(
    #[values(false, true)] is_dynamic: bool,
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    let Some(gpu) = Gpu::open(buffers) else {
        return;
    };
    let k = Builder::new("wide_counts", [1, 1, 1]);
    let out = k.write("out", DType::I64);
    let words: Vec<_> = (0..40)
        .map(|nth| k.scalar(format!("w{nth}"), DType::I64))
        .collect();
    out.set(k.cube(), k.cubes() * 1000 + words[39]);
    drop(words);
    let kernel = Kernel::from_program("tested", Arc::new(Program::Ssa(k.build().unwrap())));
    let kernel = gpu.client.kernel(kernel.unwrap()).unwrap();
    let counts: Handle<u32> = gpu.stream.create(&[6, 1, 1]).unwrap();
    let out: Handle<i64> = gpu.stream.create(&[0; 6]).unwrap();
    let mut arguments = LaunchArgs::new().arg(write(&out));
    for word in 0..40_i64 {
        arguments = arguments.arg(word);
    }
    let count = match is_dynamic {
        true => CubeCount::from(&counts),
        false => CubeCount::d1(6),
    };
    gpu.stream.launch(&kernel, count, arguments).unwrap();
    assert_eq!(gpu.stream.read(&out).wait().unwrap(), [6_039; 6]);
}
