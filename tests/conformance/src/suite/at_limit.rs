//! Hard limits of clients that wait at them (I8).

use std::time::{Duration, Instant};

use crate::support::*;
use millstream::{Error, Stream, device::AtLimit, error::Full, error::MemoryError};

/// I8: requests of a client that waits at its limit all succeed, however many come at once: on threads, as futures, with
/// uploads. A request that has memory and needs a little more goes first, so requests do not wait for each other.
/// Needs: Threads.
pub(crate) fn requests_of_a_client_that_waits_at_its_limit_all_succeed_i8(on: On) {
    const BYTES: usize = 100_000;
    let rig = on.open();
    let builder = rig.device.client_builder().hard_limit(350_000);
    let builder = builder.max_upload_bytes(BYTES as u64);
    let client = builder.at_limit(AtLimit::Wait).build();
    let request = |number: u8| {
        let stream = client.new_stream();
        let data = vec![number; BYTES];
        let ready = |stream: &Stream| stream.create(&data);
        let values = match number % 3 {
            0 => stream.put(&data),
            1 => stream.create_owned(data).unwrap(),
            _ => pollster::block_on(stream.when_ready(ready)).unwrap(),
        };
        let small = match number % 2 {
            0 => stream.empty::<u8>(100).unwrap(),
            _ => pollster::block_on(stream.when_ready(|stream| stream.empty::<u8>(100))).unwrap(),
        };
        let end = values.slice(BYTES - 100..).unwrap();
        stream.copy(&end, &small).unwrap();
        assert_eq!(stream.get(&small), [number; 100]);
    };
    let request = &request;
    std::thread::scope(|scope| {
        for number in 0..32 {
            scope.spawn(move || request(number));
        }
    });
    // All memory has returned.
    drop(client.new_stream().empty::<u8>(350_000).unwrap());
}

/// I8: a request above the whole limit, and one that live handles leave no room for now, are two errors. A call that
/// waits ends at the deadline of its stream, so a thread that holds the handles itself gets out.
pub(crate) fn request_too_large_for_ever_and_one_too_large_now_are_two_errors_i8(on: On) {
    let rig = on.open();
    for at_limit in [AtLimit::Fail, AtLimit::Wait] {
        let builder = rig.device.client_builder().name("small").hard_limit(1_000);
        let stream = builder.at_limit(at_limit).build().new_stream();
        let over = stream.empty::<u8>(1_001).unwrap_err();
        assert_eq!(
            over.to_string(),
            "client `small` requested 1001 B, more than its hard limit of 1000 B; request less, or raise `hard_limit`"
        );
        let held = stream.empty::<u8>(600).unwrap();
        let soon = Instant::now() + Duration::from_millis(20);
        let calls = [
            stream.with_deadline(soon).empty::<u8>(600),
            stream.nowait().empty::<u8>(600),
        ];
        for refused in calls.map(Result::unwrap_err) {
            let is_expected = match at_limit {
                AtLimit::Fail => matches!(refused, Error::Memory(MemoryError::Limit { .. })),
                AtLimit::Wait => {
                    matches!(&refused, Error::Busy { what } if matches!(what, Full::Memory { .. }))
                }
            };
            assert!(is_expected, "{refused}");
        }
        drop(held);
        stream.drain();
        drop(stream.empty::<u8>(1_000).unwrap());
    }
}
