//! Einstein summation: products of buffers with named axes.

use crate::error::{By, Why, why};
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::reduce::Over;
use crate::shape::Shape;
use crate::size::Size;
use std::collections::BTreeMap;

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
        LazyBuffer::composed(By::new("einsum"), &buffers, || {
            let (named, result, lengths) = parsed(terms, &buffers).map_err(Why::from)?;
            // The number of products whose sum is one element of the result.
            let summed = lengths.iter().filter(|(axis, _)| !result.contains(axis));
            let summed = Size::product(summed.map(|(_, length)| length)).ok_or(why::TOO_LARGE)?;
            let mut terms = named.into_iter();
            let mut product = terms.next().ok_or(why::NOTHING)?;
            while let Some(next) = terms.next() {
                let later = terms.as_slice().iter().flat_map(|term| &term.axes);
                let kept: Vec<char> = result.iter().chain(later).copied().collect();
                product = product.times(next, &kept, &lengths)?;
            }
            let sum = product.summed_to(&result).ordered(&result);
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

/// The length of each named axis.
type Lengths = BTreeMap<char, Size>;

/// Parses the terms. Returns the buffers with the names of their axes, the names of the result, and all lengths.
fn parsed(
    terms: &str,
    buffers: &[&LazyBuffer],
) -> Result<(Vec<NamedAxes>, Vec<char>, Lengths), String> {
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
    let mut lengths = Lengths::new();
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
            let known = lengths.entry(*axis).or_insert_with(|| length.clone());
            if known != length {
                return Err(format!(
                    "the lengths {known} and {length} of `{axis}` differ"
                ));
            }
        }
        let buffer = (*buffer).clone();
        named.push(NamedAxes { buffer, axes });
    }
    match result.iter().find(|axis| !lengths.contains_key(axis)) {
        Some(missing) => Err(format!(
            "`{missing}` of the result occurs in no term: name only axes of the buffers"
        )),
        None => Ok((named, result, lengths)),
    }
}

impl NamedAxes {
    /// Sums over the axes that are not among these names.
    fn summed_to(mut self, kept: &[char]) -> Self {
        for place in (0..self.axes.len()).rev() {
            if !kept.contains(&self.axes[place]) {
                self.buffer = self.buffer.sum(Over::from(place as isize).dropped());
                self.axes.remove(place);
            }
        }
        self
    }

    /// Permutes the axes to this order, which names all of them.
    fn ordered(&self, order: &[char]) -> LazyBuffer {
        let place = |axis: &char| self.axes.iter().position(|it| it == axis).unwrap_or(0);
        let axes: Vec<isize> = order.iter().map(|axis| place(axis) as isize).collect();
        self.buffer.permute(axes)
    }

    /// Multiplies with another buffer, and sums over the axes that are not kept: those of one side first, then the
    /// shared ones by the product.
    fn times(self, other: Self, kept: &[char], lengths: &Lengths) -> Result<Self, Why> {
        let shared = self.axes.iter().copied();
        let shared: Vec<char> = shared.filter(|axis| other.axes.contains(axis)).collect();
        let needed = [kept, &shared].concat();
        let (left, right) = (self.summed_to(&needed), other.summed_to(&needed));
        let (batch, summed): (Vec<char>, Vec<char>) =
            shared.into_iter().partition(|axis| kept.contains(axis));
        let alone = |named: &Self| -> Vec<char> {
            let mut axes = named.axes.clone();
            axes.retain(|axis| !batch.contains(axis) && !summed.contains(axis));
            axes
        };
        let (rows, columns) = (alone(&left), alone(&right));
        let of = |axes: &[char]| -> Vec<Size> {
            let axes = axes.iter().filter_map(|axis| lengths.get(axis));
            axes.cloned().collect()
        };
        let count = |axes: &[char]| Size::product(&of(axes)).ok_or(why::TOO_LARGE);
        let (b, m, k, n) = (
            count(&batch)?,
            count(&rows)?,
            count(&summed)?,
            count(&columns)?,
        );
        let left = left.ordered(&[&batch[..], &rows, &summed].concat());
        let right = right.ordered(&[&batch[..], &summed, &columns].concat());
        let product = left
            .reshape([&b, &m, &k])
            .matmul(&right.reshape([&b, &k, &n]));
        let axes = [batch, rows, columns].concat();
        let buffer = product.reshape(Shape::from(of(&axes)));
        Ok(Self { buffer, axes })
    }
}
