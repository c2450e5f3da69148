//! Reductions and shuffles. All threads of a cube are active, which the verifier ensures, and a chunk has whole cubes.

use millstream_ir::ssa::{SUBGROUP_MAX, Shuffle, reduced};

use super::elements::by_size;
use super::{Machine, elements};
use crate::code::Operand;
use crate::kernels::Kernel;

/// The most threads of a subgroup.
const WIDTH_MAX: usize = SUBGROUP_MAX as usize;

impl Machine<'_> {
    /// Reduces the values of all threads of the cube, or of each subgroup.
    pub(super) fn reduce(
        &self,
        subgroup: Option<u32>,
        run: Result<Kernel, fn(u64, u64) -> u64>,
        size: usize,
        [to, of]: [Operand; 2],
    ) {
        let (a, n) = (self.pointer(of, 0), self.threads);
        let Some(width) = subgroup.map(|width| width as usize) else {
            let mut folded = 0_u64;
            match run {
                // SAFETY: as in `map`; the result is one element.
                Ok(run) => unsafe { run((&raw mut folded).cast(), a, a, a, n) },
                Err(f) => {
                    let values = (0..n).map(|thread| self.bits(of, thread));
                    folded = values.reduce(f).unwrap_or_default();
                }
            }
            return self.set(to.place, folded);
        };
        let d = self.pointer(to, 0);
        let f = match run {
            // SAFETY: as in `map`; the second operand is the width.
            Ok(run) => return unsafe { run(d, a, (&raw const width).cast(), a, n) },
            Err(f) => f,
        };
        for first in (0..n).step_by(width) {
            let mut values = [0; WIDTH_MAX];
            for (place, value) in values[..width].iter_mut().enumerate() {
                *value = self.bits(of, first + place);
            }
            let combined = reduced(&mut values[..width], f);
            for thread in first..first + width {
                // SAFETY: the column has an element for each thread.
                unsafe { elements::write(self.pointer(to, thread), size, combined) };
            }
        }
    }

    /// Gives each thread the element of another one of its subgroup.
    pub(super) fn shuffle(&self, from: Shuffle, width: usize, to: Operand, [of, by]: [Operand; 2]) {
        let mut all = [0; WIDTH_MAX];
        let sources = &mut all[..width];
        for first in (0..self.threads).step_by(width) {
            if first == 0 || !by.is_scalar() {
                for (place, source) in sources.iter_mut().enumerate() {
                    let by = self.bits(by, first + place);
                    *source = from.source(place as u32, by, width as u32);
                }
            }
            let (d, a) = (self.pointer(to, first), self.pointer(of, first));
            // SAFETY: both columns have an element for each thread; `to` is a new column.
            by_size!(to.size, T => unsafe { gather(d.cast::<T>(), a.cast::<T>(), sources) });
        }
    }
}

/// Writes for each source its element.
///
/// # Safety
/// Both pointers have as many elements as there are sources, in memory that does not overlap. Sources are less than their
/// number.
unsafe fn gather<T: Copy>(d: *mut T, a: *const T, sources: &[u32]) {
    for (place, source) in sources.iter().enumerate() {
        // SAFETY: the caller's promises.
        unsafe { *d.add(place) = *a.add(*source as usize) };
    }
}
