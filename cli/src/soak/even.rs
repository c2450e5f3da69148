//! Threads of equal clients, all with the same work: how alike are they served?

use millstream::CubeCount;
use millstream_testkit::{Contents, Count, Dice, End, Kernels, Pattern, Wanted, add, answer};

use super::worker::Load;

/// Equal clients beside the mixed load.
pub(crate) const EVEN_CLIENTS: usize = 4;
/// Launches for each of which is waited together.
const LAUNCHES: u32 = 8;
/// Elements of the buffer that is worked on.
const ELEMENTS: usize = 1024;
/// One wait in this many reads the data and checks it.
const READ_EVERY: u64 = 32;

/// Works until the soak ends; how often it was done.
pub(crate) fn work(load: &Load, dice: &mut Dice, until: impl Fn() -> bool) -> u64 {
    let mut done = 0;
    while !until() && load.is_running() {
        // A lost device, or an injected fault: from the start.
        if life(load, dice, &until, &mut done) == Err(End::Wrong) {
            break;
        }
    }
    done
}

fn life(
    load: &Load,
    dice: &mut Dice,
    until: &impl Fn() -> bool,
    done: &mut u64,
) -> Result<(), End> {
    let ground = &load.ground;
    let refused = |error: millstream::Error| ground.refused("even", &error);
    let client = load.device.client_builder().name("even").build();
    let kernels = Kernels::native(&client).map_err(refused)?;
    let stream = client.new_stream();
    let mut pattern = Pattern { base: 1, stride: 1 };
    let buffer = stream
        .create(&pattern.elements(ELEMENTS))
        .map_err(refused)?;
    while !until() {
        for _ in 0..LAUNCHES {
            add(&stream, &kernels, &buffer, 1, CubeCount::single()).map_err(refused)?;
        }
        pattern.base = pattern.base.wrapping_add(LAUNCHES);
        if done.is_multiple_of(READ_EVERY) {
            let wanted = Wanted {
                what: "even read",
                contents: Contents::defined(ELEMENTS, pattern, ground.excuses),
                excuses: ground.excuses,
            };
            let read = answer(ground, dice, "even read", stream.read(&buffer))?;
            wanted.check(&ground.tally, &read)?;
            if read.is_err() {
                return Ok(());
            }
        } else {
            let synced = answer(ground, dice, "even sync", stream.sync())?;
            synced.map_err(refused)?;
        }
        *done += 1;
        ground.tally.one(Count::Even);
    }
    Ok(())
}
