//! Lengths, strides and offsets that may be known only when a schedule runs.
//!
//! A [`Size`] is a polynomial with whole coefficients over *symbols*: lengths that have a name and a greatest value. Two sizes are
//! equal if they are for every value of the symbols, because terms are kept sorted and without zeros. A size without
//! symbols needs no heap.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

/// A length that is known when a schedule runs: one of those of a graph.
#[derive(Clone, Debug)]
pub struct Symbol(Arc<SymbolInfo>);

#[derive(Debug)]
struct SymbolInfo {
    name: String,
    max: u64,
}

impl Symbol {
    /// A length of this name, of at most `max` elements.
    pub fn new(name: impl Into<String>, max: u64) -> Self {
        let name = name.into();
        Self(Arc::new(SymbolInfo { name, max }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The greatest value that it takes.
    pub fn max(&self) -> u64 {
        self.0.max
    }

    fn key(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

impl PartialEq for Symbol {
    /// The same symbol, not one of the same name.
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
    /// Any order that lasts: terms are sorted by it.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl std::hash::Hash for Symbol {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// Symbols multiplied with each other, sorted.
type Factors = SmallVec<[Symbol; 2]>;

/// A whole number that may depend on symbols.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Size {
    constant: i64,
    /// Sorted by factors; no coefficient is zero and no factors are empty.
    terms: Vec<(Factors, i64)>,
}

impl Size {
    /// Zero.
    pub const ZERO: Size = Size::fixed(0);
    /// One.
    pub const ONE: Size = Size::fixed(1);

    /// A known number.
    pub const fn fixed(value: i64) -> Self {
        Self {
            constant: value,
            terms: Vec::new(),
        }
    }

    /// The number, if it depends on no symbol.
    pub fn known(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// Is it this number, whatever the symbols are?
    pub fn is(&self, value: i64) -> bool {
        self.known() == Some(value)
    }

    /// The sum, if no coefficient of it is too large.
    pub fn plus(&self, other: &Size) -> Option<Size> {
        let constant = self.constant.checked_add(other.constant)?;
        let mut terms = self.terms.clone();
        for (factors, coefficient) in &other.terms {
            add_term(&mut terms, factors.clone(), *coefficient)?;
        }
        Some(Size { constant, terms })
    }

    /// The difference, if no coefficient of it is too large.
    pub fn minus(&self, other: &Size) -> Option<Size> {
        self.plus(&other.times(&Size::fixed(-1))?)
    }

    /// The product, if no coefficient of it is too large.
    pub fn times(&self, other: &Size) -> Option<Size> {
        let mut product = Size::fixed(self.constant.checked_mul(other.constant)?);
        for (factors, coefficient) in &self.terms {
            let coefficient = coefficient.checked_mul(other.constant)?;
            add_term(&mut product.terms, factors.clone(), coefficient)?;
        }
        for (factors, coefficient) in &other.terms {
            let scaled = coefficient.checked_mul(self.constant)?;
            add_term(&mut product.terms, factors.clone(), scaled)?;
            for (mine, my_coefficient) in &self.terms {
                let mut both: Factors = mine.iter().chain(factors).cloned().collect();
                both.sort();
                let coefficient = my_coefficient.checked_mul(*coefficient)?;
                add_term(&mut product.terms, both, coefficient)?;
            }
        }
        Some(product)
    }

    /// The quotient, if the other is a product of symbols and a number other than 0, or the same, and nothing is left over.
    pub(crate) fn divided_by(&self, other: &Size) -> Option<Size> {
        if self == other && !other.is(0) {
            return Some(Size::ONE);
        }
        let (factors, number) = match (&other.terms[..], other.constant) {
            ([], constant) => (Factors::new(), constant),
            ([(factors, coefficient)], 0) => (factors.clone(), *coefficient),
            _ => return None,
        };
        let whole = |coefficient: i64| match coefficient.checked_rem(number)? {
            0 => coefficient.checked_div(number),
            _ => None,
        };
        if self.constant != 0 && !factors.is_empty() {
            return None;
        }
        let mut quotient = Size::fixed(whole(self.constant)?);
        for (mine, coefficient) in &self.terms {
            let mut left = mine.clone();
            for factor in &factors {
                let place = left.iter().position(|known| known == factor)?;
                left.remove(place);
            }
            let coefficient = whole(*coefficient)?;
            if left.is_empty() {
                quotient.constant = quotient.constant.checked_add(coefficient)?;
            } else {
                add_term(&mut quotient.terms, left, coefficient)?;
            }
        }
        Some(quotient)
    }

    /// Its value where each symbol has the value that `value` tells; none if that overflows.
    pub fn at(&self, value: &impl Fn(&Symbol) -> u64) -> Option<i64> {
        let mut sum = self.constant;
        for (factors, coefficient) in &self.terms {
            let mut term = *coefficient;
            for symbol in factors {
                term = term.checked_mul(i64::try_from(value(symbol)).ok()?)?;
            }
            sum = sum.checked_add(term)?;
        }
        Some(sum)
    }

    /// Its greatest value: no term is negative, or it is that of the positive ones.
    pub fn max(&self) -> Option<i64> {
        let mut sum = self.constant;
        for (factors, coefficient) in self.terms.iter().filter(|(_, c)| *c > 0) {
            let product = factors.iter().try_fold(*coefficient, |product, symbol| {
                product.checked_mul(i64::try_from(symbol.max()).ok()?)
            })?;
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    /// Its least value where no symbol is negative: at zero, or at the greatest values of the terms that are subtracted.
    pub fn min(&self) -> Option<i64> {
        let negated = self.times(&Size::fixed(-1))?;
        negated.max()?.checked_neg()
    }

    /// The symbols that it depends on, each as often as it occurs.
    pub fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.terms.iter().flat_map(|(factors, _)| factors)
    }

    /// The product of sizes.
    pub fn product<'a>(sizes: impl IntoIterator<Item = &'a Size>) -> Option<Size> {
        sizes
            .into_iter()
            .try_fold(Size::ONE, |product, size| product.times(size))
    }
}

fn add_term(terms: &mut Vec<(Factors, i64)>, factors: Factors, coefficient: i64) -> Option<()> {
    match terms.binary_search_by(|(mine, _)| mine.cmp(&factors)) {
        Ok(index) => {
            let sum = terms[index].1.checked_add(coefficient)?;
            if sum == 0 {
                terms.remove(index);
            } else {
                terms[index].1 = sum;
            }
        }
        Err(index) if coefficient != 0 => terms.insert(index, (factors, coefficient)),
        Err(_) => {}
    }
    Some(())
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
            /// Numbers beyond 2^63 are that many: no buffer is so long, and every check refuses it.
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

    /// A size out of small numbers: `a + b s + c t + d s t`.
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
        fn sizes_are_what_they_are_for_every_value(
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
            // Of a product the other side is left, if this one has one term.
            for divisor in [size(&s, &t, [x[0], 0, 0, 0]), size(&s, &t, [0, x[1], 0, 0]), size(&s, &t, [0, 0, 0, x[3]])] {
                let product = divisor.times(&b).unwrap();
                let expected = (!divisor.is(0)).then_some(b.clone());
                prop_assert_eq!(product.divided_by(&divisor), expected);
            }
        }
    }

    #[test]
    fn sizes_read_as_they_are_written() {
        let t = Symbol::new("t", 8);
        let size = Size::from(&t).times(&Size::fixed(4)).unwrap();
        assert_eq!(size.plus(&Size::fixed(-2)).unwrap().to_string(), "4*t - 2");
        assert_eq!(Size::fixed(-3).to_string(), "-3");
        assert_eq!(Size::from(&t).to_string(), "t");
    }

    #[test]
    fn what_overflows_is_no_size() {
        assert_eq!(Size::fixed(i64::MAX).plus(&Size::ONE), None);
        assert_eq!(Size::fixed(i64::MAX).times(&Size::fixed(2)), None);
    }
}
