//! Values as operands of steps: scalars, affine values, and columns.

use millstream_ir::ssa::ValueId;
use millstream_ir::{BinaryOp, DType, scalar};

use super::values::CHECKED;
use super::{Lane, Lower};
use crate::code::{Operand, Place, Reference, Step, UNPLACED};
use crate::kernels::{self, Choice, Kernel};

/// The most columns that keep what depends on the threads' positions alone.
const CONSTANT_COLUMNS_MAX: usize = 12;

impl Lower<'_> {
    pub(super) fn get(&self, (value, lane): (ValueId, u8)) -> Lane {
        self.values[value as usize][usize::from(lane)]
    }

    /// Returns a lane as a scalar or a column.
    pub(super) fn operand(&mut self, key: (ValueId, u8)) -> Operand {
        let lane = self.get(key);
        match lane {
            Lane::Scalar(place) => return Operand::scalar(place),
            Lane::Column(operand) => return operand,
            _ => {}
        }
        if let Some(operand) = self.written.get(&key) {
            return *operand;
        }
        let operand = self.write(lane);
        self.written.insert(key, operand);
        if self.is_constant(operand) {
            return operand;
        }
        let current = self.open.len() - 1;
        self.open[current].written.push(key);
        operand
    }

    /// Returns a lane that is neither affine nor a test.
    pub(super) fn plain(&mut self, key: (ValueId, u8)) -> Lane {
        let operand = self.operand(key);
        match operand.is_scalar() {
            true => Lane::Scalar(operand.place),
            false => Lane::Column(operand),
        }
    }

    /// Writes a lane that is affine or a test to a column.
    pub(super) fn write(&mut self, lane: Lane) -> Operand {
        match lane {
            Lane::Scalar(place) => Operand::scalar(place),
            Lane::Column(operand) => operand,
            Lane::Affine(value) => {
                let [x, y, z] = value.strides;
                let of = [value.base, x, y, z].map(Operand::scalar);
                self.computed(DType::I64, &of, |to| Step::Ramp { to, value })
            }
            Lane::Test(test) => {
                let [x, y, z] = test.value.strides;
                let of = [test.value.base, x, y, z, test.with].map(Operand::scalar);
                self.computed(DType::Bool, &of, |to| Step::Tested { to, test })
            }
            Lane::All(tests) => {
                let all = self.tests[tests].clone();
                let all: Vec<Operand> = all
                    .into_iter()
                    .map(|test| self.write(Lane::Test(test)))
                    .collect();
                let f = scalar::binary(BinaryOp::And, DType::Bool).expect(CHECKED);
                let mut sum = all[0];
                for next in &all[1..] {
                    let choice =
                        kernels::binary(BinaryOp::And, DType::Bool, [false; 2], self.level);
                    let lane = self.chosen(choice, f, [DType::Bool; 2], [sum, *next]);
                    if let Lane::Column(column) = lane {
                        sum = column;
                    }
                }
                sum
            }
        }
    }

    /// Returns a column with this operand, whose type is `dtype`.
    pub(super) fn filled(&mut self, value: Operand, dtype: DType) -> Operand {
        if !value.is_scalar() {
            return value;
        }
        let to = self.new_column(dtype);
        self.emit(Step::Set {
            to,
            value,
            masked: false,
            swaps: false,
        });
        to
    }

    /// Emits a loop. The result is a scalar if all operands are.
    pub(super) fn map(&mut self, run: Kernel, dtype: DType, of: &[Operand]) -> Lane {
        let mut all = [Operand::scalar(0); 3];
        all[..of.len()].copy_from_slice(of);
        if of.iter().all(|operand| operand.is_scalar()) {
            let places: Vec<Place> = of.iter().map(|operand| operand.place).collect();
            let (place, depth) = self.new_result(&places);
            let to = Operand::scalar(place);
            self.open[depth].steps.push(Step::Map { run, to, of: all });
            return Lane::Scalar(place);
        }
        Lane::Column(self.computed(dtype, of, |to| Step::Map { run, to, of: all }))
    }

    /// Emits calls of the reference.
    pub(super) fn each(&mut self, f: Reference, dtype: DType, of: &[Operand]) -> Lane {
        if of.iter().all(|operand| operand.is_scalar()) {
            let places: Vec<Place> = of.iter().map(|operand| operand.place).collect();
            return Lane::Scalar(self.scalar(f, &places));
        }
        let mut all = [Operand::scalar(0); 3];
        all[..of.len()].copy_from_slice(of);
        Lane::Column(self.computed(dtype, of, |to| Step::Each { f, to, of: all }))
    }

    /// Emits the loop of two operands, of type `from`, or calls of the reference.
    pub(super) fn chosen(
        &mut self,
        choice: Option<Choice>,
        f: fn(u64, u64) -> u64,
        [from, to]: [DType; 2],
        mut of: [Operand; 2],
    ) -> Lane {
        let scalars = of.iter().all(|operand| operand.is_scalar());
        let Some(choice) = choice.filter(|_| !scalars) else {
            return self.each(Reference::Binary(f), to, &of);
        };
        if choice.swaps {
            of.swap(0, 1);
        }
        for (operand, is_column) in of.iter_mut().zip(choice.columns) {
            if is_column {
                *operand = self.filled(*operand, from);
            }
        }
        self.map(choice.run, to, &of)
    }

    /// Returns a new column for a step that depends on these scalars and columns alone, and emits the step.
    fn computed(
        &mut self,
        dtype: DType,
        of: &[Operand],
        step: impl FnOnce(Operand) -> Step,
    ) -> Operand {
        let to = self.new_column(dtype);
        let is_constant = |operand: &Operand| match operand.is_scalar() {
            true => self.known(operand.place).is_some(),
            false => self.is_constant(*operand),
        };
        // Chunks of a part of a cube have threads at other positions.
        if self.survey.meets
            && self.prologue.len() < CONSTANT_COLUMNS_MAX
            && of.iter().all(is_constant)
        {
            let column = &mut self.columns[(to.place & !UNPLACED) as usize];
            (column.is_fixed, column.is_constant) = (true, true);
            self.prologue.push(step(to));
        } else {
            self.emit(step(to));
        }
        to
    }

    /// Returns whether a column depends on the threads' positions alone.
    fn is_constant(&self, operand: Operand) -> bool {
        !operand.is_scalar() && self.columns[(operand.place & !UNPLACED) as usize].is_constant
    }
}
