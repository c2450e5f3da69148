//! Divides the values of a nest into passes over a row.
//!
//! A reduction must be complete before a value that depends on it. So the first pass over a row computes the reductions
//! that depend on no other, the next pass those that depend on these, and so on. A later pass recomputes the elements
//! that it needs: loads of a row hit the cache, and keeping a row in registers would bound its length.

use crate::ReduceOp;
use crate::nest::{Level, Nest, Op, Store, ValueId};

/// The passes of a nest.
pub(super) struct Plan {
    /// Values that are computed once for each row, before the first pass.
    pub(super) row_values: Vec<ValueId>,
    /// The passes.
    pub(super) passes: Vec<Pass>,
    /// Stores once for each row, by index.
    pub(super) stores: Vec<usize>,
}

/// One pass over a row.
#[derive(Default)]
pub(super) struct Pass {
    /// Values that are computed for each element, in order.
    pub(super) inner: Vec<ValueId>,
    /// Reductions: id, operation, and operand.
    pub(super) reduces: Vec<(ValueId, ReduceOp, ValueId)>,
    /// Stores for each element, by index.
    pub(super) stores: Vec<usize>,
    /// Values that are computed once for each row after the pass, in order, without the reductions.
    pub(super) row_values: Vec<ValueId>,
}

impl Plan {
    /// Divides a valid nest.
    pub(super) fn of(nest: &Nest) -> Self {
        let levels = nest.levels();
        let level = |id: ValueId| levels[usize::from(id)];
        let used = nest.needed(nest.stores.iter().flat_map(Store::values), |_| true);
        let stages = nest.stages();
        let is_reduce = |id: ValueId| matches!(nest.values[usize::from(id)].op, Op::Reduce(..));
        let ids = || (0..nest.values.len() as ValueId).filter(|id| used[usize::from(*id)]);
        let reduced = ids().filter(|id| is_reduce(*id));
        let walks = reduced.map(|id| stages[usize::from(id)]).max().unwrap_or(0);

        let inner_stores: Vec<usize> = places(nest, Level::Inner).collect();
        let stored = inner_stores
            .iter()
            .flat_map(|store| nest.stores[*store].values());
        let store_stages = stored.map(|id| stages[usize::from(id)]);
        // All element stores are in the last pass: a nest that works in place has loaded everything that it needs of an
        // element by then.
        let last_store = store_stages
            .max()
            .map(|stage| stage.max(walks.saturating_sub(1)));
        let count = walks.max(last_store.map_or(0, |stage| stage + 1));

        let once = |stage: usize| {
            ids()
                .filter(|id| level(*id) == Level::Outer && !is_reduce(*id))
                .filter(|id| stages[usize::from(*id)] == stage)
                .collect()
        };
        let passes = (0..count).map(|pass| {
            let reduces: Vec<_> = ids()
                .filter(|id| stages[usize::from(*id)] == pass + 1)
                .filter_map(|id| match nest.values[usize::from(id)].op {
                    Op::Reduce(op, of) => Some((id, op, of)),
                    _ => None,
                })
                .collect();
            let stores = match last_store {
                Some(last) if last == pass => inner_stores.clone(),
                _ => Vec::new(),
            };
            Pass {
                inner: inner_of(nest, &levels, &reduces, &stores),
                row_values: once(pass + 1),
                reduces,
                stores,
            }
        });
        Plan {
            row_values: once(0),
            passes: passes.collect(),
            stores: places(nest, Level::Outer).collect(),
        }
    }
}

fn places(nest: &Nest, level: Level) -> impl Iterator<Item = usize> {
    let stores = nest.stores.iter().enumerate();
    stores
        .filter(move |(_, store)| store.level == level)
        .map(|(place, _)| place)
}

/// Returns the element values that these reductions and stores need, in order. Values of rows exist already.
fn inner_of(
    nest: &Nest,
    levels: &[Level],
    reduces: &[(ValueId, ReduceOp, ValueId)],
    stores: &[usize],
) -> Vec<ValueId> {
    let is_inner = |index: usize| levels[index] == Level::Inner;
    let stored = stores.iter().flat_map(|store| nest.stores[*store].values());
    let roots = reduces.iter().map(|(_, _, of)| *of).chain(stored);
    let needed = nest.needed(roots, is_inner);
    let inner = (0..needed.len()).filter(|index| needed[*index] && is_inner(*index));
    inner.map(|index| index as ValueId).collect()
}
