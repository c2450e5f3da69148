//! What a launch of a product is to the library: three matrices that lie column by column, perhaps turned, and a stride from one of a
//! batch to the next. Not every launch is that: sides are views here, and may have any strides.

use millstream_ir::Matmul;

/// The library counts in 32 bits in places.
const LENGTH_MAX: i64 = i32::MAX as i64;

/// A product as the library sees it: `d = a b`, of `rows` x `depth` and `depth` x `columns`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Form {
    pub(crate) rows: i64,
    pub(crate) columns: i64,
    pub(crate) depth: i64,
    pub(crate) batch: i64,
    pub(crate) a: Lie,
    pub(crate) b: Lie,
    /// Never turned.
    pub(crate) d: Lie,
    /// `a` is the right side of the launch, and all three are its matrices turned: a result that lies row by row.
    pub(crate) swapped: bool,
}

/// How a matrix lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Lie {
    /// Row by row.
    pub(crate) turned: bool,
    /// Elements from one column to the next, or of a turned one from row to row.
    pub(crate) step: i64,
    /// Elements from one of the batch to the next.
    pub(crate) stride: i64,
}

/// A matrix of a launch: its lengths, and how many elements are from one row and from one column to the next.
#[derive(Clone, Copy)]
struct View {
    lens: [i64; 2],
    strides: [i64; 2],
}

impl View {
    fn turned(self) -> Self {
        let ([rows, columns], [down, right]) = (self.lens, self.strides);
        Self {
            lens: [columns, rows],
            strides: [right, down],
        }
    }

    /// The step of a matrix that lies column by column, if this one does. Along an axis of one element nobody goes.
    fn step(self) -> Option<i64> {
        let ([rows, columns], [down, right]) = (self.lens, self.strides);
        if down != 1 && rows != 1 {
            return None;
        }
        match columns {
            1 => Some(rows),
            _ => (rows..=LENGTH_MAX).contains(&right).then_some(right),
        }
    }

    fn lie(self, stride: i64) -> Option<Lie> {
        let lie = |turned| {
            move |step| Lie {
                turned,
                step,
                stride,
            }
        };
        let straight = self.step().map(lie(false));
        straight.or_else(|| self.turned().step().map(lie(true)))
    }
}

impl Form {
    /// What a launch with these words is, if the library can do it. `None` of products of nothing, too.
    pub(crate) fn of(matmul: &Matmul, words: &[u64]) -> Option<Self> {
        let axes = matmul.batch;
        let word = |at: usize| words.get(at).map(|word| *word as i64);
        let (m, n, k) = (word(axes)?, word(axes + 1)?, word(axes + 2)?);
        if [m, n, k].iter().any(|len| !(1..=LENGTH_MAX).contains(len)) {
            return None;
        }
        let first = axes + 3;
        let side = |index: usize| first + index * (axes + 2);
        let view = |index: usize, lens| {
            let at = side(index) + axes;
            let strides = [word(at)?, word(at + 1)?];
            Some(View { lens, strides })
        };
        let (lhs, rhs, out) = (view(0, [m, k])?, view(1, [k, n])?, view(2, [m, n])?);
        let (batch, strides) = batch(axes, |axis| {
            Some((word(axis)?, [0, 1, 2].map(|index| word(side(index) + axis))))
        })?;
        let [of_lhs, of_rhs, of_out] = strides;
        // A result that lies row by row is its turned one, column by column.
        let swapped = out.step().is_none();
        let ((a, of_a), (b, of_b), d) = match swapped {
            false => ((lhs, of_lhs), (rhs, of_rhs), out),
            true => ((rhs.turned(), of_rhs), (lhs.turned(), of_lhs), out.turned()),
        };
        let d_lie = Lie {
            turned: false,
            step: d.step()?,
            stride: of_out,
        };
        Some(Self {
            rows: d.lens[0],
            columns: d.lens[1],
            depth: k,
            batch,
            a: a.lie(of_a)?,
            b: b.lie(of_b)?,
            d: d_lie,
            swapped,
        })
    }

    /// How many multiplications it takes.
    pub(crate) fn multiplications(&self) -> u64 {
        let all = [self.rows, self.columns, self.depth, self.batch];
        all.iter()
            .fold(1_u64, |product, len| product.saturating_mul(*len as u64))
    }
}

/// All batch axes as one, and the strides of the three along it, if there is such an axis.
fn batch(
    axes: usize,
    axis: impl Fn(usize) -> Option<(i64, [Option<i64>; 3])>,
) -> Option<(i64, [i64; 3])> {
    let mut whole: Option<(i64, [i64; 3])> = None;
    for index in (0..axes).rev() {
        let (len, strides) = axis(index)?;
        let [Some(lhs), Some(rhs), Some(out)] = strides else {
            return None;
        };
        let strides = [lhs, rhs, out];
        if len == 1 {
            continue;
        }
        whole = match whole {
            None => Some((len, strides)),
            // One step of the outer is all steps of the inner, in each of the three.
            Some((inner, steps)) => {
                let on = steps.map(|step| step.checked_mul(inner));
                if strides.map(Some) != on {
                    return None;
                }
                Some((len.checked_mul(inner)?, steps))
            }
        };
    }
    let (len, strides) = whole.unwrap_or((1, [0; 3]));
    (1..=LENGTH_MAX).contains(&len).then_some((len, strides))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matmul(batch: usize) -> Matmul {
        Matmul {
            dtype: millstream_ir::DType::F32,
            partial: false,
            batch,
            epilogue: None,
        }
    }

    fn form(batch: usize, words: &[i64]) -> Option<Form> {
        let words: Vec<u64> = words.iter().map(|word| *word as u64).collect();
        Form::of(&matmul(batch), &words)
    }

    /// Where element `[row, column]` of the `index`th of a batch lies, as the library goes there.
    fn place(lie: Lie, index: i64, row: i64, column: i64) -> i64 {
        let (fast, slow) = match lie.turned {
            false => (row, column),
            true => (column, row),
        };
        index * lie.stride + fast + slow * lie.step
    }

    /// All that the library reads and writes is what the launch says, element by element.
    #[test]
    fn a_form_reads_and_writes_what_the_launch_says() {
        let lens = [1, 2, 3];
        let mut taken = 0;
        for (m, n, k, outer) in itertools(lens) {
            for strides in 0..27 {
                // Of each side: row by row, column by column, or with gaps.
                let of = |which: i64, rows: i64, columns: i64| match which {
                    0 => [rows * columns, columns, 1],
                    1 => [rows * columns, 1, rows],
                    _ => [0, columns + 2, 1],
                };
                let lhs = of(strides % 3, m, k);
                let rhs = of(strides / 3 % 3, k, n);
                let mut out = of(strides / 9, m, n);
                if out[0] == 0 {
                    out[0] = m * (n + 2);
                }
                let words = [&[outer, m, n, k][..], &lhs, &rhs, &out, &[0, 0, 0]].concat();
                let Some(form) = form(1, &words) else {
                    continue;
                };
                taken += 1;
                assert_eq!((form.depth, form.batch), (k, outer));
                let at = |strides: [i64; 3], b, row, column| {
                    b * strides[0] + row * strides[1] + column * strides[2]
                };
                for (b, i, j, l) in all([outer, m, n, k]) {
                    let (lhs, rhs, out) = (at(lhs, b, i, l), at(rhs, b, l, j), at(out, b, i, j));
                    let (found, expected) = match form.swapped {
                        false => (
                            [
                                place(form.a, b, i, l),
                                place(form.b, b, l, j),
                                place(form.d, b, i, j),
                            ],
                            [lhs, rhs, out],
                        ),
                        true => (
                            [
                                place(form.a, b, j, l),
                                place(form.b, b, l, i),
                                place(form.d, b, j, i),
                            ],
                            [rhs, lhs, out],
                        ),
                    };
                    assert_eq!(found, expected, "{words:?}: {form:?}");
                }
            }
        }
        assert!(taken > 1000, "{taken} of the launches were taken");
    }

    fn itertools(lens: [i64; 3]) -> impl Iterator<Item = (i64, i64, i64, i64)> {
        let each = move |index: usize| lens[index % 3];
        (0..81).map(move |at| (each(at), each(at / 3), each(at / 9), each(at / 27)))
    }

    fn all([b, m, n, k]: [i64; 4]) -> impl Iterator<Item = (i64, i64, i64, i64)> {
        (0..b * m * n * k).map(move |at| (at / (m * n * k), at / (n * k) % m, at / k % n, at % k))
    }

    #[test]
    fn views_that_the_library_does_not_know_are_left() {
        let words = |lhs: [i64; 2]| {
            let [down, right] = lhs;
            [4, 4, 4, down, right, 4, 1, 4, 1, 0, 0, 0]
        };
        assert!(form(0, &words([4, 1])).is_some());
        assert_eq!(form(0, &words([8, 2])), None, "a gap along both axes");
        assert_eq!(form(0, &words([-4, 1])), None, "turned over");
        assert_eq!(form(0, &words([0, 1])), None, "one row for all");
        assert_eq!(form(0, &words([2, 1])), None, "rows that overlap");
        assert_eq!(
            form(0, &[4, 0, 4, 4, 1, 4, 1, 4, 1, 0, 0, 0]),
            None,
            "nothing"
        );
    }

    #[test]
    fn batch_axes_are_one_where_each_matrix_goes_on_alike() {
        let of = |lhs: [i64; 2], rhs: [i64; 2]| {
            let side = |[outer, inner]: [i64; 2]| [outer, inner, 4, 1];
            let words = [
                &[2, 3, 4, 4, 4][..],
                &side(lhs),
                &side(rhs),
                &side([48, 16]),
                &[0, 0, 0],
            ];
            form(2, &words.concat()).map(|form| (form.batch, form.a.stride, form.b.stride))
        };
        // The result lies row by row: the right side is `a`.
        assert_eq!(of([48, 16], [48, 16]), Some((6, 16, 16)));
        assert_eq!(
            of([48, 16], [0, 0]),
            Some((6, 0, 16)),
            "all share the right side"
        );
        assert_eq!(of([48, 16], [16, 0]), None, "some share it");
    }
}
