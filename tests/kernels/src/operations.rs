//! Every operation on every type as a function of one element for each thread, with operands that reach its edges and
//! the results that [`scalar`] defines.

use millstream_ir::scalar::{self, Number};
use millstream_ir::ssa::{Builder, Function, Val};
use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp};

/// An operation on a type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Case {
    /// An operation on one value.
    Unary(UnaryOp, DType),
    /// An operation on two values.
    Binary(BinaryOp, DType),
    /// A comparison.
    Compare(CompareOp, DType),
    /// A cast.
    Cast(DType, DType),
    /// `a * b + c`.
    Fma(DType),
    /// A random number.
    Random,
}

impl Case {
    /// Returns all cases.
    pub fn all() -> Vec<Case> {
        let mut all = vec![Case::Random];
        for dtype in DType::ALL {
            let unary = UnaryOp::ALL.iter().filter(|op| op.takes(dtype));
            all.extend(unary.map(|op| Case::Unary(*op, dtype)));
            let binary = BinaryOp::ALL.iter().filter(|op| op.takes(dtype));
            all.extend(binary.map(|op| Case::Binary(*op, dtype)));
            all.extend(CompareOp::ALL.iter().map(|op| Case::Compare(*op, dtype)));
            all.extend(DType::ALL.map(|to| Case::Cast(dtype, to)));
            if scalar::fma(dtype).is_some() {
                all.push(Case::Fma(dtype));
            }
        }
        all
    }

    /// Returns the types of the operands.
    pub fn operands(self) -> Vec<DType> {
        match self {
            Case::Unary(_, dtype) | Case::Cast(dtype, _) => vec![dtype],
            Case::Binary(_, dtype) | Case::Compare(_, dtype) => vec![dtype; 2],
            Case::Fma(dtype) => vec![dtype; 3],
            Case::Random => vec![DType::U64, DType::I64],
        }
    }

    /// Returns the type of the result.
    pub fn result(self) -> DType {
        match self {
            Case::Unary(_, dtype) | Case::Binary(_, dtype) | Case::Fma(dtype) => dtype,
            Case::Cast(_, to) => to,
            Case::Compare(..) => DType::Bool,
            Case::Random => DType::U32,
        }
    }

    /// Returns by how many units in the last place a result of a float may differ from the reference.
    pub fn units(self) -> u64 {
        match self {
            Case::Unary(op, _) => op.units(),
            Case::Binary(op, _) => op.units(),
            _ => 0,
        }
    }

    /// Returns the function: buffers `a0`, `a1`, .. of operands, `result`, and the number of elements `n`, for cubes of
    /// 64 threads along x.
    pub fn function(self) -> Function {
        let k = Builder::new("case", [64, 1, 1]);
        let operands = self.operands().into_iter().enumerate();
        let operands = operands.map(|(index, dtype)| k.read(format!("a{index}"), dtype));
        let operands: Vec<_> = operands.collect();
        let result = k.write("result", self.result());
        let n = k.scalar("n", DType::I64);
        k.range(k.index(), n, k.count(), |i| {
            let operands: Vec<Val<'_>> = operands.iter().map(|memory| memory.get(i)).collect();
            let value = match self {
                Case::Unary(op, _) => operands[0].unary(op),
                Case::Binary(op, _) => operands[0].binary(op, operands[1]),
                Case::Compare(op, _) => operands[0].compare(op, operands[1]),
                Case::Cast(_, to) => operands[0].cast(to),
                Case::Fma(_) => operands[0].fma(operands[1], operands[2]),
                Case::Random => k.random(operands[0], operands[1]),
            };
            result.set(i, value);
        });
        drop(operands);
        match k.build() {
            Ok(function) => function,
            Err(error) => unreachable!("{self:?} is valid: {error}"),
        }
    }

    /// Returns the result for operands, as bits.
    pub fn reference(self, operands: &[u64]) -> u64 {
        match (self, operands) {
            (Case::Unary(op, dtype), [a]) => scalar::unary(op, dtype).map(|f| f(*a)),
            (Case::Binary(op, dtype), [a, b]) => scalar::binary(op, dtype).map(|f| f(*a, *b)),
            (Case::Compare(op, dtype), [a, b]) => Some(scalar::compare(op, dtype)(*a, *b)),
            (Case::Cast(from, to), [a]) => Some(scalar::cast(from, to)(*a)),
            (Case::Fma(dtype), [a, b, c]) => scalar::fma(dtype).map(|f| f(*a, *b, *c)),
            (Case::Random, [seed, counter]) => Some(scalar::random(*seed, *counter)),
            _ => None,
        }
        .unwrap_or_default()
    }

    /// Returns `count` tuples of operands, as bits: all pairs of edges first, then random bits, exponents and numbers
    /// of usual size. Always the same.
    pub fn inputs(self, count: usize) -> Vec<Vec<u64>> {
        let types = self.operands();
        let edges: Vec<Vec<u64>> = types.iter().map(|dtype| edges(*dtype)).collect();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let combined = edges.iter().map(Vec::len).product::<usize>();
        let tuple = |mut at: usize| {
            let of = |edges: &Vec<u64>| {
                let edge = edges[at % edges.len()];
                at /= edges.len();
                edge
            };
            edges.iter().map(of).collect()
        };
        // Of triples of floats there are too many.
        let step = combined.div_ceil(count / 2).max(1);
        let mut all: Vec<Vec<u64>> = (0..combined).step_by(step).map(tuple).collect();
        while all.len() < count {
            let kind = random.next() % 4;
            all.push(
                types
                    .iter()
                    .map(|dtype| random.value(*dtype, kind))
                    .collect(),
            );
        }
        all.truncate(count);
        all
    }

    /// Returns the distance of a result from the reference in units in the last place; 0 for two NaN or zeros.
    pub fn distance(self, found: u64, expected: u64) -> u64 {
        distance(self.result(), found, expected)
    }
}

/// Returns the number of floats between two of them, and 0 for two NaN; for other types whether the bits differ.
pub fn distance(dtype: DType, found: u64, expected: u64) -> u64 {
    if !dtype.is_float() {
        return u64::from(found != expected);
    }
    let is_nan = |bits| Number::of(dtype, bits).is_nan();
    match (is_nan(found), is_nan(expected)) {
        (true, true) => return 0,
        (false, false) => {}
        _ => return u64::MAX,
    }
    // Signed magnitudes as a line of integers.
    let sign = 1_u64 << (8 * dtype.size() - 1);
    let line = |bits: u64| {
        let magnitude = (bits & (sign - 1)) as i64;
        if bits & sign == 0 {
            magnitude
        } else {
            -magnitude
        }
    };
    line(found).abs_diff(line(expected))
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn value(&mut self, dtype: DType, kind: u64) -> u64 {
        let bits = scalar::of_word(dtype, self.next());
        let unit = self.next() as f64 / u64::MAX as f64 * 2.0 - 1.0;
        match (dtype.is_float(), kind) {
            // All exponents are equally likely.
            (_, 0) => bits,
            (true, 1) => Number::Float(unit).bits(dtype),
            (true, 2) => Number::Float(unit * 40.0).bits(dtype),
            (true, _) => Number::Float(unit * 1000.0).bits(dtype),
            (false, 1) => scalar::of_word(dtype, bits % 16),
            (false, 2) => scalar::of_word(dtype, (bits % 16).wrapping_neg()),
            (false, _) => scalar::of_word(dtype, bits >> (self.next() % 64)),
        }
    }
}

/// Returns values at the edges of a type.
pub fn edges(dtype: DType) -> Vec<u64> {
    let bits = 8 * dtype.size() as u32;
    let of = |value: f64| Number::Float(value).bits(dtype);
    if dtype.is_float() {
        let digits = match dtype {
            DType::F64 => 52,
            DType::F32 => 23,
            DType::F16 => 10,
            _ => 7,
        };
        let sign = 1_u64 << (bits - 1);
        let infinity = of(f64::INFINITY);
        let one = of(1.0);
        let half = 1_u64 << (digits - 1);
        let positive = [
            0,
            1,
            2,
            half,
            (1 << digits) - 1,
            1 << digits,
            (1 << digits) + 1,
            infinity - 1,
            infinity,
            infinity | half,
            one - 1,
            one,
            one + 1,
            of(2.0),
            of(3.0),
            of(0.5),
            of(1.5),
            of(127.5),
            of(255.5),
            of(32768.0),
            of(65504.0),
            of(65520.0),
            of(2_147_483_647.0),
            of(2_147_483_648.0),
            of(4_294_967_296.0),
            of(9_223_372_036_854_775_807.0),
            of(18_446_744_073_709_551_615.0),
            of(std::f64::consts::FRAC_PI_2),
            of(std::f64::consts::PI),
            of(88.7),
            of(104.0),
            of(709.7),
            of(745.2),
            of(1e22),
            of(0.55),
            of(0.625),
            of(0.84375),
            of(1.25),
        ];
        return positive
            .into_iter()
            .flat_map(|bits| [bits, bits | sign])
            .collect();
    }
    if dtype == DType::Bool {
        return vec![0, 1];
    }
    let all = u64::MAX >> (64 - bits);
    let middle = 1_u64 << (bits - 1);
    let mut found = vec![0, 1, 2, 3, 7, all, all - 1, middle, middle - 1, middle + 1];
    found.extend([7, 8, 15, 16, 31, 32, 33, 63, 64, 65].map(|by| by & all));
    found.extend([24, 25, 53, 54].map(|by| ((1_u64 << by) + 1) & all));
    found
}
