//! Lengths, strides and offsets that may be unknown until a schedule runs.
//!
//! A [`Size`] is a polynomial with integer coefficients over *symbols*: lengths with a name and a maximum. Terms are
//! sorted and have no zero coefficients, so two sizes are equal exactly if they have the same value for all values of
//! the symbols. A size without symbols needs no heap.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

/// A length of a graph that each run sets.
#[derive(Clone, Debug)]
pub struct Symbol(Arc<SymbolInfo>);

#[derive(Debug)]
struct SymbolInfo {
    name: String,
    max: u64,
}

impl Symbol {
    /// Creates a length with this name, of at most `max` elements.
    pub fn new(name: impl Into<String>, max: u64) -> Self {
        let name = name.into();
        Self(Arc::new(SymbolInfo { name, max }))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the maximum.
    pub fn max(&self) -> u64 {
        self.0.max
    }

    fn key(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

impl PartialEq for Symbol {
    /// Compares identity: two symbols of the same name differ.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Symbol {}

impl PartialOrd for Symbol {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Symbol {
    /// An arbitrary but stable order, to sort terms.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl std::hash::Hash for Symbol {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// A product of symbols, sorted.
type Factors = SmallVec<[Symbol; 2]>;

/// An integer that may depend on symbols.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Size {
    constant: i64,
    /// Sorted by factors; no coefficient is zero, and no product is empty.
    terms: Vec<(Factors, i64)>,
}

impl Size {
    /// Zero.
    pub const ZERO: Size = Size::fixed(0);
    /// One.
    pub const ONE: Size = Size::fixed(1);

    /// Creates a known number.
    pub const fn fixed(value: i64) -> Self {
        Self {
            constant: value,
            terms: Vec::new(),
        }
    }

    /// Returns the number, if it depends on no symbol.
    pub fn known(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// Returns `true` if it is this number for all values of the symbols.
    pub fn is(&self, value: i64) -> bool {
        self.known() == Some(value)
    }

    /// Returns all terms: the constant, which has no factors, and the others.
    fn all(&self) -> impl Iterator<Item = (&[Symbol], i64)> {
        let terms = self
            .terms
            .iter()
            .map(|(factors, coefficient)| (&factors[..], *coefficient));
        std::iter::once((&[][..], self.constant)).chain(terms)
    }

    /// Adds a term. `None` if a coefficient overflows.
    fn add(&mut self, factors: &[Symbol], coefficient: i64) -> Option<()> {
        if factors.is_empty() {
            self.constant = self.constant.checked_add(coefficient)?;
            return Some(());
        }
        match self
            .terms
            .binary_search_by(|(mine, _)| mine[..].cmp(factors))
        {
            Ok(index) => match self.terms[index].1.checked_add(coefficient)? {
                0 => drop(self.terms.remove(index)),
                sum => self.terms[index].1 = sum,
            },
            Err(index) if coefficient != 0 => {
                self.terms
                    .insert(index, (factors.iter().cloned().collect(), coefficient));
            }
            Err(_) => {}
        }
        Some(())
    }

    /// Returns the sum, or `None` if a coefficient overflows.
    pub fn plus(&self, other: &Size) -> Option<Size> {
        let mut sum = self.clone();
        for (factors, coefficient) in other.all() {
            sum.add(factors, coefficient)?;
        }
        Some(sum)
    }

    /// Returns the difference, or `None` if a coefficient overflows.
    pub fn minus(&self, other: &Size) -> Option<Size> {
        self.plus(&other.times(&Size::fixed(-1))?)
    }

    /// Returns the product, or `None` if a coefficient overflows.
    pub fn times(&self, other: &Size) -> Option<Size> {
        let mut product = Size::ZERO;
        for (mine, my_coefficient) in self.all() {
            for (theirs, coefficient) in other.all() {
                let mut both: Factors = mine.iter().chain(theirs).cloned().collect();
                both.sort();
                product.add(&both, my_coefficient.checked_mul(coefficient)?)?;
            }
        }
        Some(product)
    }

    /// Returns the quotient without remainder, if the divisor is equal to this size or a non-zero product of symbols
    /// and a number.
    pub(crate) fn divided_by(&self, other: &Size) -> Option<Size> {
        if self == other && !other.is(0) {
            return Some(Size::ONE);
        }
        let mut divisor = other.all().filter(|(_, coefficient)| *coefficient != 0);
        let (Some((factors, number)), None) = (divisor.next(), divisor.next()) else {
            return None;
        };
        let mut quotient = Size::ZERO;
        for (mine, coefficient) in self.all().filter(|(_, coefficient)| *coefficient != 0) {
            let mut left: Factors = mine.iter().cloned().collect();
            for factor in factors {
                let place = left.iter().position(|known| known == factor)?;
                left.remove(place);
            }
            if coefficient.checked_rem(number)? != 0 {
                return None;
            }
            quotient.add(&left, coefficient / number)?;
        }
        Some(quotient)
    }

    /// Returns the value for these values of the symbols, or `None` if it overflows.
    pub fn at(&self, value: &impl Fn(&Symbol) -> u64) -> Option<i64> {
        Self::sum(self.all(), value)
    }

    /// Returns the maximum if no term is negative, otherwise an upper bound: the maximum of the positive terms.
    pub fn max(&self) -> Option<i64> {
        let is_counted =
            |(factors, coefficient): &(&[Symbol], i64)| factors.is_empty() || *coefficient > 0;
        Self::sum(self.all().filter(is_counted), &Symbol::max)
    }

    fn sum<'a>(
        mut terms: impl Iterator<Item = (&'a [Symbol], i64)>,
        value: &impl Fn(&Symbol) -> u64,
    ) -> Option<i64> {
        terms.try_fold(0_i64, |sum, (factors, coefficient)| {
            let product = factors.iter().try_fold(coefficient, |product, symbol| {
                product.checked_mul(i64::try_from(value(symbol)).ok()?)
            });
            sum.checked_add(product?)
        })
    }

    /// Returns the minimum if no term is positive, otherwise a lower bound: each subtracted term at its maximum, all
    /// others zero.
    pub fn min(&self) -> Option<i64> {
        let negated = self.times(&Size::fixed(-1))?;
        negated.max()?.checked_neg()
    }

    /// Returns `true` unless it is at least 0 for all values of the symbols.
    pub(crate) fn may_be_negative(&self) -> bool {
        self.min().is_none_or(|least| least < 0)
    }

    /// Returns the symbols that it depends on, each as often as it occurs.
    pub fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.terms.iter().flat_map(|(factors, _)| factors)
    }

    /// Returns the product of sizes, or `None` if a coefficient overflows.
    pub fn product<'a>(sizes: impl IntoIterator<Item = &'a Size>) -> Option<Size> {
        sizes
            .into_iter()
            .try_fold(Size::ONE, |product, size| product.times(size))
    }
}

impl From<&Symbol> for Size {
    fn from(symbol: &Symbol) -> Self {
        let factors = Factors::from_iter([symbol.clone()]);
        Self {
            constant: 0,
            terms: vec![(factors, 1)],
        }
    }
}

macro_rules! fixed_sizes {
    ($($rust:ty),*) => {$(
        impl From<$rust> for Size {
            /// Saturates at `i64::MAX`: no buffer is so long, and every check refuses it.
            fn from(value: $rust) -> Self {
                Size::fixed(i64::try_from(value).unwrap_or(i64::MAX))
            }
        }
    )*};
}

fixed_sizes! { usize, u64, u32, i32, i64 }

impl From<&Size> for Size {
    fn from(size: &Size) -> Self {
        size.clone()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (factors, coefficient) in &self.terms {
            let sign = match (first, *coefficient < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            };
            f.write_str(sign)?;
            if coefficient.unsigned_abs() != 1 {
                write!(f, "{}*", coefficient.unsigned_abs())?;
            }
            for (index, symbol) in factors.iter().enumerate() {
                let times = if index > 0 { "*" } else { "" };
                write!(f, "{times}{}", symbol.name())?;
            }
            first = false;
        }
        match (first, self.constant) {
            (true, constant) => write!(f, "{constant}"),
            (false, 0) => Ok(()),
            (false, constant) if constant < 0 => write!(f, " - {}", constant.unsigned_abs()),
            (false, constant) => write!(f, " + {constant}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns `a + b s + c t + d s t`.
    fn size(s: &Symbol, t: &Symbol, [a, b, c, d]: [i64; 4]) -> Size {
        let (s, t) = (Size::from(s), Size::from(t));
        let term = |size: &Size, factor: i64| size.times(&Size::fixed(factor)).unwrap();
        let st = s.times(&t).unwrap();
        let terms = [term(&s, b), term(&t, c), term(&st, d)];
        terms
            .iter()
            .fold(Size::fixed(a), |sum, term| sum.plus(term).unwrap())
    }

    proptest! {
        #[test]
        fn arithmetic_on_sizes_agrees_with_arithmetic_on_values(
            x in prop::array::uniform4(-9_i64..9), y in prop::array::uniform4(-9_i64..9), at in (0_u64..50, 0_u64..50),
        ) {
            let (s, t) = (Symbol::new("s", 50), Symbol::new("t", 50));
            let value = |symbol: &Symbol| if *symbol == s { at.0 } else { at.1 };
            let (a, b) = (size(&s, &t, x), size(&s, &t, y));
            let (p, q) = (a.at(&value).unwrap(), b.at(&value).unwrap());
            prop_assert_eq!(a.plus(&b).unwrap().at(&value), Some(p + q));
            prop_assert_eq!(a.minus(&b).unwrap().at(&value), Some(p - q));
            prop_assert_eq!(a.times(&b).unwrap().at(&value), Some(p * q));
            prop_assert_eq!(a.times(&b), b.times(&a));
            prop_assert!(a.min().unwrap() <= p && p <= a.max().unwrap());
            prop_assert!(a.minus(&a).unwrap().is(0));
            // A product divided by a side with one term is the other side.
            for divisor in [size(&s, &t, [x[0], 0, 0, 0]), size(&s, &t, [0, x[1], 0, 0]), size(&s, &t, [0, 0, 0, x[3]])] {
                let product = divisor.times(&b).unwrap();
                let expected = (!divisor.is(0)).then_some(b.clone());
                prop_assert_eq!(product.divided_by(&divisor), expected);
            }
        }
    }

    #[test]
    fn sizes_are_displayed_as_polynomials() {
        let t = Symbol::new("t", 8);
        let size = Size::from(&t).times(&Size::fixed(4)).unwrap();
        assert_eq!(size.plus(&Size::fixed(-2)).unwrap().to_string(), "4*t - 2");
        assert_eq!(Size::fixed(-3).to_string(), "-3");
        assert_eq!(Size::from(&t).to_string(), "t");
    }

    #[test]
    fn overflow_returns_none() {
        assert_eq!(Size::fixed(i64::MAX).plus(&Size::ONE), None);
        assert_eq!(Size::fixed(i64::MAX).times(&Size::fixed(2)), None);
    }
}
