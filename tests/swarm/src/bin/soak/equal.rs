//! The work of one thread of the equal clients. All of them do the same work, so the numbers of rounds that they
//! complete show how fairly the device serves equal clients.

use millstream::CubeCount;
use millstream_testkit::{Contents, Count, Dice, End, Expected, Pattern, add, answer};

use crate::worker::{Load, kernels};

/// The number of equal clients, in addition to the mixed load.
pub(crate) const EQUAL_CLIENTS: usize = 4;
/// The number of launches of a round, before it waits.
const LAUNCHES: u32 = 8;
/// The number of elements of the buffer that the launches update.
const ELEMENTS: usize = 1024;
/// One round in this number reads and checks the data. The others only wait for the launches.
const READ_EVERY: u64 = 32;

/// Works until the soak ends, and returns the number of completed rounds.
pub(crate) fn work(load: &Load, dice: &mut Dice, has_ended: impl Fn() -> bool) -> u64 {
    let mut done = 0;
    while !has_ended() && load.is_running() {
        // A lost device or an injected fault ends this client, and the loop goes on with a new one.
        if client_rounds(load, dice, &has_ended, &mut done) == Err(End::Wrong) {
            break;
        }
    }
    done
}

/// Runs rounds with one client until the soak ends, a task fails or the device is lost.
fn client_rounds(
    load: &Load,
    dice: &mut Dice,
    has_ended: &impl Fn() -> bool,
    done: &mut u64,
) -> Result<(), End> {
    let config = &load.config;
    let refused = |error: millstream::Error| config.refused("equal client", &error);
    let client = load.device.client_builder().name("equal").build();
    let kernels = kernels(&client).map_err(refused)?;
    let stream = client.new_stream();
    let mut pattern = Pattern { base: 1, stride: 1 };
    let buffer = stream
        .create(&pattern.elements(ELEMENTS))
        .map_err(refused)?;
    while !has_ended() {
        for _ in 0..LAUNCHES {
            add(&stream, &kernels, &buffer, 1, CubeCount::single()).map_err(refused)?;
        }
        pattern.base = pattern.base.wrapping_add(LAUNCHES);
        if done.is_multiple_of(READ_EVERY) {
            let expected = Expected {
                what: "read of an equal client",
                contents: Contents::defined(ELEMENTS, pattern, config.allowed),
                allowed: config.allowed,
            };
            let read = answer(
                config,
                dice,
                "read of an equal client",
                stream.read(&buffer),
            )?;
            expected.check(&config.tally, &read)?;
            if read.is_err() {
                return Ok(());
            }
        } else {
            let synced = answer(config, dice, "sync of an equal client", stream.sync())?;
            synced.map_err(refused)?;
        }
        *done += 1;
        config.tally.increment(Count::EqualClientTasks);
    }
    Ok(())
}
