//! Einstein summation: products of buffers with named axes.

use std::panic::Location;

use crate::error::{Why, why};
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::reduce::Over;
use crate::shape::Shape;
use crate::size::Size;

/// A buffer with named axes.
struct NamedAxes {
    buffer: LazyBuffer,
    axes: Vec<char>,
}

impl LazyBuffer {
    /// Multiplies buffers with named axes and sums over the names that the result does not have, as NumPy's `einsum`:
    /// `"ij,jk->ik"` is a matrix product, `"bij,bj->bi"` one for each `b`, `"ij->j"` sums of columns, `"i,j->ij"` an
    /// outer product. It multiplies two buffers at a time, from the left, each pair as one [`matmul`](Self::matmul).
    /// The result must be named; a name occurs once in each term; ellipses are not supported.
    ///
    /// ```
    /// # use millstream_graph::{DType, Graph, LazyBuffer};
    /// let graph = Graph::new();
    /// let q = graph.input("q", DType::F32, [2, 9, 4, 8]);
    /// let k = graph.input("k", DType::F32, [2, 7, 4, 8]);
    /// let scores = LazyBuffer::einsum("bqhd,bkhd->bhqk", [&q, &k]);
    /// assert_eq!(scores.shape().to_string(), "[2, 4, 9, 7]");
    /// ```
    #[track_caller]
    pub fn einsum<'a>(
        terms: &str,
        buffers: impl IntoIterator<Item = &'a LazyBuffer>,
    ) -> LazyBuffer {
        let buffers: Vec<&LazyBuffer> = buffers.into_iter().collect();
        LazyBuffer::composed("einsum", &buffers, Location::caller(), || {
            let (named, result) = parsed(terms, &buffers).map_err(Why::from)?;
            let summed = summed_elements(&named, &result).ok_or(why::TOO_LARGE)?;
            let mut terms = named.into_iter();
            let mut product = terms.next().ok_or(why::NOTHING)?;
            let rest: Vec<NamedAxes> = terms.collect();
            for (index, next) in rest.iter().enumerate() {
                let later = rest[index + 1..].iter().flat_map(|term| &term.axes);
                let kept: Vec<char> = result.iter().chain(later).copied().collect();
                product = product.times(next, &kept)?;
            }
            let sum = product.summed_to(&result)?.ordered(&result);
            Ok(match (sum.graph(), summed.min()) {
                // The sum of nothing is zero. The product of the sums is not if a factor is NaN or infinite.
                (Some(graph), least) if least.is_none_or(|least| least < 1) => {
                    let is_empty = graph.length_value(summed).equals(0);
                    let zero = graph.zeros(sum.dtype(), Shape::scalar());
                    is_empty.select(&zero, &sum)
                }
                _ => sum,
            })
        })
    }
}

/// Parses the terms. Returns the buffers with the names of their axes, and the names of the result.
fn parsed(terms: &str, buffers: &[&LazyBuffer]) -> Result<(Vec<NamedAxes>, Vec<char>), String> {
    let letters = |term: &str| -> Result<Vec<char>, String> {
        let letters: Vec<char> = term.chars().filter(|it| !it.is_whitespace()).collect();
        if let Some(odd) = letters.iter().find(|it| !it.is_alphabetic()) {
            return Err(format!(
                "`{odd}` in `{terms}` is not an axis name: use letters"
            ));
        }
        let twice = |(at, it): &(usize, &char)| letters[..*at].contains(it);
        match letters.iter().enumerate().find(twice) {
            Some((_, twice)) => Err(format!(
                "`{twice}` occurs twice in the term `{term}`: name each axis of a buffer differently"
            )),
            None => Ok(letters),
        }
    };
    let Some((terms, result)) = terms.split_once("->") else {
        return Err(format!(
            "`{terms}` has no `->` with the axes of the result: write it as `ij,jk->ik`"
        ));
    };
    let (all, result) = (terms.split(','), letters(result)?);
    let all = all.map(letters).collect::<Result<Vec<_>, _>>()?;
    if all.len() != buffers.len() {
        let (terms, given) = (all.len(), buffers.len());
        return Err(format!("{terms} terms need {terms} buffers, got {given}"));
    }
    let mut lengths: Vec<(char, Size)> = Vec::new();
    let mut named = Vec::with_capacity(all.len());
    for (axes, buffer) in all.into_iter().zip(buffers) {
        let shape = buffer.shape();
        if shape.rank() != axes.len() {
            let (names, rank) = (axes.len(), shape.rank());
            return Err(format!(
                "a term of {names} axes needs a buffer of rank {names}, got {rank}"
            ));
        }
        for (axis, length) in axes.iter().zip(shape.iter()) {
            match lengths.iter().find(|(known, _)| known == axis) {
                Some((_, known)) if known != length => {
                    return Err(format!(
                        "the lengths {known} and {length} of `{axis}` differ"
                    ));
                }
                Some(_) => {}
                None => lengths.push((*axis, length.clone())),
            }
        }
        let buffer = (*buffer).clone();
        named.push(NamedAxes { buffer, axes });
    }
    match result
        .iter()
        .find(|it| lengths.iter().all(|(known, _)| known != *it))
    {
        Some(missing) => Err(format!(
            "`{missing}` of the result occurs in no term: name only axes of the buffers"
        )),
        None => Ok((named, result)),
    }
}

/// Returns the number of elements that one element of the result is the sum of: the product of the lengths of the axes
/// that the result does not have. `None` if it overflows.
fn summed_elements(terms: &[NamedAxes], result: &[char]) -> Option<Size> {
    let mut lengths: Vec<(char, Size)> = Vec::new();
    for term in terms {
        for (axis, length) in term.axes.iter().zip(term.buffer.shape().iter()) {
            let is_known = lengths.iter().any(|(known, _)| known == axis);
            if !is_known && !result.contains(axis) {
                lengths.push((*axis, length.clone()));
            }
        }
    }
    Size::product(lengths.iter().map(|(_, length)| length))
}

impl NamedAxes {
    /// Returns axes of a buffer, or why the buffer is refused.
    fn of(buffer: LazyBuffer, axes: Vec<char>) -> Result<Self, Why> {
        match buffer.error() {
            Some(error) => Err(error.why().to_owned().into()),
            None => Ok(Self { buffer, axes }),
        }
    }

    fn has(&self, axis: char) -> bool {
        self.axes.contains(&axis)
    }

    /// Sums over the axes that are not among these names.
    fn summed_to(self, kept: &[char]) -> Result<Self, Why> {
        let Self {
            mut buffer,
            mut axes,
        } = self;
        for place in (0..axes.len()).rev() {
            if !kept.contains(&axes[place]) {
                buffer = buffer.sum(Over::from(place as isize).dropped());
                axes.remove(place);
            }
        }
        Self::of(buffer, axes)
    }

    /// Permutes the axes to this order, which names all of them.
    fn ordered(&self, order: &[char]) -> LazyBuffer {
        let place = |axis: &char| self.axes.iter().position(|it| it == axis).unwrap_or(0);
        let axes: Vec<isize> = order.iter().map(|axis| place(axis) as isize).collect();
        self.buffer.permute(axes)
    }

    /// Returns the lengths of these axes.
    fn lengths(&self, axes: &[char]) -> Vec<Size> {
        let shape = self.buffer.shape();
        let all = axes.iter().filter_map(|axis| {
            let place = self.axes.iter().position(|it| it == axis)?;
            Some(shape[place].clone())
        });
        all.collect()
    }

    /// Multiplies with another buffer, and sums over the axes that are not kept: those of one side first, then the
    /// shared ones by the product.
    fn times(self, other: &NamedAxes, kept: &[char]) -> Result<NamedAxes, Why> {
        let both = |axis: &char| other.has(*axis);
        let needed = |axes: &[char], others: &NamedAxes| -> Vec<char> {
            let mut all: Vec<char> = kept.to_vec();
            all.extend(axes.iter().filter(|axis| others.has(**axis)));
            all
        };
        let (of_left, of_right) = (needed(&self.axes, other), needed(&other.axes, &self));
        let right = NamedAxes {
            buffer: other.buffer.clone(),
            axes: other.axes.clone(),
        };
        let shared: Vec<char> = self.axes.iter().copied().filter(both).collect();
        let (left, right) = (self.summed_to(&of_left)?, right.summed_to(&of_right)?);
        let (batch, summed): (Vec<char>, Vec<char>) =
            shared.into_iter().partition(|axis| kept.contains(axis));
        let alone = |named: &NamedAxes| -> Vec<char> {
            let mut axes = named.axes.clone();
            axes.retain(|axis| !batch.contains(axis) && !summed.contains(axis));
            axes
        };
        let (rows, columns) = (alone(&left), alone(&right));
        let count = |lengths: Vec<Size>| Size::product(&lengths).ok_or(why::TOO_LARGE);
        let [b, m, k, n] = [
            count(left.lengths(&batch))?,
            count(left.lengths(&rows))?,
            count(left.lengths(&summed))?,
            count(right.lengths(&columns))?,
        ];
        let shape = [
            left.lengths(&batch),
            left.lengths(&rows),
            right.lengths(&columns),
        ]
        .concat();
        let left = left.ordered(&[&batch[..], &rows, &summed].concat());
        let right = right.ordered(&[&batch[..], &summed, &columns].concat());
        let left = left.reshape([&b, &m, &k]);
        let right = right.reshape([&b, &k, &n]);
        let product = left.matmul(&right).reshape(Shape::from(shape));
        Self::of(product, [batch, rows, columns].concat())
    }
}
