//! The float formats and their bits.

/// A float format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    F16,
    Bf16,
    F32,
    F64,
}

impl Format {
    pub(super) fn bytes(self) -> u8 {
        match self {
            Format::F16 | Format::Bf16 => 2,
            Format::F32 => 4,
            Format::F64 => 8,
        }
    }

    pub(super) fn fraction_bits(self) -> u32 {
        match self {
            Format::F16 => 10,
            Format::Bf16 => 7,
            Format::F32 => 23,
            Format::F64 => 52,
        }
    }

    pub(super) fn exponent_bits(self) -> u32 {
        match self {
            Format::F16 => 5,
            Format::F64 => 11,
            _ => 8,
        }
    }

    pub(super) fn bias(self) -> i32 {
        (1 << (self.exponent_bits() - 1)) - 1
    }

    pub(super) fn sign_bit(self) -> u64 {
        1 << (u32::from(self.bytes()) * 8 - 1)
    }

    pub(super) fn infinity(self) -> u64 {
        ((1 << self.exponent_bits()) - 1) << self.fraction_bits()
    }

    /// Returns the canonical NaN: as PTX defines it, and for doubles as GPUs generate it.
    pub(super) fn nan(self) -> u64 {
        match self {
            Format::F64 => 0xFFF8_0000_0000_0000,
            _ => self.sign_bit() - 1,
        }
    }

    pub(super) fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign_bit() - 1) > self.infinity()
    }

    pub(super) fn is_negative(self, bits: u64) -> bool {
        bits & self.sign_bit() != 0
    }

    pub(super) fn is_zero(self, bits: u64) -> bool {
        bits & (self.sign_bit() - 1) == 0
    }

    pub(super) fn is_subnormal(self, bits: u64) -> bool {
        bits & self.infinity() == 0 && !self.is_zero(bits)
    }

    /// Returns the bits of 1.
    pub(super) fn one(self) -> u64 {
        (self.bias() as u64) << self.fraction_bits()
    }

    pub(super) fn negated(self, bits: u64) -> u64 {
        bits ^ self.sign_bit()
    }

    pub(super) fn absolute(self, bits: u64) -> u64 {
        bits & (self.sign_bit() - 1)
    }

    pub(super) fn with_sign_of(self, bits: u64, of: u64) -> u64 {
        self.absolute(bits) | (of & self.sign_bit())
    }

    /// Flushes a subnormal value to zero with the same sign.
    pub(super) fn flushed(self, bits: u64) -> u64 {
        match self.is_subnormal(bits) {
            true => bits & self.sign_bit(),
            false => bits,
        }
    }
}
