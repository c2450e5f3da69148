//! Programs of the IR, run by the interpreter.

use millstream_cpu::Cpu;

use crate::rig::{Q0, Rig};

/// Adds buffers 0 and 1 into buffer 2, over one axis.
const ADD: &str = "
    nest outer 1 inner 0 words 1
    buffer 0 f32 read  buffer 1 f32 read  buffer 2 f32 write
    access 0 = buffer 0 [1]  access 1 = buffer 1 [1]  access 2 = buffer 2 [1]
    %0 f32 = load 0  %1 f32 = load 1  %2 f32 = add %0 %1
    store inner 2 %2";

/// Adds up the sums of both.
const SUM: &str = "
    nest outer 0 inner 1 words 1
    buffer 0 f32 read  buffer 1 f32 read  buffer 2 f32 write
    access 0 = buffer 0 [1]  access 1 = buffer 1 [1]  access 2 = buffer 2 [0]
    %0 f32 = load 0  %1 f32 = load 1  %2 f32 = add %0 %1  %3 f32 = reduce sum %2
    store outer 2 %3";

fn floats(count: usize) -> Vec<u32> {
    (0..count).map(|index| (index as f32).to_bits()).collect()
}

#[test]
fn nest_runs_over_its_bindings_and_in_place() {
    let mut rig = Rig::new(Cpu::default().queues(1).threads(3));
    let kernel = rig.nest(ADD);
    // The second is large enough to be shared with the team.
    for count in [100, 3_000_000] {
        let (a, b) = (rig.slice_of(&floats(count)), rig.slice_of(&floats(count)));
        let out = rig.slice_of(&vec![0; count]);
        let words = [count as u64];
        rig.launch(Q0, &kernel, 1, &[a.read(), b.read(), out.write()], &words);
        rig.launch(Q0, &kernel, 1, &[out.read(), b.read(), out.write()], &words);
        let found = rig.read(Q0, &out).unwrap();
        let expected = |index: usize| (3.0 * index as f32).to_bits();
        let both = found.iter().enumerate();
        assert!(
            both.into_iter()
                .all(|(index, bits)| *bits == expected(index))
        );
    }
}

#[test]
fn launch_that_leaves_its_bindings_fails_and_the_next_one_runs_i7() {
    let mut rig = Rig::new(Cpu::default().queues(1).threads(1));
    let kernel = rig.nest(ADD);
    let (a, out) = (rig.slice_of(&floats(8)), rig.slice_of(&[7; 8]));
    let bindings = [a.read(), a.read(), out.write()];
    rig.launch(Q0, &kernel, 1, &bindings, &[9]);
    let failure = rig.read(Q0, &out).unwrap_err().to_string();
    assert!(
        failure.contains("reaches elements 0 to 8 of binding 0"),
        "{failure}"
    );
    rig.launch(Q0, &kernel, 1, &bindings, &[8]);
    assert_eq!(rig.read(Q0, &out).unwrap()[3], 6_f32.to_bits());
}

#[test]
fn sum_is_the_same_on_any_number_of_threads() {
    let count = 1_000_003;
    let sums = [1, 2, 3].map(|threads| {
        let mut rig = Rig::new(Cpu::default().queues(1).threads(threads));
        let kernel = rig.nest(SUM);
        let values: Vec<u32> = (0..count)
            .map(|index| (0.1 + index as f32 / 7.0).to_bits())
            .collect();
        let (a, out) = (rig.slice_of(&values), rig.slice_of(&[0]));
        rig.launch(
            Q0,
            &kernel,
            1,
            &[a.read(), a.read(), out.write()],
            &[count as u64],
        );
        rig.read(Q0, &out).unwrap()[0]
    });
    assert_eq!(sums[0], sums[1]);
    assert_eq!(sums[0], sums[2]);
}
