//! Assertions and prints: their texts, the threads and lines that they name, and what is kept of them.

use millstream::__kernel::call::{Definition, launch, program};
use millstream::ir::Program;
use millstream::prelude::*;
use millstream::report::{PRINTED_LINES_MAX, Printed};
use millstream::sim::Sim;
use millstream::{Cpu, CubeCount, Error, Kernel};
use rstest::rstest;

/// A way to run a kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    /// On the CPU, as plain Rust if the kernel has that form.
    Cpu,
    /// On the CPU, as a program.
    Columns,
    Sim,
}

impl Way {
    fn open(self) -> Device {
        match self {
            Self::Cpu | Self::Columns => Device::open(Cpu::default()).unwrap(),
            Self::Sim => Device::open(Sim::seed(3)).unwrap(),
        }
    }

    /// Launches a kernel with one axis.
    fn launch<D: Definition>(self, stream: &Stream, call: &D, threads: usize) -> Result<(), Error> {
        if self != Self::Columns {
            return launch(call, stream, threads.into());
        }
        let program = program::<D::Key>().unwrap();
        let kernel = Kernel::from_program(D::NAME, Program::Ssa(program).into()).unwrap();
        let kernel = stream.client().kernel(kernel.exclusive())?;
        let cubes = threads.div_ceil(D::THREADS[0] as usize) as u32;
        let launched = stream.launch_with(&kernel, CubeCount::d1(cubes), |writer| {
            call.write(threads.into(), writer)?;
            Ok(true)
        });
        launched.map(drop)
    }
}

/// Returns the place of the line that ends with a comment.
fn place_of(comment: &str) -> String {
    let text = include_str!("say.rs");
    let line = text.lines().position(|line| line.ends_with(comment));
    let line = line.unwrap_or_else(|| panic!("no line ends with {comment}"));
    format!("tests/rust_kernels/say.rs:{}", line + 1)
}

#[kernel]
fn positive(x: &mut [f32]) {
    let i = thread();
    debug_assert!(x[i] > 0.0, "x[{i}] is {:?} {:>6.2}", x[i], x[i]); // positive
    x[i] = 1.0 / x[i];
}

#[kernel]
fn small(x: &mut [f32]) {
    let i = thread();
    debug_assert!(x[i] <= 5.0 && i < 900); // small
    x[i] = 2.0;
}

#[kernel]
fn sorted(x: &mut [f32]) {
    let i = thread();
    let next = i + 1;
    if next < x.len() {
        debug_assert_ne!(x[i], x[next], "{i} and {next}"); // sorted
    }
    debug_assert_eq!(x[i], 0.5 * x[i] + 0.5 * x[i]);
}

#[kernel]
fn root(x: f32) -> f32 {
    debug_assert!(x >= 0.0, "{x}"); // root
    x.sqrt()
}

#[kernel]
fn roots(x: &mut [f32]) {
    let i = thread();
    x[i] = root(x[i]);
}

#[kernel]
fn times<const A: usize, const B: usize>(x: f32) -> f32 {
    x * (A * B) as f32
}

#[kernel]
fn generic(x: &mut [f32]) {
    let i = thread();
    debug_assert!(times::<2, 3>(x[i]) < 60.0, "{}, {i}", x[i]); // generic
}

/// Its assertion has more letters than the text of a program may have.
#[kernel]
#[rustfmt::skip]
fn long(x: &mut [f32]) {
    let the_number_of_this_thread_among_all_threads_of_the_launch = thread();
    debug_assert!(x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] + x[the_number_of_this_thread_among_all_threads_of_the_launch] < 60.0); // long
}

#[kernel(cube = 64)]
fn summed(x: &mut [f32]) {
    let part = shared::<f32, 64>();
    part[thread_in_cube()] = x[thread()];
    barrier();
    let sum = cube_sum(x[thread()]);
    debug_assert_eq!(sum, 1.0); // summed
    barrier();
    x[thread()] = part[63 - thread_in_cube()];
}

/// Runs a kernel over 128 numbers, of which number 70 is `wrong`, and returns the failure that the data has.
macro_rules! failure {
    ($way:expr, $wrong:expr, $kernel:ident) => {{
        let device = $way.open();
        let stream = device.new_stream();
        let mut values = vec![1.0_f32; 128];
        values
            .iter_mut()
            .zip(0_u8..)
            .for_each(|(value, i)| *value += f32::from(i) / 128.0);
        values[70] = $wrong;
        let mut x = stream.create(&values).unwrap();
        $way.launch(&stream, &$kernel(&mut x), 128).unwrap();
        let failed = stream.read(&x).wait();
        // Another task that reads it inherits the failure.
        $way.launch(&stream, &small(&mut x), 128).unwrap();
        assert!(stream.read(&x).wait().is_err());
        match failed {
            Err(Error::Failed(failure)) => failure.to_string(),
            other => panic!("{other:?}"),
        }
    }};
}

#[rstest]
fn failed_assertion_names_the_values_the_thread_and_the_line(
    #[values(Way::Cpu, Way::Columns, Way::Sim)] way: Way,
) {
    let cases = [
        (
            failure!(way, -2.0, positive),
            "`positive`",
            format!(
                "assertion `x[i] > 0.0` fails: x[70] is -2.0  -2.00, in thread 70 at {}",
                place_of("// positive")
            ),
        ),
        (
            failure!(way, 6.0, small),
            "`small`",
            format!(
                "assertion `x[i] <= 5.0 && i < 900` fails, in thread 70 at {}",
                place_of("// small")
            ),
        ),
        (
            failure!(way, 1.0 + 71.0 / 128.0, sorted),
            "`sorted`",
            format!(
                "assertion `x[i] != x[next]` fails: left is 1.5546875, right is 1.5546875: 70 and 71, in thread 70 at {}",
                place_of("// sorted")
            ),
        ),
        (
            failure!(way, 50.0, generic),
            "`generic`",
            format!(
                "assertion `times::<2, 3>(x[i]) < 60.0` fails: 50, 70, in thread 70 at {}",
                place_of("// generic")
            ),
        ),
        (
            failure!(way, 50.0, long),
            "`long`",
            format!("...` fails, in thread 70 at {}", place_of("// long")),
        ),
    ];
    for (failure, kernel, expected) in cases {
        assert!(
            failure.contains(kernel) && failure.contains(&expected),
            "{failure}\n{expected}"
        );
    }
}

/// A helper function does not know its thread as plain Rust; Rust may call it, too.
#[rstest]
fn failed_assertion_of_a_helper_function_names_its_line(
    #[values(Way::Cpu, Way::Columns, Way::Sim)] way: Way,
) {
    let failure = failure!(way, -4.0, roots);
    let thread = if way == Way::Cpu {
        ""
    } else {
        ", in thread 70"
    };
    let expected = format!(
        "`roots` failed: panicked with \"assertion `x >= 0.0` fails: -4{thread} at {}\"",
        place_of("// root")
    );
    assert_eq!(failure, expected);
    assert!(std::panic::catch_unwind(|| root(-1.0)).is_err());
    assert_eq!(root(4.0), 2.0);
}

#[kernel]
fn far(i: usize) -> usize {
    if i == 70 { i + 100 } else { i }
}

#[kernel]
fn stray(x: &mut [f32]) {
    let i = thread();
    x[far(i)] = 2.0; // stray
}

/// It is the line of the access, and not that of the helper function that computes its index.
#[rstest]
fn access_out_of_bounds_behind_a_helper_function_names_its_line(
    #[values(Way::Cpu, Way::Columns, Way::Sim)] way: Way,
) {
    let failure = failure!(way, 1.0, stray);
    assert!(failure.contains(&place_of("// stray")), "{failure}");
}

/// The sum of each cube of `summed` is wrong, so each thread fails.
#[rstest]
fn failed_assertion_between_barriers_fails_the_launch(#[values(Way::Cpu, Way::Sim)] way: Way) {
    let failure = failure!(way, 0.0, summed);
    assert!(
        failure.contains("assertion `sum == 1.0` fails: left is "),
        "{failure}"
    );
    assert!(failure.contains(&place_of("// summed")), "{failure}");
}

/// Has two axes.
#[kernel]
fn rows(x: &mut [f32]) {
    let [row, column] = position();
    debug_assert!(row != 2 || column != 3, "here"); // rows
    x[thread()] = 1.0;
}

#[rstest]
fn thread_of_two_axes_is_named_by_its_position(#[values(Way::Cpu, Way::Sim)] way: Way) {
    let device = way.open();
    let stream = device.new_stream();
    let mut x = stream.create(&[0.0; 12]).unwrap();
    rows(&mut x).launch(&stream, [3, 4]).unwrap();
    let failure = stream.read(&x).wait().unwrap_err().to_string();
    let expected = format!("fails: here, in thread [2, 3] at {}", place_of("// rows"));
    assert!(failure.contains(&expected), "{failure}");
}

/// Does nothing else, so that threads print in any order.
#[kernel]
fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
    let i = thread();
    y[i] += a * x[i];
    if i % 50 == 17 {
        println!("x = {}, y = {:>6.2}, {i:#x} {{}}", x[i], y[i]); // saxpy
    }
}

#[kernel]
fn shown(x: u32) -> u32 {
    print!("helper {x}"); // shown
    x + 1
}

#[kernel]
fn looped(n: u32, x: &mut [u32]) {
    let i = thread();
    for step in 0..n {
        match x[i] {
            0 => println!("step {step}"), // zero
            1 => {}
            other => println!("{other:?} at step {}", step), // other
        }
        x[i] = shown(x[i]);
    }
}

#[kernel(cube = 32)]
fn cubes_print(x: &mut [u32]) {
    let (i, mine) = (thread(), thread_in_cube());
    let part = shared::<u32, 32>();
    part[mine] = x[i];
    barrier();
    let neighbour = part[31 - mine];
    if mine % 16 == 0 {
        println!("{neighbour} of cube {}", cube()); // cubes
    }
    barrier();
    x[i] = neighbour;
}

#[kernel]
fn loud(x: &mut [u32]) {
    let i = thread();
    x[i] = 1;
    println!("{i}"); // loud
}

/// Takes what a stream has printed.
fn printed(stream: &Stream) -> Vec<String> {
    let printed = stream.printed().wait().unwrap();
    printed.iter().map(ToString::to_string).collect()
}

#[rstest]
fn lines_have_their_kernel_thread_place_and_text(
    #[values(Way::Cpu, Way::Columns, Way::Sim)] way: Way,
) {
    let device = way.open();
    let stream = device.new_stream();
    let x: Vec<f32> = (0_u8..200).map(f32::from).collect();
    let (x, mut y) = (
        stream.create(&x).unwrap(),
        stream.create(&[0.5; 200]).unwrap(),
    );
    way.launch(&stream, &saxpy(3.0, &x, &mut y), 200).unwrap();
    let place = place_of("// saxpy");
    let line = |i: u32| {
        let (x, y) = (i as f32, 0.5 + 3.0 * i as f32);
        format!("saxpy thread {i} ({place}): x = {x}, y = {y:>6.2}, {i:#x} {{}}")
    };
    assert_eq!(printed(&stream), [17, 67, 117, 167].map(line));
    assert_eq!(printed(&stream), [""; 0]);
    assert_eq!(stream.read(&y).wait().unwrap()[10], 30.5);
}

#[rstest]
fn lines_of_loops_branches_and_helper_functions_are_in_order(
    #[values(Way::Cpu, Way::Columns, Way::Sim)] way: Way,
) {
    let device = way.open();
    let stream = device.new_stream();
    let mut x = stream.create(&[0, 1]).unwrap();
    way.launch(&stream, &looped(3, &mut x), 2).unwrap();
    let lines = stream.printed().wait().unwrap();
    let texts: Vec<_> = lines
        .iter()
        .map(|line| (line.thread.as_ref().unwrap().0[0], &*line.text))
        .collect();
    let expected = [
        (0, "step 0"),
        (0, "helper 0"),
        (0, "helper 1"),
        (0, "2 at step 2"),
        (0, "helper 2"),
        (1, "helper 1"),
        (1, "2 at step 1"),
        (1, "helper 2"),
        (1, "3 at step 2"),
        (1, "helper 3"),
    ];
    assert_eq!(texts, expected);
    assert_eq!(
        format!("{}:{}", lines[1].file, lines[1].line),
        place_of("// shown")
    );
    assert_eq!(
        format!("{}:{}", lines[3].file, lines[3].line),
        place_of("// other")
    );
    // Rust prints itself.
    assert_eq!(shown(7), 8);
}

#[rstest]
fn threads_that_work_together_print(#[values(Way::Cpu, Way::Sim)] way: Way) {
    let device = way.open();
    let stream = device.new_stream();
    let values: Vec<u32> = (0..96).collect();
    let mut x = stream.create(&values).unwrap();
    cubes_print(&mut x).launch(&stream, 96).unwrap();
    let place = place_of("// cubes");
    let line = |(thread, neighbour): (u32, u32)| {
        format!(
            "cubes_print thread {thread} ({place}): {neighbour} of cube {}",
            thread / 32
        )
    };
    let all = [(0, 31), (16, 15), (32, 63), (48, 47), (64, 95), (80, 79)];
    assert_eq!(printed(&stream), all.map(line));
}

#[rstest]
fn lines_of_two_streams_are_apart_and_those_of_tasks_in_order(
    #[values(Way::Cpu, Way::Columns, Way::Sim)] way: Way,
) {
    let device = way.open();
    let client = device.new_client();
    let streams = [client.new_stream(), client.new_stream()];
    let mut data = streams
        .each_ref()
        .map(|stream| stream.create(&[0_u32; 3000]).unwrap());
    for threads in [2, 1, 3] {
        for (stream, x) in streams.iter().zip(&mut data) {
            let more = usize::from(std::ptr::eq(stream, &streams[1]));
            way.launch(stream, &loud(x), threads + more).unwrap();
        }
    }
    let texts = |stream: &Stream| -> Vec<String> {
        let lines = stream.printed().wait().unwrap();
        lines.into_iter().map(|line| line.text).collect()
    };
    assert_eq!(texts(&streams[0]), ["0", "1", "0", "0", "1", "2"]);
    assert_eq!(
        texts(&streams[1]),
        ["0", "1", "2", "0", "1", "0", "1", "2", "3"]
    );
}

#[rstest]
fn a_task_has_its_first_lines_and_the_number_of_the_others(
    #[values(Way::Cpu, Way::Columns, Way::Sim)] way: Way,
) {
    let device = way.open();
    let stream = device.new_stream();
    let mut x = stream.create(&[0_u32; 3000]).unwrap();
    way.launch(&stream, &loud(&mut x), 3000).unwrap();
    let lines = stream.printed().wait().unwrap();
    assert_eq!(lines.len(), PRINTED_LINES_MAX + 1);
    let number = |line: &Printed| line.thread.as_ref().unwrap().0[0];
    assert!(lines[..PRINTED_LINES_MAX].iter().map(number).eq(0..1000));
    assert_eq!(
        lines[PRINTED_LINES_MAX].to_string(),
        "loud: ... and 2000 more lines"
    );
}

/// I12.
#[test]
fn device_keeps_the_newest_lines_that_no_call_returned() {
    let device = Way::Cpu.open();
    let stream = device.new_stream();
    let mut x = stream.create(&[0_u32; 1000]).unwrap();
    for _ in 0..12 {
        loud(&mut x).launch_each(&stream).unwrap();
    }
    let lines = printed(&stream);
    assert_eq!(lines.len(), 10_001);
    assert_eq!(
        lines[0],
        "... 2000 older lines were dropped before a call of `printed`"
    );
}

/// A kernel prints, and fails afterwards.
#[kernel]
fn fails(x: &mut [u32]) {
    let i = thread();
    println!("before {i}");
    debug_assert!(x[i] == 0);
    println!("behind {i}");
}

#[rstest]
fn lines_of_a_launch_that_fails_are_kept(#[values(Way::Columns, Way::Sim)] way: Way) {
    let device = way.open();
    let stream = device.new_stream();
    let mut x = stream.create(&[1_u32]).unwrap();
    way.launch(&stream, &fails(&mut x), 1).unwrap();
    assert!(stream.read(&x).wait().is_err());
    let lines = stream.printed().wait().unwrap();
    assert!(lines.len() == 1 && lines[0].text == "before 0", "{lines:?}");
}

#[rstest]
fn recordings_print_at_each_replay(#[values(Way::Cpu, Way::Sim)] way: Way) {
    let device = way.open();
    let stream = device.new_stream();
    let mut x = stream.create(&[0_u32; 2]).unwrap();
    let mut recorder = stream.recorder();
    loud(&mut x).record(&mut recorder, 2).unwrap();
    loud(&mut x).record(&mut recorder, 1).unwrap();
    let recording = recorder.finish().unwrap();
    recording.replay(&stream).unwrap();
    recording.replay(&stream).unwrap();
    let lines = stream.printed().wait().unwrap();
    let texts: Vec<_> = lines.iter().map(|line| &*line.text).collect();
    assert_eq!(texts, ["0", "1", "0", "0", "1", "0"]);
}

/// The CPU's columns take its threads as rows and columns.
#[kernel]
fn divided(x: &mut [u32]) {
    let i = thread();
    let (row, column) = (i / 16, i % 16);
    x[i] = (row + column) as u32;
    if column == 3 && row % 4 == 1 {
        println!("{row} {column} {}", x[i]);
    }
}

#[rstest]
fn numbers_of_threads_are_not_those_of_columns(
    #[values(Way::Cpu, Way::Columns, Way::Sim)] way: Way,
) {
    let device = way.open();
    let stream = device.new_stream();
    let mut x = stream.create(&[0_u32; 300]).unwrap();
    way.launch(&stream, &divided(&mut x), 300).unwrap();
    let lines = stream.printed().wait().unwrap();
    let lines: Vec<_> = lines
        .iter()
        .map(|line| (line.thread.as_ref().unwrap().0[0], &*line.text))
        .collect();
    let expected = [
        (19, "1 3 4"),
        (83, "5 3 8"),
        (147, "9 3 12"),
        (211, "13 3 16"),
        (275, "17 3 20"),
    ];
    assert_eq!(lines, expected);
}
