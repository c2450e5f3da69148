//! Callbacks and host functions that submit: they cannot wait for room that other user code gives back, and still lose
//! nothing (I6, I8, I12).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use millstream::{DeviceOptions, Error, Handle, Stream, error::Full};

use crate::support::*;

/// Limits that are far too small for the work that these tests submit.
fn small_limits() -> DeviceOptions {
    let options = DeviceOptions::default().mailbox_capacity(16).max_held(4);
    options.max_jobs(4).max_upload_bytes(2_000)
}

/// Work that submits itself again from callbacks.
struct Chain {
    stream: Stream,
    values: Handle<u32>,
    links: AtomicU32,
    errors: Mutex<Vec<Error>>,
}

impl Chain {
    fn new(stream: Stream) -> Arc<Self> {
        let values = stream.put(&[0_u32; 300]);
        Arc::new(Self {
            stream,
            values,
            links: AtomicU32::new(0),
            errors: Mutex::default(),
        })
    }

    /// Submits tasks of all kinds, and a callback that submits the next link.
    fn link(self: &Arc<Self>, left: u32) -> Result<(), Error> {
        let made = self.stream.create(&[left; 300])?;
        self.stream.copy(&made, &self.values)?;
        self.stream.host("between", (), || ())?;
        self.stream.drop_after(made)?;
        let next = self.clone();
        let answer = self.stream.read(&self.values);
        let called = answer.on_ready(move |answer| {
            next.links.fetch_add(1, Ordering::Relaxed);
            // The data is not checked: other chains of the same stream may have written in between.
            let went_on = answer.and_then(|_| match left {
                0 => Ok(()),
                left => next.link(left - 1),
            });
            next.errors.lock().unwrap().extend(went_on.err());
        });
        called.map_err(|returned| returned.error)
    }
}

/// I6, I8, I12: no task that a callback submits is lost, however much other work is in flight and however small the
/// limits are.
pub(crate) fn callbacks_that_submit_lose_nothing(on: On) {
    const CHAINS: u32 = 24;
    const LINKS: u32 = 40;
    let rig = on.open_with(small_limits());
    let client = rig.client();
    let streams: Vec<_> = (0..3).map(|_| client.new_stream()).collect();
    let chains: Vec<_> = (0..CHAINS)
        .map(|index| Chain::new(streams[index as usize % streams.len()].clone()))
        .collect();
    // This thread waits for room; the callbacks that run meanwhile cannot.
    for chain in &chains {
        chain.link(LINKS - 1).unwrap();
    }
    for chain in &chains {
        while chain.links.load(Ordering::Relaxed) < LINKS {
            rig.device.drain();
            let errors = chain.errors.lock().unwrap();
            assert!(errors.is_empty(), "{errors:?}");
        }
    }
    // All credit is given back. Other threads do that for the last callbacks, so it may take a moment.
    streams[0].host("more", (), || ()).unwrap();
    rig.device.drain();
}

/// I6, I8: the same for readbacks, whose requests are in one sequence.
pub(crate) fn callbacks_that_read_into_one_sequence_lose_nothing(on: On) {
    const READS: u32 = 300;
    let (rig, client, stream) = on.start_with(small_limits());
    let other = client.new_stream();
    let values = stream.put(&[7_u32]);
    let (sender, mut readbacks) = millstream::stream::readbacks(READS as usize * 3);
    let requests = Arc::new(AtomicU32::new(0));
    for number in 0..READS {
        let captured = (sender.clone(), other.clone(), values.clone());
        let requests = requests.clone();
        let answer = stream.read(&values);
        let called = answer.on_ready(move |_| {
            let (sender, stream, values) = captured;
            for _ in 0..2 {
                sender.read(&stream, &values, number).unwrap();
                requests.fetch_add(1, Ordering::Relaxed);
            }
        });
        called.map_err(|returned| returned.error).unwrap();
        sender.read(&stream, &values, number).unwrap();
    }
    while requests.load(Ordering::Relaxed) < READS * 2 {
        rig.device.drain();
    }
    drop(sender);
    let all: Vec<_> = std::iter::from_fn(|| readbacks.wait_next()).collect();
    assert_eq!(all.len(), READS as usize * 3);
    for readback in all {
        assert_eq!(readback.elements.unwrap(), [7]);
    }
}

/// I12: user code on threads of the runtime may go beyond the limits, but only up to the headroom; the error names the
/// limit.
pub(crate) fn user_code_may_exceed_the_limits_only_up_to_the_headroom(on: On) {
    let options = small_limits().callback_headroom(6);
    let (rig, client, stream) = on.start_with(options.callback_upload_headroom(1_000));
    let host = client.new_stream();
    let (uploads, other) = (client.new_stream(), rig.client().new_stream());
    let (values, guard) = on.put_held(&other, &[0_u8; 1_000]);
    let (sender, received) = mpsc::channel();
    let (mine, inner) = (values.clone(), stream.clone());
    let submits = move || {
        let outcomes = [
            (0..20).find_map(|_| inner.fill(&mine, 1).err()),
            inner.nowait().fill(&mine, 1).err(),
            inner.create(&[1_u8]).err(),
            (0..20).find_map(|_| uploads.write(&mine, &[2; 1_000]).err()),
        ];
        sender.send(outcomes.map(Option::unwrap)).unwrap();
    };
    host.host("submits", (), submits).unwrap();
    host.drain();
    let [tasks, nowait, create, bytes] = received.recv().unwrap();
    let (held, limit) = (10, 4);
    for error in [tasks, nowait, create] {
        assert_eq!(no_room(&error), Some(Full::Stream { held, limit }));
        assert_eq!(error.retry_after(), None);
        assert_eq!(
            error.to_string(),
            "the stream, or its client, holds 10 of at most 4 tasks (`max_held`, `max_tasks`), and this thread, which the runtime needs, \
             cannot wait for room; submit from a thread of your own, or raise `callback_headroom`"
        );
    }
    let (requested, in_use, limit) = (1_000, 3_000, 2_000);
    let uploads = Full::Uploads {
        requested,
        in_use,
        limit,
    };
    assert_eq!(no_room(&bytes), Some(uploads));
    // Other threads still get `Busy`.
    full(stream.nowait().fill(&values, 2));
    drop(guard);
    stream.fill(&values, 9).unwrap();
    assert_eq!(stream.get(&values), [9; 1_000]);
}

/// I8: no other thread pumps, so the user code takes the messages from the mailbox itself.
/// Needs: Driven.
pub(crate) fn nowait_calls_in_user_code_find_room_in_the_mailbox(on: On) {
    let (_rig, client, stream) = on.start_with(small_limits().mailbox_capacity(4));
    let inner = client.new_stream().nowait();
    let values = stream.put(&[0_u32]);
    let (sender, received) = mpsc::channel();
    let mine = values.clone();
    let fills = move || {
        let refused = (1..=1_000).find_map(|value| inner.fill(&mine, value).err());
        sender.send(refused).unwrap();
    };
    stream.host("fills", (), fills).unwrap();
    stream.drain();
    assert!(received.recv().unwrap().is_none());
    assert_eq!(stream.get(&values), [1_000]);
}
