//! Tensor maps: descriptors of the bulk tensor copy engine, as plain data. A backend with the engine
//! ([`Feature::TensorMaps`](crate::feature::Feature::TensorMaps)) encodes them.
//!
//! The order of variants and fields is their order in a submission log.

use millstream_ir::DType;

/// How a tensor map divides its tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub enum TensorMapFormat {
    /// Boxes of `tile` elements per axis.
    Tiled {
        /// The length of a box along each axis, in elements.
        tile: Vec<u32>,
    },
    /// Rows of pixels for convolution.
    Im2col(Im2colMap),
}

/// The parameters of the im2col format.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub struct Im2colMap {
    /// The lower corner of the pixel box, per spatial axis.
    pub lower_corner: Vec<i32>,
    /// The upper corner of the pixel box, per spatial axis.
    pub upper_corner: Vec<i32>,
    /// The number of channels per pixel.
    pub channels_per_pixel: u32,
    /// The number of pixels per column.
    pub pixels_per_column: u32,
}

/// The interleaving of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub enum TensorInterleave {
    /// No interleaving.
    #[default]
    None,
    /// Groups of 16 bytes.
    B16,
    /// Groups of 32 bytes.
    B32,
}

/// The swizzling of rows over the banks of shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub enum Swizzle {
    /// No swizzling.
    #[default]
    None,
    /// Within 32 bytes.
    B32,
    /// Within 64 bytes.
    B64,
    /// Within 128 bytes.
    B128,
}

/// The number of bytes that the engine prefetches into the last-level cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub enum Prefetch {
    /// Nothing.
    #[default]
    None,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
}

/// The value of elements outside of the tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub enum OutOfBoundsFill {
    /// Zero.
    #[default]
    Zero,
    /// A NaN that multiply-add treats as zero.
    NanFma,
}

/// A tensor map of one binding.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub struct TensorMap {
    /// The index of the binding, in declared order.
    pub binding: usize,
    /// How the tensor is divided.
    pub format: TensorMapFormat,
    /// The element type.
    #[cfg_attr(feature = "journal", serde(with = "crate::journal::dtype"))]
    pub dtype: DType,
    /// The length of each axis in elements; the number of axes is the rank.
    pub shape: Vec<u64>,
    /// The distance between neighbours along each axis, in bytes.
    pub strides: Vec<u64>,
    /// The traversal stride along each axis: one of this many elements is read.
    pub element_strides: Vec<u32>,
    /// TensorInterleave.
    pub interleave: TensorInterleave,
    /// Swizzle.
    pub swizzle: Swizzle,
    /// Prefetch.
    pub prefetch: Prefetch,
    /// Out-of-bounds fill.
    pub fill: OutOfBoundsFill,
}

impl TensorMap {
    /// Creates a dense tiled map of `binding`: the strides follow from the shape, and the last axis varies fastest.
    pub fn tiled(binding: usize, dtype: DType, shape: &[u64], tile: &[u32]) -> Self {
        let mut stride = dtype.size() as u64;
        let mut strides = vec![0; shape.len()];
        for (axis, slot) in strides.iter_mut().enumerate().rev() {
            *slot = stride;
            stride = stride.saturating_mul(shape[axis]);
        }
        Self {
            binding,
            format: TensorMapFormat::Tiled {
                tile: tile.to_vec(),
            },
            dtype,
            shape: shape.to_vec(),
            strides,
            element_strides: vec![1; shape.len()],
            interleave: TensorInterleave::default(),
            swizzle: Swizzle::default(),
            prefetch: Prefetch::default(),
            fill: OutOfBoundsFill::default(),
        }
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_map_has_the_strides_of_its_shape() {
        let map = TensorMap::tiled(0, DType::F32, &[4, 8], &[2, 2]);
        assert_eq!(
            (map.strides.as_slice(), map.rank()),
            ([32, 4].as_slice(), 2)
        );
    }
}
