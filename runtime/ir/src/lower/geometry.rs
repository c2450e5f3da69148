//! Chooses the kind and the number of cubes of a launch, from the launch words and the addresses of the buffers alone.

use super::{Kind, ROWS_A_CUBE, THREADS, reduces, scatters};
use crate::nest::{Access, Nest, Stride};
use crate::ssa::ACCESS_BYTES_MAX;
use crate::{Blocking, Rows};

/// How a launch runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// The kind, which selects the function.
    pub kind: Kind,
    /// The number of cubes along x. 0: there is nothing to do.
    pub cubes: u32,
}

/// The greatest number of rounds of cubes: then threads loop over further elements instead.
const ROUNDS: u64 = 8;
/// A row of more elements than this is reduced by a cube.
const ROW_LEN_MAX: u64 = 1024;
/// A row of at most this many elements is reduced by one thread, if there are many rows.
const SHORT_LEN_MAX: u64 = 8;

/// Returns how a launch of a nest with this blocking, these words and buffers at these addresses runs, on a device that
/// runs `cubes_at_once` cubes of 256 threads at the same time.
pub fn geometry(
    nest: &Nest,
    words: &[u64],
    addresses: &[u64],
    cubes_at_once: u32,
    blocking: Blocking,
) -> Geometry {
    let launch = Launch {
        nest,
        words,
        blocking,
    };
    let rows = launch.volume(0..nest.outer);
    let len = launch.volume(nest.outer..nest.rank());
    // A nest without reductions over rows of length 0 has stores of rows at most.
    if rows == 0 {
        let kind = Kind::Thread { lanes: 1 };
        return Geometry { kind, cubes: 0 };
    }
    let kind = launch.kind(rows, len, addresses, cubes_at_once);
    let cubes = match kind {
        Kind::Thread { lanes } => rows.div_ceil(u64::from(THREADS) * u64::from(lanes)),
        Kind::Row => rows.div_ceil(u64::from(ROWS_A_CUBE)),
        Kind::Cube => rows,
    };
    let most = u64::from(cubes_at_once.max(1)) * ROUNDS;
    // `most` fits: it is at most 2^32 times the number of rounds.
    let cubes = cubes.min(most).min(u64::from(i32::MAX.unsigned_abs())) as u32;
    Geometry { kind, cubes }
}

/// Returns how many neighbours a thread of a nest can take at once; whether a launch is aligned for it is decided
/// later.
pub(super) fn lanes(nest: &Nest) -> u8 {
    let Some(axis) = nest.outer.checked_sub(1) else {
        return 1;
    };
    let mut along = nest.accesses.iter().map(|access| access.strides[axis]);
    if scatters(nest) || along.any(|stride| matches!(stride, Stride::Word(_))) {
        return 1;
    }
    let accesses = nest.accesses.iter();
    let wide = accesses.filter(|access| access.strides[axis] == Stride::One);
    let bytes = wide.map(|access| nest.buffers[usize::from(access.buffer)].dtype.size());
    // At most 8, because each needs registers.
    let lanes = bytes.max().map(|bytes| (ACCESS_BYTES_MAX / bytes).min(8));
    lanes.unwrap_or(1) as u8
}

struct Launch<'a> {
    nest: &'a Nest,
    words: &'a [u64],
    blocking: Blocking,
}

impl Launch<'_> {
    fn word(&self, word: u16) -> i64 {
        let word = self.words.get(usize::from(word));
        word.map_or(0, |word| *word as i64)
    }

    fn volume(&self, axes: std::ops::Range<usize>) -> u64 {
        axes.map(|axis| self.word(axis as u16).max(0).unsigned_abs())
            .fold(1, u64::saturating_mul)
    }

    fn stride(&self, access: &Access, axis: usize) -> i64 {
        match access.strides[axis] {
            Stride::Zero => 0,
            Stride::One => 1,
            Stride::Word(word) => self.word(word),
        }
    }

    fn kind(&self, rows: u64, len: u64, addresses: &[u64], cubes_at_once: u32) -> Kind {
        let nest = self.nest;
        let busy = u64::from(cubes_at_once) * u64::from(THREADS);
        // Several rows for each thread only if there are enough rows.
        let lanes = match nest.inner > 0 && rows < busy {
            true => 1,
            false => self.lanes(rows, addresses),
        };
        let thread = Kind::Thread { lanes };
        match self.blocking.rows {
            Some(Rows::Across) => return thread,
            Some(Rows::Along) => return Kind::Row,
            Some(Rows::Cube) => return Kind::Cube,
            None => {}
        }
        if !reduces(nest) || scatters(nest) {
            return thread;
        }
        let along = |axis: Option<usize>| {
            let mut accesses = nest.accesses.iter();
            axis.is_some_and(|axis| accesses.any(|access| self.stride(access, axis).abs() == 1))
        };
        let by_rows = along((nest.inner > 0).then(|| nest.rank() - 1));
        let by_columns = !by_rows && along(nest.outer.checked_sub(1));
        let many = rows >= busy / 8;
        if (many && (by_columns || len <= SHORT_LEN_MAX)) || len <= 1 {
            return thread;
        }
        // A cube for each row, unless there are more rows than cubes run at once and each row is little work.
        let full = rows > u64::from(cubes_at_once);
        if len <= ROW_LEN_MAX && (full || len <= u64::from(super::ROW_THREADS)) {
            Kind::Row
        } else {
            Kind::Cube
        }
    }

    /// Returns how many neighbours a thread takes at once: those that the nest allows, if every access is aligned for
    /// them.
    fn lanes(&self, rows: u64, addresses: &[u64]) -> u8 {
        let nest = self.nest;
        let most = self.blocking.vector.unwrap_or(u8::MAX);
        let lanes = lanes(nest).min(most);
        if lanes == 1 || rows == 0 {
            return 1;
        }
        let last = nest.outer - 1;
        let many = i64::from(lanes);
        let whole = |number: i64| number % many == 0;
        let fits = nest.accesses.iter().all(|access| {
            if access.strides[last] == Stride::Zero {
                return true;
            }
            let offset = access.offset.map_or(0, |word| self.word(word));
            let mut others = (0..nest.rank()).filter(|axis| *axis != last);
            let bytes = nest.buffers[usize::from(access.buffer)].dtype.size() as u64;
            let address = addresses.get(usize::from(access.buffer));
            let address = address.copied().unwrap_or(1);
            whole(offset)
                && others.all(|axis| whole(self.stride(access, axis)))
                && address.is_multiple_of(bytes * u64::from(lanes))
        });
        match fits && whole(self.word(last as u16)) {
            true => lanes,
            false => 1,
        }
    }
}
