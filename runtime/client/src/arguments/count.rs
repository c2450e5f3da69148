//! How many cubes run.

use crate::handle::Handle;

/// How many cubes (blocks, workgroups) a launch runs, in x, y and z.
///
/// A count with a zero in it is a valid launch of no cubes. Such a launch reads and writes nothing: it heals no failed data, and
/// no failure passes through it.
#[derive(Clone, Debug)]
pub enum CubeCount {
    /// Known when the launch is submitted.
    Static(u32, u32, u32),
    /// Read on the device, when the launch starts, from three `u32`. This is a `Read` of the handle, which the launch must not
    /// write.
    ///
    /// As only the device knows the count, such a launch heals what failed while it ran (a panic of a kernel), if the count is
    /// not zero. Data that failed without running (no memory, a cancelled task, an input that failed, a host function that
    /// panicked) is not healed by it: write it by a copy, a fill or a launch with a known count.
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

    /// As many cubes in a row as cover `elements` with `per_cube` each; no cube for no elements.
    /// A `per_cube` of zero counts as one; more than `u32::MAX` cubes are spread over y.
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

    /// Enough cubes of `per_cube` elements in each dimension to cover `elements`.
    pub const fn cover_3d(elements: [u32; 3], per_cube: [u32; 3]) -> Self {
        const fn cover(elements: u32, per_cube: u32) -> u32 {
            elements.div_ceil(if per_cube == 0 { 1 } else { per_cube })
        }
        CubeCount::Static(
            cover(elements[0], per_cube[0]),
            cover(elements[1], per_cube[1]),
            cover(elements[2], per_cube[2]),
        )
    }
}

/// Cubes in a row.
impl From<u32> for CubeCount {
    fn from(x: u32) -> Self {
        Self::d1(x)
    }
}

/// In x and y.
impl From<[u32; 2]> for CubeCount {
    fn from([x, y]: [u32; 2]) -> Self {
        Self::d2(x, y)
    }
}

/// In x, y and z.
impl From<[u32; 3]> for CubeCount {
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self::d3(x, y, z)
    }
}

/// In x and y.
impl From<(u32, u32)> for CubeCount {
    fn from((x, y): (u32, u32)) -> Self {
        Self::d2(x, y)
    }
}

/// In x, y and z.
impl From<(u32, u32, u32)> for CubeCount {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self::d3(x, y, z)
    }
}

/// The same count, for one that is used more than once.
impl From<&CubeCount> for CubeCount {
    #[inline]
    fn from(count: &CubeCount) -> Self {
        count.clone()
    }
}

/// Read on the device.
impl From<&Handle<u32>> for CubeCount {
    fn from(three: &Handle<u32>) -> Self {
        Self::Dynamic(three.clone())
    }
}
