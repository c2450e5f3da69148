//! Blocking: the choices of how a device divides the work of a program.
//!
//! A blocking lies beside a program, not in it: two blockings compute the same, so caches and comparisons of programs
//! see one program, and the IR has no field that one backend reads and another ignores. Each backend lists the
//! blockings that it has for a program, since what is worth a try differs: one list for all devices would mostly be
//! refused. The choice is made when a schedule is compiled, so launches and replays are unchanged. The price: each
//! machine may add sums in another order, unless choices are exported and shipped.

use std::fmt;

/// How nests and products are divided. A backend chooses what is `None`, from the words of each launch.
///
/// The blocking affects the time of a launch, and the order in which sums are added: results are as accurate, and may
/// differ in their last bits. A backend lists the blockings that it supports for a program; a tuner measures them.
/// `Kernel::with` sets the blocking of a kernel.
///
/// ```
/// use millstream_ir::{Blocking, Rows};
///
/// assert_eq!(Blocking::DEFAULT.to_string(), "usual");
/// let blocking = Blocking::DEFAULT.vector(4).rows(Rows::Along);
/// assert_eq!(blocking.to_string(), "vectors of 4, rows along");
/// assert_eq!(Blocking::DEFAULT.tile(64, Blocking::ALL).to_string(), "tiles of 64 x all");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Blocking {
    /// Elements in a vector: of four bytes in a register of a processor, of any size in a thread of a GPU.
    pub vector: Option<u8>,
    /// Which threads or lanes reduce the rows of a reduction.
    pub rows: Option<Rows>,
    /// Rows and columns of a tile of a product.
    pub tile: Option<[u32; 2]>,
}

/// Which threads or lanes reduce the rows of a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Rows {
    /// Each lane of a register, or each thread of a GPU, reduces one of several neighbouring rows.
    Across,
    /// The lanes of a register, or 32 threads, reduce one row together.
    Along,
    /// All threads of a cube reduce one row together.
    Cube,
}

impl Blocking {
    /// No choice: the backend decides.
    pub const DEFAULT: Self = Self {
        vector: None,
        rows: None,
        tile: None,
    };

    /// In a tile: all rows or columns.
    pub const ALL: u32 = u32::MAX;

    /// Sets the number of elements in a vector.
    #[must_use]
    pub const fn vector(mut self, elements: u8) -> Self {
        self.vector = Some(elements);
        self
    }

    /// Sets how rows are reduced.
    #[must_use]
    pub const fn rows(mut self, rows: Rows) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Sets the rows and columns of a tile of a product.
    #[must_use]
    pub const fn tile(mut self, rows: u32, columns: u32) -> Self {
        self.tile = Some([rows, columns]);
        self
    }
}

impl fmt::Display for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::DEFAULT {
            return f.write_str("usual");
        }
        let mut before = "";
        if let Some(elements) = self.vector {
            write!(f, "vectors of {elements}")?;
            before = ", ";
        }
        if let Some(rows) = self.rows {
            let rows = match rows {
                Rows::Across => "across",
                Rows::Along => "along",
                Rows::Cube => "by cubes",
            };
            write!(f, "{before}rows {rows}")?;
            before = ", ";
        }
        if let Some([rows, columns]) = self.tile {
            let number = |len: u32| match len {
                Self::ALL => "all".to_owned(),
                len => len.to_string(),
            };
            write!(f, "{before}tiles of {} x {}", number(rows), number(columns))?;
        }
        Ok(())
    }
}
