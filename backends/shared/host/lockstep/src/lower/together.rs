//! Reductions and shuffles.

use millstream_ir::ssa::{Scope, Shuffle, ValueId};
use millstream_ir::{ReduceOp, scalar};

use super::values::CHECKED;
use super::{Lane, Lower};
use crate::code::{Operand, Step};
use crate::kernels;

impl Lower<'_> {
    pub(super) fn reduce(&mut self, scope: Scope, op: ReduceOp, a: ValueId) -> Lane {
        let dtype = self.type_of(a).dtype;
        let of = self.operand((a, 0));
        let of = self.filled(of, dtype);
        let (to, subgroup, lane) = match scope {
            Scope::Cube => {
                let place = self.new_scalar(self.open.len() - 1, true);
                (Operand::scalar(place), None, Lane::Scalar(place))
            }
            Scope::Subgroup(width) => {
                let to = self.new_column(dtype);
                (to, Some(width), Lane::Column(to))
            }
        };
        let by = scalar::combines(op).and_then(|by| scalar::binary(by, dtype));
        let run = match scope {
            Scope::Cube => kernels::fold(op, dtype, self.level),
            Scope::Subgroup(_) => kernels::trees(op, dtype, self.level),
        };
        let run = run.ok_or_else(|| by.expect(CHECKED));
        self.emit(Step::Reduce {
            subgroup,
            run,
            to,
            size: dtype.size(),
            of,
        });
        lane
    }

    pub(super) fn shuffle(&mut self, from: Shuffle, width: u32, [a, by]: [ValueId; 2]) -> Lane {
        let of = self.operand((a, 0));
        if of.is_scalar() {
            return self.get((a, 0));
        }
        let by = self.operand((by, 0));
        let to = self.new_column(self.type_of(a).dtype);
        self.emit(Step::Shuffle {
            from,
            width,
            to,
            of,
            by,
        });
        Lane::Column(to)
    }
}
