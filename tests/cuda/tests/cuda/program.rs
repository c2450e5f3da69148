//! A short program that uses all there is: two streams on two queues, hazards between them, a kernel, copies, fills
//! and readbacks. Every answer must be right, or say why not.

use millstream_actors::Device;
use millstream_client::arguments::{CubeCount, read, update, write};
use millstream_protocol::error::Error;

use crate::support::*;

const LEN: usize = 3000;

/// Runs it once. What is answered is right.
pub(crate) fn run(device: &Device) -> Result<(), Error> {
    let client = device.new_client();
    let (fill, saxpy) = (client.kernel(fill())?, client.kernel(saxpy())?);
    let (one, other) = (client.new_stream(), client.new_stream());
    let cubes = || CubeCount::cover(LEN, 256);
    let filled = one.empty::<u32>(LEN)?;
    one.launch(&fill, cubes(), (write(&filled), 9_u32, LEN as u32))?;
    // The other stream reads what the first writes, and the first then writes what the other reads.
    let copy = other.empty::<u32>(LEN)?;
    other.copy(&filled, &copy)?;
    one.fill(&filled, 4)?;
    let x = other.create(&vec![1.5_f32; LEN])?;
    let y = one.create(&vec![1.0_f32; LEN])?;
    other.launch(&saxpy, cubes(), (read(&x), update(&y), 2.0_f32, LEN as u32))?;
    one.launch(&saxpy, cubes(), (read(&y), update(&x), 1.0_f32, LEN as u32))?;
    let answers = (
        other.read(&copy),
        one.read(&filled),
        other.read(&x),
        one.read(&y),
    );
    let (mut copy, mut filled, mut x, mut y) = answers;
    let results = (
        copy.wait_timeout(PATIENCE),
        filled.wait_timeout(PATIENCE),
        x.wait_timeout(PATIENCE),
        y.wait_timeout(PATIENCE),
    );
    let mut failed = None;
    let mut must = |right: Result<bool, Error>| match right {
        Ok(right) => assert!(right, "wrong data"),
        Err(error) => failed = Some(error),
    };
    must(results.0.map(|copy| copy == [9; LEN]));
    must(results.1.map(|filled| filled == [4; LEN]));
    must(results.2.map(|x| x == [5.5; LEN]));
    must(results.3.map(|y| y == [4.0; LEN]));
    failed.map_or(Ok(()), Err)
}
