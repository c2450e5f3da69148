//! Sums of products.
//!
//! Factors and the addend may be memory of a buffer that has elements of the active threads alone, so a loop reads nothing of the
//! threads before the first active one and behind the last one.

use super::Machine;
use super::active::Active;
use crate::code::{At, MulAdd, Operand, Step, Target};
use crate::kernels::Factors;

/// The threads of a loop: as rows, or as one row of any length.
#[derive(Clone, Copy)]
struct Area {
    active: Active,
    width: usize,
    is_one: bool,
}

/// Where a factor is.
struct Factor {
    /// That of the first thread.
    first: *const u8,
    /// Its distance from thread to thread in a row and from row to row, in elements, and from cube to cube, in bytes.
    apart: usize,
    down: isize,
    cubes: usize,
}

impl Machine<'_> {
    /// Adds a product: in one loop, which reads the factors where they lie, if it can.
    pub(super) fn mul_add(&self, it: &MulAdd, active: Active) {
        let (before, last) = it.steps.split_at(it.steps.len() - 2);
        for (at, step) in before.iter().enumerate() {
            if !it.loads.contains(&Some(at)) {
                self.block(std::slice::from_ref(step), active);
            }
        }
        let ([Step::Map { of: factors, .. }, Step::Map { to, of: sum, .. }], [a, b]) =
            (last, it.loads)
        else {
            unreachable!("the last steps multiply and add")
        };
        let addend = sum[it.addend];
        let [a, b] = [a, b].map(|load| load.map(|at| &before[at]));
        let factors = [(a, factors[0]), (b, factors[1])];
        let differs = factors.iter().any(|(load, operand)| match load {
            Some(Step::Load { access, .. }) => {
                matches!(access.at, At::Affine(value) if value.varies())
            }
            _ => operand.varies(),
        });
        let operands = [*to, addend];
        let add = |one: &Self, part, cubes| {
            let area = one.rows_of(part).unwrap_or(one.row_of(part));
            let last = one.lane + (cubes - 1) * one.span;
            debug_assert!(
                one.lane + area.active.first >= active.first
                    && last + area.active.end <= active.end,
                "a loop would read what threads have that are not active"
            );
            one.add_product(factors, operands, area, cubes)
        };
        let mut cubes = self.cubes_of(active);
        let is_done = self.add_product(factors, operands, self.row_of(active), 1)
            || match (self.cubes, differs || active.mask.is_some()) {
                (1, _) => add(self, active, 1),
                (_, false) => {
                    let first = self.of_cube(cubes.start);
                    add(&first, self.part_of(active), cubes.len())
                }
                _ => cubes.all(|at| add(&self.of_cube(at), self.hull_in(at, active), 1)),
            };
        if !is_done {
            for load in it.loads.into_iter().flatten() {
                self.step(&before[load], active);
            }
            self.block(last, active);
        }
    }

    /// Returns the threads between the first active one and the end as one row.
    fn row_of(&self, active: Active) -> Area {
        Area {
            active,
            width: active.end - active.first,
            is_one: true,
        }
    }

    /// Returns the threads between the first active one and the end as rows of a cube, if they are as many as whole rows.
    fn rows_of(&self, active: Active) -> Option<Area> {
        let [width, height, depth] = self.code.shape.map(|axis| axis as usize);
        let is_whole = (active.end - active.first).is_multiple_of(width);
        (height > 1 && depth == 1 && is_whole).then_some(Area {
            active,
            width,
            is_one: false,
        })
    }

    /// Adds the product of this cube, and of those behind it. Returns `false` if no loop does it.
    fn add_product(
        &self,
        factors: [(Option<&Step>, Operand); 2],
        [to, addend]: [Operand; 2],
        area: Area,
        cubes: usize,
    ) -> bool {
        let [Some(a), Some(b)] = factors.map(|(load, operand)| self.factor(load, operand, area))
        else {
            return false;
        };
        let Some(run) = self.code.loops.mul_add[usize::from(area.is_one)][a.apart][b.apart] else {
            return false;
        };
        let Active { first, end, .. } = area.active;
        for cube in 0..cubes {
            let [a_first, b_first] =
                [&a, &b].map(|it| it.first.wrapping_add(cube * it.cubes).cast());
            let factors = Factors {
                first: [a_first, b_first],
                apart: [a.down, b.down],
                width: area.width,
            };
            let first = first + cube * self.span;
            let (d, c) = (self.pointer(to, first), self.pointer(addend, first));
            let factors = (&raw const factors).cast();
            let rows = (end - area.active.first) / area.width;
            // SAFETY: the columns have an element for each of these threads, and the factors are in bounds: those of the
            // first cube are, and all cubes have arrays of the same lengths.
            unsafe { run(d, c, factors, factors, rows) };
        }
        true
    }

    /// Returns where a factor is, if all of its elements are in bounds.
    fn factor(&self, load: Option<&Step>, operand: Operand, area: Area) -> Option<Factor> {
        let Some(Step::Load { access, .. }) = load else {
            if operand.varies() && self.cubes > 1 {
                return None;
            }
            let is_column = !operand.is_scalar();
            return Some(Factor {
                first: self.pointer(operand, area.active.first),
                apart: is_column.into(),
                down: if is_column { area.width as isize } else { 0 },
                cubes: if is_column { self.span * 4 } else { 0 },
            });
        };
        let memory = self.memory(access);
        let At::Affine(value) = access.at else {
            return None;
        };
        // Each cube has its own arrays; and other cubes may change buffers that are not constant.
        let is_array = matches!(access.target, Target::Shared { .. });
        if memory.shared || is_array && self.cubes > 1 {
            return None;
        }
        let (first, apart, down) = match area.is_one {
            true => {
                let run = self.whole_run(value, area.active)?;
                (Self::checked(access, memory, run)?, run.stride, 0)
            }
            false => {
                let rows = self.rows_within(access, memory, value, area.active)?;
                (rows.first as usize, rows.strides[0], rows.strides[1])
            }
        };
        let apart = usize::try_from(apart).ok().filter(|apart| *apart <= 1)?;
        Some(Factor {
            first: memory.pointer.wrapping_add(first * memory.size),
            apart,
            down: down as isize,
            cubes: if is_array { self.code.shared_bytes } else { 0 },
        })
    }
}
