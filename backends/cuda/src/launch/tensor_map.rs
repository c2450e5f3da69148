//! Encodes tensor maps with the driver. The driver validates their values; this module validates what the driver cannot
//! know, such as the length of the binding.

use std::ffi::c_void;

use cudarc::driver::sys::CUtensorMap;
use millstream_ir::DType;
use millstream_protocol::{
    BoundSlice, Im2colMap, OutOfBoundsFill, Prefetch, Refused, Swizzle, TensorInterleave,
    TensorMap, TensorMapFormat,
};

use crate::driver::{Api, Code};

/// Most axes of a tensor map.
const RANK_MAX: usize = 5;

/// Encodes a map over a binding whose memory begins at `address`.
pub(crate) fn encode(
    api: &Api,
    map: &TensorMap,
    address: u64,
    binding: &BoundSlice,
) -> Result<CUtensorMap, Refused> {
    let axes = Axes::of(map)?;
    let within = axes
        .bytes(map.dtype)
        .is_some_and(|bytes| bytes <= binding.len);
    if !within {
        return Err(refused(
            map,
            format!("the map exceeds its binding of {} bytes", binding.len),
        ));
    }
    let mut encoded = CUtensorMap { opaque: [0; 16] };
    let place = &raw mut encoded;
    let address = address as *mut c_void;
    let dtype =
        dtype(map.dtype).ok_or_else(|| refused(map, format!("unsupported type {}", map.dtype)))?;
    let rank = axes.rank as u32;
    let (shape, strides) = (axes.shape.as_ptr(), axes.strides[1..].as_ptr());
    let element = axes.element_strides.as_ptr();
    let [interleave, swizzle, prefetch, fill] = choices(map);
    let (call, answer) = match &map.format {
        TensorMapFormat::Tiled { tile } => {
            let tile: [u32; RANK_MAX] = reversed(map, "tile", tile, axes.rank)?;
            let encode = api.encode_tiled.ok_or_else(|| unsupported(map))?;
            let tile = tile.as_ptr();
            // SAFETY: every list has as many entries as the driver reads: one per axis, and one less for strides.
            let answer = unsafe {
                encode(
                    place, dtype, rank, address, shape, strides, tile, element, interleave,
                    swizzle, prefetch, fill,
                )
            };
            ("cuTensorMapEncodeTiled", answer)
        }
        TensorMapFormat::Im2col(Im2colMap {
            lower_corner,
            upper_corner,
            channels_per_pixel,
            pixels_per_column,
        }) => {
            let spatial = axes
                .rank
                .checked_sub(2)
                .ok_or_else(|| refused(map, "an im2col map needs at least 3 axes".to_owned()))?;
            let lower: [i32; RANK_MAX] = reversed(map, "lower corner", lower_corner, spatial)?;
            let upper: [i32; RANK_MAX] = reversed(map, "upper corner", upper_corner, spatial)?;
            let encode = api.encode_im2col.ok_or_else(|| unsupported(map))?;
            let (lower, upper) = (lower.as_ptr(), upper.as_ptr());
            let (channels, pixels) = (*channels_per_pixel, *pixels_per_column);
            // SAFETY: as above; corners have an entry for each axis except two.
            let answer = unsafe {
                encode(
                    place, dtype, rank, address, shape, strides, lower, upper, channels, pixels,
                    element, interleave, swizzle, prefetch, fill,
                )
            };
            ("cuTensorMapEncodeIm2col", answer)
        }
    };
    Code::check(call, answer).map_err(|code| {
        let why =
            format!("{code}; see its documentation for the allowed shapes, strides and boxes");
        refused(map, why)
    })?;
    Ok(encoded)
}

/// The axes of a map in the driver's order, innermost first.
struct Axes {
    rank: usize,
    shape: [u64; RANK_MAX],
    strides: [u64; RANK_MAX],
    element_strides: [u32; RANK_MAX],
}

impl Axes {
    fn of(map: &TensorMap) -> Result<Self, Refused> {
        let rank = map.rank();
        if !(1..=RANK_MAX).contains(&rank) {
            return Err(refused(
                map,
                format!("expected 1 to {RANK_MAX} axes, got {rank}"),
            ));
        }
        let axes = Self {
            rank,
            shape: reversed(map, "shape", &map.shape, rank)?,
            strides: reversed(map, "strides", &map.strides, rank)?,
            element_strides: reversed(map, "element strides", &map.element_strides, rank)?,
        };
        if axes.strides[0] != map.dtype.size() as u64 {
            let stride = axes.strides[0];
            return Err(refused(
                map,
                format!(
                    "expected a stride of one element ({} bytes) along the last axis, got {stride} bytes",
                    map.dtype.size()
                ),
            ));
        }
        Ok(axes)
    }

    /// Returns the number of bytes from the first to the last, or `None` on overflow.
    fn bytes(&self, dtype: DType) -> Option<u64> {
        if self.shape[..self.rank].contains(&0) {
            return Some(0);
        }
        let axes = self.shape.iter().zip(&self.strides).take(self.rank);
        let mut last = axes.map(|(axis, stride)| (axis - 1).checked_mul(*stride));
        let last = last.try_fold(0_u64, |sum, axis| sum.checked_add(axis?))?;
        last.checked_add(dtype.size() as u64)
    }
}

/// Reverses a list that has one entry per axis.
fn reversed<T: Copy + Default>(
    map: &TensorMap,
    what: &str,
    list: &[T],
    axes: usize,
) -> Result<[T; RANK_MAX], Refused> {
    if list.len() != axes {
        let entries = list.len();
        return Err(refused(
            map,
            format!("expected {axes} entries in the {what}, got {entries}"),
        ));
    }
    let mut reversed = [T::default(); RANK_MAX];
    for (place, entry) in reversed.iter_mut().zip(list.iter().rev()) {
        *place = *entry;
    }
    Ok(reversed)
}

fn refused(map: &TensorMap, why: String) -> Refused {
    Refused::Task(format!("tensor map over binding {}: {why}", map.binding))
}

fn unsupported(map: &TensorMap) -> Refused {
    refused(
        map,
        "this driver does not support tensor maps; update it, or launch a kernel without them"
            .to_owned(),
    )
}

/// `CUtensorMapDataType`
fn dtype(dtype: DType) -> Option<u32> {
    Some(match dtype {
        DType::U8 | DType::I8 | DType::Bool => 0,
        DType::U16 | DType::I16 => 1,
        DType::U32 => 2,
        DType::I32 => 3,
        DType::U64 => 4,
        DType::I64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::Bf16 => 9,
        _ => return None,
    })
}

/// `CUtensorMapInterleave`, `CUtensorMapSwizzle`, `CUtensorMapL2promotion`, `CUtensorMapFloatOOBfill`
fn choices(map: &TensorMap) -> [u32; 4] {
    // The driver numbers its choices in the order in which ours are declared.
    const {
        assert!(TensorInterleave::B32 as u32 == 2 && Swizzle::B128 as u32 == 3);
        assert!(Prefetch::B256 as u32 == 3 && OutOfBoundsFill::NanFma as u32 == 1);
    }
    [
        map.interleave as u32,
        map.swizzle as u32,
        map.prefetch as u32,
        map.fill as u32,
    ]
}
