//! Scalars and columns of values: computed, and copied.

use super::active::Active;
use super::{Machine, elements, log2};
use crate::code::{Operand, Place, Reference, varies};
use crate::kernels::Kernel;

impl Machine<'_> {
    /// Computes a scalar.
    #[inline]
    pub(super) fn scalar(
        &self,
        to: Place,
        f: Reference,
        of: [Place; 3],
        masked: bool,
        active: Active,
    ) {
        if self.cubes == 1 || !varies(to) {
            self.set(to, f.of(of.map(|place| self.get(place))));
        } else if masked {
            self.each_cube(active, |one, _| {
                one.set(to, f.of(of.map(|place| one.get(place))));
            });
        } else {
            self.set_all(to, |at| f.of(of.map(|place| self.get_of(place, at))));
        }
    }

    #[inline]
    pub(super) fn map(&self, run: Kernel, to: Operand, of: [Operand; 3], active: Active) {
        let differs = of.iter().any(|of| of.varies());
        if differs && self.cubes > 1 {
            return self.map_each(run, to, of, active);
        }
        let (first, n) = match to.is_scalar() {
            true => (0, 1),
            false => (active.first, active.end - active.first),
        };
        let [a, b, c] = of.map(|operand| self.pointer(operand, first));
        // SAFETY: the operands have an element for each of these threads, or are scalars where the loop expects scalars;
        // columns in use do not share memory, so the result overlaps none of them.
        unsafe { run(self.pointer(to, first), a, b, c, n) };
    }

    /// Runs a loop for one cube after the other; of a scalar for all of them.
    fn map_each(&self, run: Kernel, to: Operand, of: [Operand; 3], active: Active) {
        let cubes = match to.is_scalar() {
            true => 0..self.cubes,
            false => self.cubes_of(active),
        };
        for at in cubes {
            let part = match to.is_scalar() {
                true => Active::all(1),
                false => self.hull_in(at, active),
            };
            self.of_cube(at).map(run, to, of, part);
        }
    }

    pub(super) fn each(&self, f: Reference, to: Operand, of: [Operand; 3], active: Active) {
        for thread in active.first..active.end {
            let bits = f.of(of.map(|operand| self.bits(operand, thread)));
            // SAFETY: the column has an element for each thread.
            unsafe { elements::write(self.pointer(to, thread), to.size as usize, bits) };
        }
    }

    /// Copies a column or a scalar to a column.
    pub(super) fn copy(
        &self,
        to: Operand,
        value: Operand,
        [masked, swaps]: [bool; 2],
        active: Active,
    ) {
        let Active { first, end, mask } = active;
        let n = end - first;
        let (d, a) = (self.pointer(to, first), self.pointer(value, first));
        let size = log2(to.size as usize);
        let scalar = value.is_scalar();
        let loops = &self.code.loops;
        if std::ptr::eq(d, a) {
            // A variable is stored to itself.
        } else if masked && let Some(mask) = mask {
            // SAFETY: as in `map`; the mask has a byte for each thread.
            unsafe {
                let mask = mask.as_ptr().add(first);
                loops.blend[usize::from(scalar)][size](d, a, mask, a, n);
            }
        } else if scalar {
            // SAFETY: as in `map`.
            unsafe { loops.fill[size](d, a, a, a, n) };
        } else if swaps && n == self.threads {
            // SAFETY: the table has both places. Both columns have elements of this size for a whole chunk.
            unsafe {
                let (to, value) = (to.place as usize, value.place as usize);
                self.table.add(to).swap(self.table.add(value));
            }
        } else {
            // SAFETY: as in `map`.
            unsafe { d.copy_from_nonoverlapping(a, n * to.size as usize) };
        }
    }
}
