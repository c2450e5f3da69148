//! A short program that uses most of the backend: two streams on two queues, hazards between them, kernels, copies,
//! fills and readbacks. Every answer must be the correct data or an error.

use millstream_actors::Device;
use millstream_client::arguments::{CubeCount, read, update, write};
use millstream_protocol::Error;

use crate::support::*;

const LEN: usize = 3000;

/// Runs the program once and asserts that all data that it reads back is correct. Returns the last error, if any.
pub(crate) fn run(device: &Device) -> Result<(), Error> {
    let client = device.new_client();
    let (fill, saxpy) = (client.kernel(fill())?, client.kernel(saxpy())?);
    let (one, other) = (client.new_stream(), client.new_stream());
    let cubes = || CubeCount::cover(LEN, 256);
    let filled = one.empty::<u32>(LEN)?;
    one.launch(&fill, cubes(), (write(&filled), 9_u32, LEN as u32))?;
    // Two hazards between the streams: the copy reads after the kernel's write, and the fill writes after that read.
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
    let mut failure = None;
    let mut check = |correct: Result<bool, Error>| match correct {
        Ok(correct) => assert!(correct, "the program read back wrong data"),
        Err(error) => failure = Some(error),
    };
    check(results.0.map(|copy| copy == [9; LEN]));
    check(results.1.map(|filled| filled == [4; LEN]));
    check(results.2.map(|x| x == [5.5; LEN]));
    check(results.3.map(|y| y == [4.0; LEN]));
    failure.map_or(Ok(()), Err)
}
