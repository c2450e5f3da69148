//! Element types and reductions as MPI knows them.

use std::ffi::{c_int, c_void};

use millstream::ir::DType;
use millstream::{bf16, f16};
use millstream_cluster::{Reducible, Reduction};
use mpi::ffi::{self, MPI_Datatype, MPI_Op};

use crate::raw::{MpiError, call};

/// Returns MPI's type of the same size and kind. Half-precision elements travel as integers of 16 bits.
pub(crate) fn datatype(dtype: DType) -> MPI_Datatype {
    // SAFETY: reads constants of the library.
    unsafe {
        match dtype {
            DType::F32 => ffi::RSMPI_FLOAT,
            DType::F64 => ffi::RSMPI_DOUBLE,
            DType::I8 => ffi::RSMPI_INT8_T,
            DType::I16 => ffi::RSMPI_INT16_T,
            DType::I32 => ffi::RSMPI_INT32_T,
            DType::I64 => ffi::RSMPI_INT64_T,
            DType::U16 | DType::F16 | DType::Bf16 => ffi::RSMPI_UINT16_T,
            DType::U32 => ffi::RSMPI_UINT32_T,
            DType::U64 => ffi::RSMPI_UINT64_T,
            _ => ffi::RSMPI_UINT8_T,
        }
    }
}

/// The operations that MPI lacks: those of half-precision elements, the extremes of floats, which prefer a number to a NaN,
/// and sums of integers of 8 and 16 bits, which wrap here. Open MPI's vector code for these sums saturates, except for the last
/// elements of a buffer.
pub(crate) struct Operations {
    own: Vec<((DType, Reduction), MPI_Op)>,
}

impl Operations {
    pub(crate) fn create() -> Result<Self, MpiError> {
        let create = |(key, function): Own| {
            // SAFETY: reads a constant of the library.
            let mut operation = unsafe { ffi::RSMPI_SUM };
            // SAFETY: the function treats its arguments as MPI documents. It commutes.
            unsafe { call!(MPI_Op_create(Some(function), 1, &mut operation)) }?;
            Ok::<_, MpiError>((key, operation))
        };
        Ok(Self {
            own: functions().map(create).collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn of(&self, dtype: DType, reduction: Reduction) -> MPI_Op {
        let own = self.own.iter().find(|(key, _)| *key == (dtype, reduction));
        if let Some((_, operation)) = own {
            return *operation;
        }
        // SAFETY: reads constants of the library.
        unsafe {
            match reduction {
                Reduction::Sum => ffi::RSMPI_SUM,
                Reduction::Product => ffi::RSMPI_PROD,
                Reduction::Min => ffi::RSMPI_MIN,
                Reduction::Max => ffi::RSMPI_MAX,
            }
        }
    }
}

/// Whether a reduction is one that MPI lacks: a function of ours, which accesses memory of the host alone.
pub(crate) fn is_own(dtype: DType, reduction: Reduction) -> bool {
    functions().any(|(key, _)| key == (dtype, reduction))
}

fn functions() -> impl Iterator<Item = Own> {
    let halves = [all::<f16>(), all::<bf16>()].into_iter().flatten();
    let floats = [all::<f32>(), all::<f64>()].into_iter();
    let extremes = floats.flat_map(|[_, _, min, max]| [min, max]);
    let integers = [all::<i8>(), all::<u8>(), all::<i16>(), all::<u16>()].into_iter();
    let sums = integers.map(|[sum, ..]| sum);
    halves.chain(extremes).chain(sums)
}

/// The reductions, by the parameter of [`combine`].
const REDUCTIONS: [Reduction; 4] = [
    Reduction::Sum,
    Reduction::Product,
    Reduction::Min,
    Reduction::Max,
];

type Own = ((DType, Reduction), Combine);

/// Returns all reductions of a type, in the order of [`REDUCTIONS`].
fn all<T: Reducible>() -> [Own; 4] {
    let functions: [Combine; 4] = [
        combine::<T, 0>,
        combine::<T, 1>,
        combine::<T, 2>,
        combine::<T, 3>,
    ];
    std::array::from_fn(|index| ((T::DTYPE, REDUCTIONS[index]), functions[index]))
}

/// A reduction as MPI calls it.
type Combine = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);

/// Combines the elements of two ranks. `R` is a place in [`REDUCTIONS`].
unsafe extern "C" fn combine<T: Reducible, const R: usize>(
    values: *mut c_void,
    accumulator: *mut c_void,
    len: *mut c_int,
    _type: *mut MPI_Datatype,
) {
    let reduction = REDUCTIONS[R];
    // SAFETY: MPI passes two buffers of `len` elements of the type that the call named, which has the size of `T`.
    unsafe {
        let len = *len as usize;
        let (values, accumulator) = (values.cast::<T>(), accumulator.cast::<T>());
        if values.is_aligned() && accumulator.is_aligned() {
            let values = std::slice::from_raw_parts(values, len);
            let accumulator = std::slice::from_raw_parts_mut(accumulator, len);
            return reduction.combine(accumulator, values);
        }
        // Buffers of MPI's own may be aligned to less.
        for index in 0..len {
            let mut sum = [accumulator.add(index).read_unaligned()];
            reduction.combine(&mut sum, &[values.add(index).read_unaligned()]);
            accumulator.add(index).write_unaligned(sum[0]);
        }
    }
}
