//! Tensor maps: descriptors of the bulk tensor copy engine, as plain data. A backend that has the
//! engine ([`Feature::TensorMaps`](crate::properties::Feature::TensorMaps)) encodes them.

use millstream_ir::DType;

/// How a tensor map cuts its tensor. Each format has its own fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TensorMapFormat {
    /// Boxes of `tile` elements per axis.
    Tiled {
        /// Elements of a box along each axis.
        tile: Vec<u32>,
    },
    /// Rows of pixels for convolution.
    Im2col(Im2colMap),
}

/// The fields of the im2col format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Im2colMap {
    /// Lower corner of the pixel box, per spatial axis.
    pub lower_corner: Vec<i32>,
    /// Upper corner of the pixel box, per spatial axis.
    pub upper_corner: Vec<i32>,
    /// Channels taken per pixel.
    pub channels_per_pixel: u32,
    /// Pixels per column.
    pub pixels_per_column: u32,
}

/// How bytes of 16- and 32-byte groups are interleaved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interleave {
    /// Not at all.
    #[default]
    None,
    /// Groups of 16 bytes.
    B16,
    /// Groups of 32 bytes.
    B32,
}

/// How rows are swizzled over the banks of shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Swizzle {
    /// Not at all.
    #[default]
    None,
    /// Within 32 bytes.
    B32,
    /// Within 64 bytes.
    B64,
    /// Within 128 bytes.
    B128,
}

/// How much the engine fetches into the last-level cache ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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

/// What elements outside the tensor read as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OutOfBoundsFill {
    /// Zero.
    #[default]
    Zero,
    /// A NaN, which multiply-add treats as zero.
    NanFma,
}

/// One tensor map: which binding it covers, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorMap {
    /// Index of the binding, in declared order.
    pub binding: usize,
    /// How the tensor is cut.
    pub format: TensorMapFormat,
    /// Type of an element.
    pub dtype: DType,
    /// Elements along each axis; its length is the rank.
    pub shape: Vec<u64>,
    /// Bytes from one element to the next along each axis.
    pub strides: Vec<u64>,
    /// Every how many elements one is taken, along each axis.
    pub element_strides: Vec<u32>,
    /// Interleave.
    pub interleave: Interleave,
    /// Swizzle.
    pub swizzle: Swizzle,
    /// Prefetch.
    pub prefetch: Prefetch,
    /// Out-of-bounds fill.
    pub fill: OutOfBoundsFill,
}

impl TensorMap {
    /// A dense tiled map over binding `binding`: strides follow from the shape, last axis fastest.
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
            interleave: Interleave::default(),
            swizzle: Swizzle::default(),
            prefetch: Prefetch::default(),
            fill: OutOfBoundsFill::default(),
        }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dense_map_has_the_strides_of_its_shape() {
        let map = TensorMap::tiled(0, DType::F32, &[4, 8], &[2, 2]);
        assert_eq!(
            (map.strides.as_slice(), map.rank()),
            ([32, 4].as_slice(), 2)
        );
    }
}
