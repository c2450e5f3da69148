//! Checks and encodes tensor maps.

use crate::calls::{In, Out, functions};
use crate::code::Code;
use crate::state::State;
use crate::tensor_map::{ALIGNMENT, BYTES, Part, RANK_MAX, TensorMap, encode};

/// `CUtensorMap`
type Map = [u8; BYTES];

/// The arguments that both kinds of maps have in common.
struct Tensor {
    data_type: u32,
    rank: u32,
    address: u64,
    dims: In<u64>,
    strides: In<u64>,
    element_strides: In<u32>,
    /// Interleave, swizzle, promotion, fill.
    kinds: [u32; 4],
}

impl Tensor {
    fn rank(&self) -> usize {
        (self.rank as usize).min(RANK_MAX)
    }

    fn with(&self, part: Part) -> Result<TensorMap, Code> {
        let rank = self.rank();
        let [interleave, swizzle, l2_promotion, fill] = self.kinds;
        Ok(TensorMap {
            data_type: self.data_type,
            address: self.address,
            dims: self.dims.list(rank)?,
            strides: self.strides.list(rank.saturating_sub(1))?,
            part,
            element_strides: self.element_strides.list(rank)?,
            interleave,
            swizzle,
            l2_promotion,
            fill,
        })
    }

    /// Checks and writes the map of a part of the tensor.
    fn write(&self, state: &mut State, place: &Out<Map>, part: Part) -> Result<(), Code> {
        let call = state.this_call();
        let (map, at) = (self.with(part)?, place.0 as u64);
        let error = if !at.is_multiple_of(ALIGNMENT) {
            Some(format!(
                "a map at {at:#x}, which is not a multiple of {ALIGNMENT}"
            ))
        } else {
            map.violation()
        };
        if let Some(error) = error {
            let report = format!("invalid map: {call} receives {error}");
            return Err(state.refuse(Code::INVALID_VALUE, report));
        }
        // The driver does not check the memory, but a copy by this map accesses it.
        let bytes = self.address..self.address.saturating_add(map.extent_bytes());
        if self.address != 0
            && let Err(violation) = state.memory.at(&format!("the tensor map of {call}"), bytes)
        {
            state.report(violation.report);
        }
        state.tensor_maps.push(map);
        place.put(encode(state.tensor_maps.len() as u64))
    }
}

functions! {
    cuTensorMapEncodeTiled(
        map: Out<Map>, data_type: u32, rank: u32, address: u64, dims: In<u64>, strides: In<u64>,
        box_dims: In<u32>, element_strides: In<u32>, interleave: u32, swizzle: u32, promotion: u32, fill: u32,
    ) Context |state| {
        let kinds = [interleave, swizzle, promotion, fill];
        let tensor = Tensor { data_type, rank, address, dims, strides, element_strides, kinds };
        let part = Part::Tiled { box_dims: box_dims.list(tensor.rank())? };
        tensor.write(state, &map, part)
    };
    cuTensorMapEncodeIm2col(
        map: Out<Map>, data_type: u32, rank: u32, address: u64, dims: In<u64>, strides: In<u64>,
        lower: In<i32>, upper: In<i32>, channels_per_pixel: u32, pixels_per_column: u32,
        element_strides: In<u32>, interleave: u32, swizzle: u32, promotion: u32, fill: u32,
    ) Context |state| {
        let kinds = [interleave, swizzle, promotion, fill];
        let tensor = Tensor { data_type, rank, address, dims, strides, element_strides, kinds };
        let corners = tensor.rank().saturating_sub(2);
        let part = Part::Im2col {
            lower_corner: lower.list(corners)?,
            upper_corner: upper.list(corners)?,
            channels_per_pixel,
            pixels_per_column,
        };
        tensor.write(state, &map, part)
    };
}
