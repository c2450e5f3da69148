//! Random recordings: a replay has the effect of its tasks submitted one by one (I1, I2).

use std::cell::Cell;

use millstream::stream::RecordedWord::{Slot, Value};
use millstream::{Handle, Recorder, read, update, write};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::parameters::packed;
use crate::program::infallible_kernels;
use crate::support::*;

const LEN: usize = 8;

/// A task of a random recording, on three parameters (0 to 2) and a temporary (3).
#[derive(Clone, Copy, Debug)]
enum Op {
    /// Sets all elements to the word of the step.
    Set(usize),
    /// Adds the word of the step to all elements.
    Add(usize),
    Mix(usize, usize),
    Copy(usize, usize),
}

/// A recording: each step with the value of its word and whether the word is a slot, and the start of each parameter in
/// its buffer at the replay.
#[derive(Clone, Debug)]
struct Random {
    steps: Vec<(Op, u32, bool)>,
    starts: [usize; 3],
}

fn random() -> impl Strategy<Value = Random> {
    let pair = || (0_usize..4, 1_usize..4).prop_map(|(from, by)| (from, (from + by) % 4));
    let op = prop_oneof![
        (0_usize..4).prop_map(Op::Set),
        (0_usize..4).prop_map(Op::Add),
        pair().prop_map(|(from, to)| Op::Mix(from, to)),
        pair().prop_map(|(from, to)| Op::Copy(from, to)),
    ];
    let steps = prop::collection::vec((op, any::<u32>(), any::<bool>()), 1..8);
    // Some parameters overlap.
    let starts = prop::array::uniform3(prop::sample::select(vec![0, LEN, 2 * LEN, 2 * LEN + 3]));
    (steps, starts).prop_map(|(steps, starts)| Random { steps, starts })
}

/// The number of elements of the buffer that the bound handles are views of.
const BUFFER: usize = 4 * LEN;

/// I1, I2: a replay has the same effect as its tasks submitted one by one, and is refused exactly if one of them is.
pub(crate) fn replay_equals_its_tasks_submitted_one_by_one_i1_i2(on: On) {
    let (_rig, client, stream) = on.start();
    let (kernels, set) = (infallible_kernels(&client).list(), set(&client));
    let [add, mix] = [&kernels[0], &kernels[1]];
    let word = |value: u32| packed(value, LEN as u32);
    let (replayed, refused) = (Cell::new(0), Cell::new(0));
    let check = |random: Random| {
        let mut words = Vec::new();
        let mut formal = Vec::new();
        let record = |recorder: &mut Recorder<'_>| {
            for _ in 0..3 {
                formal.push(recorder.parameter::<u32>(LEN)?);
            }
            let temporary = recorder.empty::<u32>(LEN)?;
            recorder.fill(&temporary, 0)?;
            let at = |place: usize| formal.get(place).unwrap_or(&temporary);
            for (op, value, is_slot) in &random.steps {
                let word = match is_slot {
                    true => {
                        words.push(word(*value));
                        Slot(words.len() as u32 - 1)
                    }
                    false => Value(word(*value)),
                };
                let mut launch = |kernel, bindings: &[_], word| {
                    recorder.launch_words(kernel, one(), bindings, &[word])
                };
                match *op {
                    Op::Set(to) => launch(&set, &[write(at(to).as_bytes())], word)?,
                    Op::Add(to) => launch(add, &[update(at(to).as_bytes())], word)?,
                    Op::Mix(from, to) => {
                        let bindings = [read(at(from).as_bytes()), update(at(to).as_bytes())];
                        launch(mix, &bindings, Value(LEN as u64))?;
                    }
                    Op::Copy(from, to) => recorder.copy(at(from), at(to))?,
                }
            }
            Ok(())
        };
        let recording = stream.record(record).unwrap();
        words.truncate(recording.words());
        let data: Vec<u32> = (0..BUFFER as u32).collect();
        let (replayed_buffer, direct_buffer) = (stream.put(&data), stream.put(&data));
        let view = |buffer: &Handle<u32>, nth: usize| {
            let start = random.starts[nth];
            buffer.slice(start..start + LEN).unwrap()
        };
        let views: Vec<_> = (0..3).map(|nth| view(&replayed_buffer, nth)).collect();
        let known = |nth: usize| recording.parameter_of(&formal[nth]);
        let bound: Vec<_> = (0..3)
            .filter_map(|nth| Some((known(nth)?, views[nth].as_bytes())))
            .collect();
        let outcome = recording.replay_args(&stream, &bound, &words);
        // The same tasks one by one, on the other buffer.
        let temporary = stream.empty::<u32>(LEN).unwrap();
        stream.fill(&temporary, 0).unwrap();
        let at = |place: usize| match place {
            3 => temporary.clone(),
            nth => view(&direct_buffer, nth),
        };
        let n = LEN as u32;
        let one_by_one = random
            .steps
            .iter()
            .try_for_each(|(op, value, _)| match *op {
                Op::Set(to) => stream.launch(&set, one(), (write(&at(to)), *value, n)),
                Op::Add(to) => stream.launch(add, one(), (update(&at(to)), *value, n)),
                Op::Mix(from, to) => {
                    stream.launch(mix, one(), (read(&at(from)), update(&at(to)), n))
                }
                Op::Copy(from, to) => stream.copy(&at(from), &at(to)),
            });
        let same = outcome.is_ok() == one_by_one.is_ok();
        prop_assert!(same, "{outcome:?} {one_by_one:?}");
        if outcome.is_err() {
            refused.update(|count| count + 1);
            return Ok(());
        }
        replayed.update(|count| count + 1);
        let [got, expected] = [&replayed_buffer, &direct_buffer].map(|buffer| stream.get(buffer));
        prop_assert_eq!(got, expected);
        Ok(())
    };
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(40)
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::default());
    let mut runner = TestRunner::new_with_rng(config, rng);
    runner.run(&random(), check).unwrap();
    let counts = (replayed.get(), refused.get());
    assert!(counts.0 > 10 && counts.1 > 2, "{counts:?}");
}
