//! The types of operands, and the bits of each float format.

/// The type of the bits of a register. Numbers are sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Predicate,
    Bits(u8),
    Unsigned(u8),
    Signed(u8),
    Float(Format),
}

impl Type {
    /// Returns the type with a name in an instruction or a declaration, without the dot.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Type::Predicate,
            "f16" => Type::Float(Format::F16),
            "bf16" => Type::Float(Format::Bf16),
            "f32" => Type::Float(Format::F32),
            "f64" => Type::Float(Format::F64),
            _ => {
                let (kind, bits) = name.split_at_checked(1)?;
                let sizes = [("8", 1), ("16", 2), ("32", 4), ("64", 8)];
                let (_, bytes) = sizes.into_iter().find(|(name, _)| *name == bits)?;
                match kind {
                    "b" => Type::Bits(bytes),
                    "u" => Type::Unsigned(bytes),
                    "s" => Type::Signed(bytes),
                    _ => return None,
                }
            }
        })
    }

    pub(super) fn bytes(self) -> u8 {
        match self {
            Type::Predicate => 1,
            Type::Bits(bytes) | Type::Unsigned(bytes) | Type::Signed(bytes) => bytes,
            Type::Float(format) => format.bytes(),
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Type::Float(_))
    }

    /// Returns the integer type of twice the width.
    pub(super) fn doubled(self) -> Self {
        match self {
            Type::Unsigned(bytes) => Type::Unsigned(bytes * 2),
            Type::Signed(bytes) => Type::Signed(bytes * 2),
            other => other,
        }
    }
}

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
