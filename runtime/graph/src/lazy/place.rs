//! Access by place: gather, scatter, concatenation, and stores into existing buffers.

use std::sync::Arc;

use millstream_ir::DType;

use crate::error::{By, Why, why};
use crate::lazy::buffer::{LazyBuffer, NodeRef};
use crate::lazy::graph::axis_of;
use crate::lazy::node::{Layout, Op};
use crate::lazy::views::{check_range, check_reach};
use crate::shape::Shape;
use crate::size::Size;

impl LazyBuffer {
    /// Returns `result[i, j, ..] = self[i, index[i, j, ..], ..]` with the index at `axis`. The index, of `i64`, has as
    /// many axes as this buffer, and along the others at most this length. An index out of range reads as zero.
    #[track_caller]
    pub fn gather(&self, axis: isize, index: &LazyBuffer) -> LazyBuffer {
        LazyBuffer::of(By::new("gather"), [self, index], |[base, index]| {
            let axis = axis_of(axis, base.shape.rank())?;
            check_index(base, index, axis)?;
            Ok((Op::Gather { axis }, base.dtype, index.shape.clone()))
        })
    }

    /// Returns the rows along `axis` that `indices`, of `i64`, name; the axes of `indices` replace `axis`, as in
    /// NumPy's `take`. An index out of range reads as zeros.
    #[track_caller]
    pub fn take(&self, axis: isize, indices: &LazyBuffer) -> LazyBuffer {
        let by = By::new("take");
        LazyBuffer::composed(by, &[self, indices], || {
            let (mine, theirs) = (self.shape(), indices.shape());
            let axis = axis_of(axis, mine.rank())?;
            if theirs.rank() != 1 {
                let count = theirs.elements().ok_or(why::TOO_LARGE)?;
                let flat = indices.reshape([count]);
                let shape = [&mine[..axis], &theirs[..], &mine[axis + 1..]].concat();
                return Ok(self
                    .take(axis as isize, &flat)
                    .reshape_at(by, &shape.into()));
            }
            let mut along = vec![Size::ONE; mine.rank()];
            along[axis] = theirs[0].clone();
            let mut all = mine.to_vec();
            all[axis] = theirs[0].clone();
            let index = indices.reshape_at(by, &along.into());
            Ok(self.gather(axis as isize, &index.expand(by, &all.into())))
        })
    }

    /// Returns a copy of this buffer in which `copy[i, index[i, j, ..], ..] = values[i, j, ..]`, with the index at
    /// `axis`. Of several values for one place the last remains; an index out of range is ignored.
    #[track_caller]
    pub fn scatter(&self, axis: isize, index: &LazyBuffer, values: &LazyBuffer) -> LazyBuffer {
        self.scatter_at(By::new("scatter"), axis, index, values, false)
    }

    /// As [`LazyBuffer::scatter`], but adds the values to the elements, in order.
    #[track_caller]
    pub fn scatter_add(&self, axis: isize, index: &LazyBuffer, values: &LazyBuffer) -> LazyBuffer {
        self.scatter_at(By::new("scatter_add"), axis, index, values, true)
    }

    fn scatter_at(
        &self,
        by: By,
        axis: isize,
        index: &LazyBuffer,
        values: &LazyBuffer,
        adds: bool,
    ) -> LazyBuffer {
        LazyBuffer::of(by, [self, index, values], |[base, index, values]| {
            let axis = axis_of(axis, base.shape.rank())?;
            check_index(base, index, axis)?;
            if values.dtype != base.dtype {
                return Err(why::DTYPES);
            }
            if adds && matches!(base.dtype, DType::Bool | DType::F16 | DType::Bf16) {
                return Err(why::dtype(base.dtype));
            }
            if values.shape != index.shape {
                let (here, there) = (elements(values)?, elements(index)?);
                return Err(why::elements(&index.shape, &here, &there));
            }
            Ok((Op::Scatter { axis, adds }, base.dtype, base.shape.clone()))
        })
    }

    /// Concatenates buffers along an axis. Their other lengths are equal.
    #[track_caller]
    pub fn cat<'a>(parts: impl IntoIterator<Item = &'a LazyBuffer>, axis: isize) -> LazyBuffer {
        LazyBuffer::of_all(By::new("cat"), parts, |parts| {
            let first = parts[0];
            let axis = axis_of(axis, first.shape.rank())?;
            let mut lengths = first.shape.to_vec();
            for part in &parts[1..] {
                if part.dtype != first.dtype {
                    return Err(why::DTYPES);
                }
                let (first, second) = (lengths.len(), part.shape.rank());
                if first != second {
                    return Err(why::ranks(first, second));
                }
                for (index, (mine, theirs)) in lengths.iter().zip(part.shape.iter()).enumerate() {
                    if index != axis && mine != theirs {
                        return Err(why::lengths("other lengths", mine, theirs));
                    }
                }
                lengths[axis] = lengths[axis]
                    .plus(&part.shape[axis])
                    .ok_or(why::TOO_LARGE)?;
            }
            Ok((Op::Cat { axis }, first.dtype, Shape::from(lengths)))
        })
    }

    /// Concatenates buffers of one shape along a new axis.
    #[track_caller]
    pub fn stack<'a>(parts: impl IntoIterator<Item = &'a LazyBuffer>, axis: isize) -> LazyBuffer {
        let parts: Vec<&LazyBuffer> = parts.into_iter().collect();
        let unsqueezed = parts.iter().map(|part| part.unsqueeze(axis));
        let unsqueezed: Vec<LazyBuffer> = unsqueezed.collect();
        LazyBuffer::cat(&unsqueezed, axis).named(By::new("stack"), &parts)
    }

    /// Overwrites the memory of this buffer with the values. The result *is* this buffer, in its new version; every
    /// other use of this version in a schedule sees the old values.
    #[track_caller]
    pub fn set(&self, values: &LazyBuffer) -> LazyBuffer {
        let by = By::new("set");
        LazyBuffer::composed(by, &[self, values], || {
            if values.shape() != self.shape() {
                return Err(why::SHAPES);
            }
            let (offset, strides) = (Size::ZERO, self.shape().dense_strides());
            let strides = strides.ok_or(why::TOO_LARGE)?;
            let layout = Layout { offset, strides };
            Ok(self.set_with(by, values, layout))
        })
    }

    /// Overwrites the rows `start..start + n` along an axis, where `n` is the length of the values along it; see
    /// [`LazyBuffer::set`]. The start may depend on symbols, for example for a growing cache.
    #[track_caller]
    pub fn set_rows(&self, axis: isize, start: impl Into<Size>, values: &LazyBuffer) -> LazyBuffer {
        let (by, start) = (By::new("set_rows"), start.into());
        LazyBuffer::composed(by, &[self, values], || {
            let (mine, theirs) = (self.shape(), values.shape());
            let axis = axis_of(axis, mine.rank())?;
            let others_fit = theirs.rank() == mine.rank()
                && (0..mine.rank()).all(|index| index == axis || mine[index] == theirs[index]);
            if !others_fit {
                return Err(why::SHAPES);
            }
            check_range(&start, &theirs[axis], &mine[axis])?;
            let strides = mine.dense_strides().ok_or(why::TOO_LARGE)?;
            let offset = start.times(&strides[axis]).ok_or(why::TOO_LARGE)?;
            let layout = Layout { offset, strides };
            Ok(self.set_with(by, values, layout))
        })
    }

    /// Overwrites the elements of this buffer that a layout names; see [`LazyBuffer::set`]. The layout must not name an
    /// element twice.
    #[track_caller]
    pub fn set_layout(&self, values: &LazyBuffer, layout: Layout) -> LazyBuffer {
        let by = By::new("set_layout");
        LazyBuffer::composed(by, &[self, values], || {
            let elements = self.shape().elements().ok_or(why::TOO_LARGE)?;
            check_layout(&layout, &values.shape(), &elements)?;
            Ok(self.set_with(by, values, layout))
        })
    }

    /// Stores at places that name each element once and within bounds: rows of the buffer do, even if the polynomials
    /// of symbols cannot prove it.
    fn set_with(&self, by: By, values: &LazyBuffer, layout: Layout) -> LazyBuffer {
        let mut values = values.clone();
        if let (Ok(base), Ok(value)) = (self.node_ref(), values.node_ref())
            && base.graph.is(&value.graph)
            && base.id == value.id
        {
            let is_dense = Some(&layout.strides) == self.shape().dense_strides().as_ref();
            if layout.offset.is(0) && is_dense {
                // A store of a buffer into itself.
                return self.clone();
            }
            // A node of its own, which can have a buffer of its own.
            values = values.same_values(by);
        }
        LazyBuffer::of(by, [self, &values], |[base, values]| {
            if base.dtype != values.dtype {
                return Err(why::DTYPES);
            }
            let op = Op::Set(Arc::new(layout));
            Ok((op, base.dtype, base.shape.clone()))
        })
    }
}

fn elements(node_ref: &NodeRef) -> Result<Size, Why> {
    node_ref.shape.elements().ok_or(why::TOO_LARGE)
}

/// Checks that an index of gather or scatter fits its base.
fn check_index(base: &NodeRef, index: &NodeRef, axis: usize) -> Result<(), Why> {
    if index.dtype != DType::I64 {
        return Err(why::expected("the index", DType::I64, index.dtype));
    }
    let (mine, theirs) = (&base.shape, &index.shape);
    let (first, second) = (mine.rank(), theirs.rank());
    if first != second {
        return Err(why::ranks(first, second));
    }
    for (other, (there, reach)) in mine.iter().zip(theirs.iter()).enumerate() {
        if other != axis {
            check_range(&Size::ZERO, reach, there)?;
        }
    }
    Ok(())
}

/// Checks that a layout names only elements of a buffer with this many, each once.
fn check_layout(layout: &Layout, shape: &Shape, elements: &Size) -> Result<(), Why> {
    let (first, second) = (layout.strides.len(), shape.rank());
    if first != second {
        return Err(why::ranks(first, second));
    }
    if shape.iter().any(|length| length.is(0)) {
        return Ok(());
    }
    let mut all = layout.strides.iter().chain([&layout.offset]);
    if let Some(negative) = all.find(|size| size.may_be_negative()) {
        return Err(why::negative(negative));
    }
    let axes = layout.strides.iter().zip(shape.iter());
    let mut axes: Vec<_> = axes.filter(|(_, length)| !length.is(1)).collect();
    // By ascending stride, each axis must step over everything that the axes before it cover.
    axes.sort_by_key(|(stride, _)| stride.max());
    let mut covered = Size::ONE;
    for (stride, length) in axes {
        let room = stride.minus(&covered).ok_or(why::TOO_LARGE)?;
        if room.may_be_negative() {
            return Err(
                "the layout may name an element twice: each stride must exceed the reach of the smaller ones".into(),
            );
        }
        let steps = length.minus(&Size::ONE).ok_or(why::TOO_LARGE)?;
        let span = steps.times(stride).ok_or(why::TOO_LARGE)?;
        covered = covered.plus(&span).ok_or(why::TOO_LARGE)?;
    }
    let reach = layout.offset.plus(&covered).ok_or(why::TOO_LARGE)?;
    check_reach("element", &reach, elements)
}
