//! The number of cubes of a launch.

use millstream_protocol::LaunchCount;

use crate::handle::Handle;

/// The number of cubes (blocks, workgroups) that a launch runs, in x, y and z.
///
/// A count that contains a zero is a valid launch of no cubes. Such a launch reads and writes nothing: it does not heal
/// poisoned data, and passes no failure on.
#[derive(Clone, Debug)]
pub enum CubeCount {
    /// A count that is known when the launch is submitted.
    Static(u32, u32, u32),
    /// A count that the device reads from three `u32` when the launch starts. The launch reads the handle, and must not
    /// write it.
    ///
    /// Since only the device knows the count, such a launch heals data that a failure at run time poisoned (a panic of
    /// a kernel), if the count is not zero. It does not heal data of a task that failed without running (no memory,
    /// cancelled, a failed input, a host function that panicked): overwrite that with a copy, a fill or a launch with a
    /// static count.
    Dynamic(Handle<u32>),
}

impl CubeCount {
    /// One cube.
    pub const fn single() -> Self {
        CubeCount::Static(1, 1, 1)
    }

    /// `x` cubes in a row.
    pub const fn d1(x: u32) -> Self {
        CubeCount::Static(x, 1, 1)
    }

    /// `x` by `y` cubes.
    pub const fn d2(x: u32, y: u32) -> Self {
        CubeCount::Static(x, y, 1)
    }

    /// `x` by `y` by `z` cubes.
    pub const fn d3(x: u32, y: u32, z: u32) -> Self {
        CubeCount::Static(x, y, z)
    }

    /// Enough cubes in a row to cover `elements`, at `per_cube` elements each; no cubes for no elements.
    /// A `per_cube` of 0 counts as 1. More than `u32::MAX` cubes are spread over y.
    ///
    /// ```
    /// use millstream_client::arguments::CubeCount;
    /// assert!(matches!(CubeCount::cover(1000, 256), CubeCount::Static(4, 1, 1)));
    /// assert!(matches!(CubeCount::cover(0, 256), CubeCount::Static(0, 1, 1)));
    /// ```
    pub const fn cover(elements: usize, per_cube: usize) -> Self {
        let cubes = elements.div_ceil(if per_cube == 0 { 1 } else { per_cube });
        if cubes <= u32::MAX as usize {
            return CubeCount::Static(cubes as u32, 1, 1);
        }
        let rows = cubes.div_ceil(u32::MAX as usize);
        CubeCount::Static(cubes.div_ceil(rows) as u32, rows as u32, 1)
    }

    /// Returns the count as a task has it.
    #[inline(always)]
    pub(crate) fn as_launched(&self) -> LaunchCount {
        match *self {
            CubeCount::Static(x, y, z) => LaunchCount::Static([x, y, z]),
            CubeCount::Dynamic(_) => LaunchCount::Dynamic,
        }
    }
}

/// A count in x.
impl From<u32> for CubeCount {
    fn from(x: u32) -> Self {
        Self::d1(x)
    }
}

/// A count in x and y.
impl From<[u32; 2]> for CubeCount {
    fn from([x, y]: [u32; 2]) -> Self {
        Self::d2(x, y)
    }
}

/// A count in x, y and z.
impl From<[u32; 3]> for CubeCount {
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self::d3(x, y, z)
    }
}

/// A count in x and y.
impl From<(u32, u32)> for CubeCount {
    fn from((x, y): (u32, u32)) -> Self {
        Self::d2(x, y)
    }
}

/// A count in x, y and z.
impl From<(u32, u32, u32)> for CubeCount {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self::d3(x, y, z)
    }
}

/// Clones the count, so that it can be used more than once.
impl From<&CubeCount> for CubeCount {
    #[inline]
    fn from(count: &CubeCount) -> Self {
        count.clone()
    }
}

/// A count that the device reads from the handle.
impl From<&Handle<u32>> for CubeCount {
    fn from(three: &Handle<u32>) -> Self {
        Self::Dynamic(three.clone())
    }
}
