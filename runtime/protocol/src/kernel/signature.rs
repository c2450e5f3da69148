//! The arguments that a kernel declares, and the layout of its packed scalars.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use millstream_ir::DType;

use crate::binding::Access;
use crate::feature::Feature;

/// How the cubes of a launch share a binding on the CPU.
// The order of the variants is their code in a submission log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub enum Share {
    /// Every cube reads all of it.
    Whole,
    /// Each cube has its own chunk.
    Chunks,
    /// Every cube accesses all of it with atomics.
    Atomic,
    /// Every cube accesses it through a pointer.
    Raw,
}

impl Share {
    /// Returns `true` if overlapping bindings may be shared this way, since no reference to a written element exists.
    pub fn is_shared_by_pointer(self) -> bool {
        matches!(self, Share::Atomic | Share::Raw)
    }
}

/// A declared binding.
// The order of the fields is their order in a submission log; likewise below.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub struct BindingSpec {
    /// Its name, for errors.
    pub name: Arc<str>,
    /// How the kernel accesses it.
    pub access: Access,
    /// The type of its elements.
    #[cfg_attr(feature = "journal", serde(with = "crate::journal::dtype"))]
    pub dtype: DType,
    /// How cubes share it.
    pub share: Share,
}

/// A declared scalar, and the place of its value in the packed scalars.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub struct ScalarSpec {
    /// Its name, for errors.
    pub name: Arc<str>,
    /// Its type.
    #[cfg_attr(feature = "journal", serde(with = "crate::journal::dtype"))]
    pub dtype: DType,
    /// The byte offset of its value in the packed scalars.
    #[cfg_attr(feature = "journal", serde(skip))]
    pub offset: usize,
}

/// The arguments that a kernel declares.
///
/// Scalars are packed by element type, in [`DType`] order; the group of each type starts at a multiple of eight bytes.
/// [`Signature::scalar_groups`] returns the unpadded length of each group. Those of a program
/// ([`Kernel::from_program`](crate::Kernel::from_program)) are not packed: each is a word of eight bytes, in declared
/// order, with its value in the low end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Signature {
    bindings: Vec<BindingSpec>,
    scalars: Vec<ScalarSpec>,
    scalar_words: usize,
    flags: SignatureFlags,
    required: BTreeSet<Feature>,
}

/// What a signature states beyond its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SignatureFlags {
    /// Whether bindings of one launch may overlap although one of them is written.
    pub(crate) may_alias: bool,
    /// Whether each scalar has a word of its own.
    pub(crate) has_words: bool,
}

impl Signature {
    pub(crate) fn push_binding(&mut self, spec: BindingSpec) {
        self.bindings.push(spec);
    }

    pub(crate) fn push_scalar(&mut self, name: Arc<str>, dtype: DType) {
        self.push_scalars([(name, dtype)]);
    }

    /// Adds scalars, and computes the layout once for all of them.
    pub(crate) fn push_scalars(&mut self, scalars: impl IntoIterator<Item = (Arc<str>, DType)>) {
        let specs = scalars.into_iter().map(|(name, dtype)| ScalarSpec {
            name,
            dtype,
            offset: 0,
        });
        self.scalars.extend(specs);
        self.pack();
    }

    pub(crate) fn set_may_alias(&mut self) {
        self.flags.may_alias = true;
    }

    /// Gives each scalar a word of its own.
    pub(super) fn set_words(&mut self) {
        self.flags.has_words = true;
        self.pack();
    }

    #[cfg(feature = "journal")]
    pub(crate) fn flags(&self) -> SignatureFlags {
        self.flags
    }

    pub(super) fn require(&mut self, feature: Feature) {
        self.required.insert(feature);
    }

    /// Creates the signature of a submission log, without required features.
    #[cfg(feature = "journal")]
    pub(crate) fn packed(
        bindings: Vec<BindingSpec>,
        scalars: Vec<ScalarSpec>,
        flags: SignatureFlags,
    ) -> Self {
        let mut signature = Self {
            bindings,
            scalars,
            flags,
            ..Self::default()
        };
        signature.pack();
        signature
    }

    /// Computes the place of every scalar.
    fn pack(&mut self) {
        if self.flags.has_words {
            let words = (0..).step_by(8);
            let places = self.scalars.iter_mut().zip(words);
            places.for_each(|(scalar, place)| scalar.offset = place);
            self.scalar_words = self.scalars.len();
            return;
        }
        let mut end = 0;
        for dtype in DType::ALL {
            for scalar in self
                .scalars
                .iter_mut()
                .filter(|scalar| scalar.dtype == dtype)
            {
                scalar.offset = end;
                end += dtype.size();
            }
            end = end.next_multiple_of(8);
        }
        self.scalar_words = end / 8;
    }

    /// Returns the bindings, in declared order.
    #[inline]
    pub fn bindings(&self) -> &[BindingSpec] {
        &self.bindings
    }

    /// Returns the scalars, in declared order.
    #[inline]
    pub fn scalars(&self) -> &[ScalarSpec] {
        &self.scalars
    }

    /// Returns the length of the packed scalars in words of eight bytes.
    #[inline]
    pub fn scalar_words(&self) -> usize {
        self.scalar_words
    }

    /// Returns the packed groups: the type, the byte offset, and the unpadded length in elements. Scalars that are not
    /// packed are a group each.
    pub fn scalar_groups(&self) -> Vec<(DType, usize, usize)> {
        if self.flags.has_words {
            let scalars = self.scalars.iter();
            return scalars.map(|it| (it.dtype, it.offset, 1)).collect();
        }
        DType::ALL
            .into_iter()
            .filter_map(|dtype| {
                let mut group = self.scalars.iter().filter(|scalar| scalar.dtype == dtype);
                let first = group.next()?;
                Some((dtype, first.offset, 1 + group.count()))
            })
            .collect()
    }

    /// Returns `true` if bindings of one launch may overlap although one of them is written.
    #[inline]
    pub fn aliases(&self) -> bool {
        self.flags.may_alias
    }

    /// Returns `true` if both signatures accept the same launches. Required features are not compared.
    pub fn takes_the_same(&self, other: &Self) -> bool {
        self.bindings == other.bindings
            && self.scalars == other.scalars
            && self.flags == other.flags
    }

    /// Returns the features that the kernel requires.
    pub fn required(&self) -> &BTreeSet<Feature> {
        &self.required
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (index, binding) in self.bindings.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(
                f,
                "{comma}{} {}: {}",
                binding.access, binding.name, binding.dtype
            )?;
        }
        for (index, scalar) in self.scalars.iter().enumerate() {
            let comma = if index > 0 || !self.bindings.is_empty() {
                ", "
            } else {
                ""
            };
            write!(f, "{comma}{}: {}", scalar.name, scalar.dtype)?;
        }
        f.write_str(if self.flags.may_alias {
            ", may alias)"
        } else {
            ")"
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millstream_ir::{DType, Program};

    use crate::kernel::Kernel;

    #[test]
    fn scalars_are_packed_by_type_and_groups_start_at_eight_bytes() {
        let kernel = Kernel::new("k")
            .scalar::<u8>("a")
            .scalar::<f64>("b")
            .scalar::<u32>("c")
            .scalar::<u8>("d")
            .scalar::<u32>("e");
        let signature = kernel.signature();
        let offsets: Vec<usize> = signature
            .scalars()
            .iter()
            .map(|scalar| scalar.offset)
            .collect();
        assert_eq!(offsets, [16, 0, 8, 17, 12]);
        assert_eq!(
            signature.scalar_groups(),
            [(DType::F64, 0, 1), (DType::U32, 8, 2), (DType::U8, 16, 2)]
        );
        assert_eq!(signature.scalar_words(), 3);
    }

    #[test]
    fn scalars_of_a_program_have_their_names_and_types_and_a_word_each() {
        let text = "kernel k threads 1 1 1 update y: f32[n] scalar a: f32 scalar on: bool scalar n: u64 { }";
        let function = millstream_ir::ssa::parse(text).unwrap();
        let program = Arc::new(Program::Ssa(function));
        let kernel = Kernel::from_program("k", program).unwrap();
        let signature = kernel.signature();
        let scalars = signature.scalars().iter();
        let scalars: Vec<_> = scalars.map(|it| (&*it.name, it.dtype, it.offset)).collect();
        // Hosts pass a bool as a byte.
        let expected = [
            ("a", DType::F32, 0),
            ("on", DType::U8, 8),
            ("n", DType::U64, 16),
        ];
        assert_eq!(scalars, expected);
        assert_eq!(signature.scalar_words(), 3);
        assert_eq!(
            signature.scalar_groups(),
            expected.map(|(_, dtype, offset)| (dtype, offset, 1))
        );
    }
}
