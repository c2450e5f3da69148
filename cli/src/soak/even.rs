//! Threads of equal clients, all with the same work: how alike are they served?

use super::asks::{self, End, Wanted};
use super::dice::Dice;
use super::model::{Expected, Pattern};
use super::session::{Kernels, add};
use super::tally::Count;
use super::worker::Ground;

/// Equal clients beside the mixed load.
pub(crate) const EVEN_CLIENTS: usize = 4;
/// Launches for each of which is waited together.
const LAUNCHES: u32 = 8;
/// Elements of the buffer that is worked on.
const ELEMENTS: usize = 1024;
/// Of so many waits one reads the data and checks it.
const READ_EVERY: u64 = 32;

/// Works until the soak ends; how often it was done.
pub(crate) fn work(ground: &Ground, dice: &mut Dice, until: impl Fn() -> bool) -> u64 {
    let mut done = 0;
    while !until() && ground.is_running() {
        // A lost device, or an injected fault: from the start.
        if life(ground, dice, &until, &mut done) == Err(End::Wrong) {
            break;
        }
    }
    done
}

fn life(
    ground: &Ground,
    dice: &mut Dice,
    until: &impl Fn() -> bool,
    done: &mut u64,
) -> Result<(), End> {
    let refused = |error: millstream::Error| ground.refused("even", &error);
    let client = ground.device.client_builder().name("even").build();
    let kernels = Kernels::new(&client).map_err(refused)?;
    let stream = client.new_stream();
    let mut pattern = Pattern { base: 1, stride: 1 };
    let buffer = stream
        .create(&pattern.elements(ELEMENTS))
        .map_err(refused)?;
    while !until() {
        for _ in 0..LAUNCHES {
            add(&stream, &kernels, &buffer, 1, 1).map_err(refused)?;
        }
        pattern.base = pattern.base.wrapping_add(LAUNCHES);
        if done.is_multiple_of(READ_EVERY) {
            let wanted = Wanted {
                what: "even read",
                expected: Expected::defined(pattern, ground.excuses),
                start: 0,
                len: ELEMENTS,
            };
            let answer = asks::answer(&ground.tally, dice, "even read", stream.read(&buffer))?;
            wanted.check(&ground.tally, &answer)?;
            if answer.is_err() {
                return Ok(());
            }
        } else {
            let synced = asks::answer(&ground.tally, dice, "even sync", stream.sync())?;
            synced.map_err(refused)?;
        }
        *done += 1;
        ground.tally.one(Count::Even);
    }
    Ok(())
}
