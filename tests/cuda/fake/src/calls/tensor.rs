//! Tensor maps are written, where they are right.

use crate::calls::{Given, Out, functions};
use crate::code::Code;
use crate::state::State;
use crate::tensor_map::{ALIGNMENT, BYTES, Part, RANK_MAX, TensorMap};

/// `CUtensorMap`
type Map = [u8; BYTES];

/// What both kinds are given of the tensor.
struct Tensor {
    data_type: u32,
    rank: u32,
    address: u64,
    dims: Given<u64>,
    strides: Given<u64>,
    element_strides: Given<u32>,
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

    /// Writes the map of a part of it.
    fn write(
        &self,
        state: &mut State,
        call: &str,
        place: &Out<Map>,
        part: Part,
    ) -> Result<(), Code> {
        let call = state.this_call(call);
        let map = self.with(part)?;
        let wrong = if !place.address().is_multiple_of(ALIGNMENT) {
            Some(format!(
                "a place for the map at {:#x}, which is no multiple of {ALIGNMENT}",
                place.address()
            ))
        } else if self.rank as usize > RANK_MAX {
            Some(format!("{} dimensions, of 1 to {RANK_MAX}", self.rank))
        } else {
            map.wrong()
        };
        if let Some(wrong) = wrong {
            state.report(format!("wrong map: {call} is given {wrong}"));
            return Err(Code::INVALID_VALUE);
        }
        // The driver does not look at the memory, but who copies from it by this map will.
        let bytes = self.address..self.address.saturating_add(map.extent_bytes());
        if self.address != 0
            && let Err(wrong) = state.memory.at(&format!("the tensor map of {call}"), bytes)
        {
            state.report(wrong.report);
        }
        place.put(map.encode())
    }
}

functions! {
    cuTensorMapEncodeTiled(
        map: Out<Map>, data_type: u32, rank: u32, address: u64, dims: Given<u64>, strides: Given<u64>,
        box_dims: Given<u32>, element_strides: Given<u32>, interleave: u32, swizzle: u32, promotion: u32, fill: u32,
    ) Context |state| {
        let kinds = [interleave, swizzle, promotion, fill];
        let tensor = Tensor { data_type, rank, address, dims, strides, element_strides, kinds };
        let part = Part::Tiled { box_dims: box_dims.list(tensor.rank())? };
        tensor.write(state, "cuTensorMapEncodeTiled", &map, part)
    };
    cuTensorMapEncodeIm2col(
        map: Out<Map>, data_type: u32, rank: u32, address: u64, dims: Given<u64>, strides: Given<u64>,
        lower: Given<i32>, upper: Given<i32>, channels_per_pixel: u32, pixels_per_column: u32,
        element_strides: Given<u32>, interleave: u32, swizzle: u32, promotion: u32, fill: u32,
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
        tensor.write(state, "cuTensorMapEncodeIm2col", &map, part)
    };
}
