//! Recordings as secondary command buffers: a replay does what its tasks would do, whatever was replayed before.

use millstream::{
    CubeCount, Error, Handle, Recorder, Recording, ScalarParameter, Stream, read, write,
};

use crate::barriers::{LEN, Rig, next};
use crate::gpu::{Buffers, Gpu};

/// More replays with the same arguments than any state of a recording needs.
const REPLAYS: usize = 4;

impl Rig {
    /// Records a launch of `next`.
    fn record(
        &self,
        recorder: &mut Recorder<'_>,
        from: &Handle<i32>,
        to: &Handle<i32>,
    ) -> Result<(), Error> {
        let arguments = (read(from), write(to), from.len() as i64);
        recorder.launch(&self.next, CubeCount::d1(2), arguments)
    }
}

/// The tasks have a barrier where they conflict, and a replay one more only if it conflicts with what came before it.
#[test]
fn replays_have_the_barriers_of_their_tasks_i1() {
    let Some(rig) = Rig::open(1) else { return };
    let (stream, b) = (&rig.gpu.stream, &rig.buffers);
    let record = |pairs: [[usize; 2]; 4]| {
        let record = |recorder: &mut Recorder<'_>| {
            pairs
                .iter()
                .try_for_each(|[from, to]| rig.record(recorder, &b[*from], &b[*to]))
        };
        stream.record(record).unwrap()
    };
    let chain = record([[0, 1], [1, 2], [2, 3], [3, 4]]);
    let apart = record([[0, 5], [0, 6], [0, 7], [0, 7]]);
    let [low, high] = [0..LEN / 2, LEN / 2..LEN].map(|half| b[1].slice(half).unwrap());
    let [one, other] = [low, high].map(|half| {
        let record = |recorder: &mut Recorder<'_>| {
            let parts = (0..4).map(|at| half.slice(8 * at..8 * (at + 1)).unwrap());
            let from = b[0].slice(..8).unwrap();
            parts
                .into_iter()
                .try_for_each(|part| rig.record(recorder, &from, &part))
        };
        stream.record(record).unwrap()
    });
    let barriers = |recording: &Recording| rig.barriers_of(|| recording.replay(stream).unwrap());
    barriers(&chain);
    for replay in 0..REPLAYS {
        assert_eq!(barriers(&chain), 4, "{replay}");
    }
    assert_eq!(
        barriers(&apart),
        1,
        "two of the tasks write the same buffer"
    );
    for replay in 0..REPLAYS {
        // The first task conflicts with that of the replay before, but not with its last one.
        assert!(barriers(&apart) <= 2, "{replay}");
    }
    for replay in 0..REPLAYS {
        let both = rig.barriers_of(|| {
            one.replay(stream).unwrap();
            other.replay(stream).unwrap();
        });
        // Both are recorded on the same buffer.
        assert!(both <= 2, "{both} barriers, {replay}");
    }
    assert_eq!(stream.read(&b[4]).wait().unwrap(), [4; LEN]);
    assert_eq!(stream.read(&b[7]).wait().unwrap(), [1; LEN]);
}

/// A recording of a chain over its parameters, a temporary and a bound buffer.
struct Chain {
    recording: Recording,
    from: Handle<i32>,
    to: Handle<i32>,
    n: ScalarParameter<i64>,
}

impl Chain {
    fn record(rig: &Rig, kept: &Handle<i32>) -> Self {
        let stream = &rig.gpu.stream;
        let mut recorder = stream.recorder();
        let [from, to] = [(); 2].map(|()| recorder.parameter::<i32>(LEN).unwrap());
        let between = recorder.empty::<i32>(LEN).unwrap();
        let n = recorder.scalar::<i64>();
        rig.record(&mut recorder, &from, &between).unwrap();
        let arguments = (read(&between), write(&to), &n);
        recorder
            .launch(&rig.next, CubeCount::d1(2), arguments)
            .unwrap();
        recorder.copy(&to, kept).unwrap();
        recorder.fill(&to.slice(1..2).unwrap(), 40).unwrap();
        rig.record(&mut recorder, kept, &from).unwrap();
        Self {
            recording: recorder.finish().unwrap(),
            from,
            to,
            n,
        }
    }

    fn replay(&self, stream: &Stream, from: &Handle<i32>, to: &Handle<i32>, n: usize) {
        let arguments = self.recording.bind(&self.from, from).bind(&self.to, to);
        arguments.set(&self.n, n as i64).replay(stream).unwrap();
    }

    /// What a replay does, on the host.
    fn expect(from: &mut [i32], to: &mut [i32], kept: &mut [i32], n: usize) {
        for at in 0..n {
            to[at] = from[at] + 2;
        }
        kept.copy_from_slice(to);
        to[1] = 40;
        for (from, kept) in from.iter_mut().zip(kept) {
            *from = *kept + 1;
        }
    }
}

/// Replays with arguments that come back or not, on two queues, between other tasks on the same buffers.
#[test]
fn replays_with_changing_arguments_do_what_their_tasks_do_i1_i2() {
    const ROUNDS: u32 = 1601;
    let Some(rig) = Rig::open(2) else { return };
    let streams = [rig.gpu.client.new_stream(), rig.gpu.client.new_stream()];
    let b = &rig.buffers;
    let chain = Chain::record(&rig, &b[7]);
    let mut expected = vec![[0_i32; LEN]; b.len()];
    let mut random = 1_u32;
    let mut below = |limit: usize| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) as usize % limit
    };
    for round in 0..ROUNDS {
        let stream = &streams[below(2)];
        // Few sets of arguments, then many.
        let (pairs, lengths) = [(1, 1), (2, 1), (3, 2), (6, 8)][below(4)];
        let (from, to) = (below(pairs), below(pairs));
        let to = if from == to { 6 } else { to };
        let n = LEN - 8 * below(lengths);
        chain.replay(stream, &b[from], &b[to], n);
        let [mut old, mut new, mut kept] = [from, to, 7].map(|at| expected[at]);
        Chain::expect(&mut old, &mut new, &mut kept, n);
        expected[from] = old;
        expected[to] = new;
        expected[7] = kept;
        if round % 3 == 0 {
            stream.copy(&b[to], &b[from]).unwrap();
            expected[from] = expected[to];
        }
        if round % 16 == 0 {
            for (buffer, expected) in b.iter().zip(&expected) {
                assert_eq!(
                    stream.read(buffer).wait().unwrap(),
                    expected,
                    "round {round}"
                );
            }
            // Elements that differ, so that an element that is not overwritten is noticed, and small ones.
            for (nth, (buffer, expected)) in b.iter().zip(&mut expected).enumerate() {
                expected.fill(3 * nth as i32);
                stream.fill(buffer, 3 * nth as i32).unwrap();
            }
        }
    }
}

/// A later page may have the number, the size and the address of a freed one, but not its buffer.
#[test]
fn a_new_page_is_not_taken_for_a_freed_one_i4() {
    /// Beyond the size of pages that slices share.
    const LARGE: usize = 17 << 20;
    let Some(rig) = Rig::open(1) else { return };
    let (client, stream) = (&rig.gpu.client, &rig.gpu.stream);
    let chain = Chain::record(&rig, &rig.buffers[7]);
    let to = &rig.buffers[0];
    for round in 0..REPLAYS as i32 {
        let large = stream.empty::<i32>(LARGE).unwrap();
        let from = large.slice(..LEN).unwrap();
        stream.fill(&from, round).unwrap();
        for replay in 0..REPLAYS as i32 {
            chain.replay(stream, &from, to, LEN);
            assert_eq!(stream.read(to).wait().unwrap()[0], round + 3 * replay + 2);
        }
        drop((from, large));
        stream.sync().wait().unwrap();
        assert!(
            client.memory_cleanup().wait().unwrap() > 0,
            "the page is freed"
        );
    }
}

/// What a replay needs is kept for it: the recording and its kernel are dropped while replays are in flight.
#[test]
fn dropped_recordings_live_until_their_replays_have_passed_i4() {
    let Some(gpu) = Gpu::open(Buffers::Addresses) else {
        return;
    };
    let stream = &gpu.stream;
    let values = stream.create(&[0_i32; LEN]).unwrap();
    let other = stream.create(&[0_i32; LEN]).unwrap();
    for _ in 0..20 {
        let kernel = gpu.kernel(next());
        let step = |recorder: &mut Recorder<'_>, from: &Handle<i32>, to: &Handle<i32>| {
            let arguments = (read(from), write(to), LEN as i64);
            recorder.launch(&kernel, CubeCount::d1(2), arguments)
        };
        let record = |recorder: &mut Recorder<'_>| {
            (0..2).try_for_each(|_| {
                step(recorder, &values, &other)?;
                step(recorder, &other, &values)
            })
        };
        let recording = stream.record(record).unwrap();
        for _ in 0..REPLAYS {
            recording.replay(stream).unwrap();
        }
    }
    let expected = [20 * 4 * REPLAYS as i32; LEN];
    assert_eq!(stream.read(&values).wait().unwrap(), expected);
}
