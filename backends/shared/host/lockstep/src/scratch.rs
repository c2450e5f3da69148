//! The memory of a thread of the host that runs cubes: reused by the next cube (I9).

use millstream_ir::nest::BufferMode;
use millstream_ir::ssa::ACCESS_BYTES_MAX;
use millstream_protocol::NativeArgs;

use crate::code::{Code, Operand, slot};

/// Bytes that are aligned for every vector.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// The bytes between two columns: if all of them began at the same place of a page, loads would wait for stores to other
/// columns that look the same to the processor.
const COLUMN_GAP: usize = 128;

/// A buffer of the launch.
#[derive(Clone, Copy)]
pub(crate) struct Param {
    pub(crate) pointer: *mut u8,
    pub(crate) bytes: usize,
    /// The number of elements.
    pub(crate) len: usize,
    /// Whether no cube of the launch writes any of its bytes, so that loads need not be atomic.
    pub(crate) is_constant: bool,
}

/// The memory of one function.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The function, by its id.
    owner: u64,
    /// Whether columns have what is the same in all chunks.
    pub(crate) has_constants: bool,
    arena: Vec<Line>,
    /// The places of scalars, columns and direct loads.
    pub(crate) table: Vec<*mut u8>,
    pub(crate) params: Vec<Param>,
    /// Where each thread goes on, and a mask for a moment, of one byte for each thread of a chunk.
    pub(crate) paths: usize,
    pub(crate) spare: usize,
    /// Bools of a step that chooses threads, and a mask of the same threads in each cube.
    pub(crate) bools: usize,
    pub(crate) rectangle: usize,
    /// The elements of wide accesses for a moment.
    pub(crate) staging: usize,
    /// Shared arrays, and the arrays of threads.
    pub(crate) shared: usize,
    pub(crate) locals: usize,
}

impl Scratch {
    /// Prepares the memory for a function, unless it is.
    pub(crate) fn prepare(&mut self, code: &Code) {
        if self.owner == code.id {
            return;
        }
        // Not prepared until the end.
        (self.owner, self.has_constants) = (0, false);
        let mut bytes = 0;
        let mut take = |len: usize| {
            let start = bytes;
            bytes = (bytes + len).next_multiple_of(64);
            start
        };
        let scalars = code.scalars.iter();
        let scalars: Vec<usize> = scalars
            .map(|varies| if *varies { 8 * code.cubes } else { 8 })
            .scan(0, |end, bytes| {
                *end += bytes;
                Some(*end - bytes)
            })
            .collect();
        take(scalars.last().map_or(0, |last| last + 8 * code.cubes));
        let columns = code.columns.iter();
        let columns: Vec<usize> = columns
            .map(|size| take(*size as usize * code.chunk + COLUMN_GAP))
            .collect();
        self.paths = take(code.chunk);
        self.spare = take(code.chunk);
        self.staging = take(ACCESS_BYTES_MAX * code.chunk);
        self.bools = take(code.chunk);
        self.rectangle = take(code.chunk);
        self.shared = take(code.shared_bytes * code.cubes);
        self.locals = take(code.local_bytes * code.chunk);
        self.arena.clear();
        self.arena.resize(bytes / 64 + 1, Line([0; 64]));
        let start = self.start();
        self.table.clear();
        let places = scalars.into_iter().chain(columns);
        // SAFETY: each place lies in the arena.
        self.table
            .extend(places.map(|place| unsafe { start.add(place) }));
        let direct = self.table.len() + code.direct;
        self.table.resize(direct, start);
        for (place, bits) in &code.constants {
            // SAFETY: the place of a scalar, of eight bytes.
            unsafe { self.table[*place as usize].cast::<u64>().write(*bits) };
        }
        self.params.clear();
        self.owner = code.id;
    }

    /// Returns the first byte of the arena.
    pub(crate) fn start(&mut self) -> *mut u8 {
        self.arena.as_mut_ptr().cast()
    }

    /// Learns the buffers of a launch.
    pub(crate) fn bind(&mut self, code: &Code, arguments: &NativeArgs<'_>) {
        let params = &code.function.params;
        let view = |index: usize| {
            // SAFETY: accesses to buffers that a cube may write are atomics of whole elements, the verifier refuses stores
            // to read-only ones, and no reference to elements exists.
            unsafe { arguments.raw::<u8>(index) }
        };
        let known = |(index, param): (usize, &Param)| view(index) == (param.pointer, param.bytes);
        if self.params.len() == params.len() && self.params.iter().enumerate().all(known) {
            return;
        }
        self.params.clear();
        for (index, param) in params.iter().enumerate() {
            let (pointer, bytes) = view(index);
            let overlaps = |other: usize| {
                let (start, len) = view(other);
                let (start, first) = (start.addr(), pointer.addr());
                start < first + bytes && first < start + len
            };
            let written = (0..params.len()).filter(|other| params[*other].mode != BufferMode::Read);
            self.params.push(Param {
                pointer,
                bytes,
                len: bytes / param.dtype.size(),
                is_constant: param.mode == BufferMode::Read && !written.into_iter().any(overlaps),
            });
        }
    }

    /// Fills the elements of this many threads of a column, or a scalar of this many cubes, with zeros.
    pub(crate) fn clear(&mut self, operand: Operand, threads: usize, cubes: usize) {
        let bytes = match (operand.is_scalar(), operand.varies()) {
            (true, true) => 8 * cubes,
            (true, false) => 8,
            _ => operand.size as usize * threads,
        };
        // SAFETY: the place has that many bytes.
        unsafe { self.table[slot(operand.place)].write_bytes(0, bytes) };
    }
}
