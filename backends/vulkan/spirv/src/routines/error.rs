//! The error function: of `f32` after N. Juffa, of `f64` after FreeBSD's `s_erf.c`.

use millstream_ir::CompareOp;
use millstream_ir::ssa::Val;

use super::math::Math;

const NEAR_F32: [f64; 6] = [
    -5.967_617e-4,
    4.991_194_2e-3,
    -2.676_813_5e-2,
    1.128_199_2e-1,
    -3.761_253_4e-1,
    1.283_791_7e-1,
];

/// Numerator and denominator of (erf x - x) / x in x^2, for x up to 0.84375.
const NEAR_F64: [&[f64]; 2] = [
    &[
        -2.376_301_665_665_016_3e-5,
        -5.770_270_296_489_442e-3,
        -2.848_174_957_559_851e-2,
        -3.250_421_072_470_015e-1,
        1.283_791_670_955_125_6e-1,
    ],
    &[
        -3.960_228_278_775_368e-6,
        1.324_947_380_043_216_4e-4,
        5.081_306_281_875_766e-3,
        6.502_224_998_876_73e-2,
        3.979_172_239_591_553_5e-1,
        1.0,
    ],
];

/// erf 1, to 32 bits.
const OF_ONE: f64 = 8.450_629_115_104_675e-1;
/// The same of erf x - erf 1 in x - 1, for x up to 1.25.
const MIDDLE_F64: [&[f64]; 2] = [
    &[
        -2.166_375_594_868_791e-3,
        3.547_830_432_561_823_6e-2,
        -1.108_946_942_823_966_8e-1,
        3.183_466_199_011_617_5e-1,
        -3.722_078_760_357_013e-1,
        4.148_561_186_837_483e-1,
        -2.362_118_560_752_659_4e-3,
    ],
    &[
        1.198_449_984_679_911e-2,
        1.363_708_391_202_905e-2,
        1.261_712_198_087_616_4e-1,
        7.182_865_441_419_627e-2,
        5.403_979_177_021_71e-1,
        1.064_208_804_008_442_3e-1,
        1.0,
    ],
];

/// The same of ln(x (1 - erf x)) + x^2 + 0.5625 in 1 / x^2, for greater x. FreeBSD has another table beyond 1 / 0.35; the
/// error of this one is there below 1/400 of a unit of the result.
const FAR_F64: [&[f64]; 2] = [
    &[
        -9.814_329_344_169_145,
        -8.128_743_550_630_66e1,
        -1.846_050_929_067_110_4e2,
        -1.623_966_694_625_734_7e2,
        -6.237_533_245_032_601e1,
        -1.055_862_622_532_329_1e1,
        -6.938_585_727_071_818e-1,
        -9.864_944_034_847_148e-3,
    ],
    &[
        -6.042_441_521_485_81e-2,
        6.570_249_770_319_282,
        1.086_350_055_417_794_4e2,
        4.290_081_400_275_678_3e2,
        6.453_872_717_332_679e2,
        4.345_658_774_752_292_3e2,
        1.376_577_541_435_190_4e2,
        1.965_127_166_743_925_7e1,
        1.0,
    ],
];

impl<'k> Math<'k> {
    /// Returns erf x.
    pub(super) fn erf(self, x: Val<'k>) -> Val<'k> {
        match self.is_f64() {
            true => self.erf_f64(x),
            false => self.erf_f32(x),
        }
    }

    fn erf_f32(self, x: Val<'k>) -> Val<'k> {
        let t = self.abs(x);
        // Beyond 4 the result is one.
        let t = t.compare(CompareOp::Gt, 4.0).select(self.number(4.0), t);
        let s = t * t;
        let p = self.polynomial(&[-1.728_534_7e-5, 3.831_972e-4], t);
        let u = self.polynomial(&[-3.883_964_4e-3, 2.425_462_2e-2], t);
        let mut p = p * s + u;
        for term in [-1.067_778_8e-1, -6.348_468_7e-1, -1.287_175_1e-1] {
            p = p * t + term;
        }
        let far = self.number(1.0) - self.exp(p * t - t);
        let near = self.polynomial(&NEAR_F32, s) * x + x;
        t.compare(CompareOp::Gt, 0.927_734_4)
            .select(self.with_sign(far, x), near)
    }

    fn erf_f64(self, x: Val<'k>) -> Val<'k> {
        let t = self.abs(x);
        let ratio = |[over, under]: [&[f64]; 2], at: Val<'k>| {
            self.polynomial(over, at) / self.polynomial(under, at)
        };
        let found = self.k.var("found", self.number(0.0));
        self.k.either(
            t.lt(0.84375),
            || {
                let y = ratio(NEAR_F64, x * x);
                found.set(t * y + t);
            },
            || {
                self.k.either(
                    t.lt(1.25),
                    || found.set(ratio(MIDDLE_F64, t - 1.0) + OF_ONE),
                    || found.set(self.far_erf(t)),
                );
            },
        );
        self.with_sign(found.get(), x)
    }

    /// Returns erf t, for t from 1.25 on.
    fn far_erf(self, t: Val<'k>) -> Val<'k> {
        // Beyond 6 the result is one. NaN is preserved.
        let t = t.compare(CompareOp::Gt, 6.0).select(self.number(6.0), t);
        let s = self.number(1.0) / (t * t);
        let [over, under] = FAR_F64.map(|terms| self.polynomial(terms, s));
        // The square of the high half of t is exact.
        let high = self.of_bits(self.bits(t) & self.whole(!0xffff_ffff));
        let first = self.exp(-high * high - 0.5625);
        let second = self.exp((high - t) * (high + t) + over / under);
        self.number(1.0) - first * second / t
    }
}
