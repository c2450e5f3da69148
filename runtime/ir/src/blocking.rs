//! How a program is cut up for a device: what there is to choose among.

use std::fmt;

/// How nests and products are cut up, as far as it is said: what is not, a backend chooses by the words of each launch.
///
/// It changes how long a launch takes, and in which order sums are added up: results are as good, and may differ in their last bits.
/// Which ones a backend has for a program, it says itself; how fast they are is for a tuner to find out. A kernel is told by
/// `Kernel::with`.
///
/// ```
/// use millstream_ir::{Blocking, Rows};
///
/// assert_eq!(Blocking::USUAL.to_string(), "usual");
/// let blocking = Blocking::USUAL.vector(4).rows(Rows::Along);
/// assert_eq!(blocking.to_string(), "vectors of 4, rows along");
/// assert_eq!(Blocking::USUAL.tile(64, Blocking::ALL).to_string(), "tiles of 64 x all");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Blocking {
    /// Elements side by side: of four bytes in a register of a processor, and of any size in a thread of a GPU.
    pub vector: Option<u8>,
    /// Who walks the rows of a reduction.
    pub rows: Option<Rows>,
    /// Rows and columns of what is made of a product at a time.
    pub tile: Option<[u32; 2]>,
}

/// Who walks the rows of a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Rows {
    /// Neighbouring rows go side by side, each an element at a time: a lane of a processor's register, or a thread of a GPU, for each.
    Across,
    /// One row's elements go side by side: the lanes of a register, or 32 threads.
    Along,
    /// All threads of a cube walk a row.
    Cube,
}

impl Blocking {
    /// Nothing is said: the backend chooses.
    pub const USUAL: Self = Self {
        vector: None,
        rows: None,
        tile: None,
    };

    /// In a tile: as many rows, or columns, as there are.
    pub const ALL: u32 = u32::MAX;

    /// With so many elements side by side.
    #[must_use]
    pub const fn vector(mut self, elements: u8) -> Self {
        self.vector = Some(elements);
        self
    }

    /// With rows walked so.
    #[must_use]
    pub const fn rows(mut self, rows: Rows) -> Self {
        self.rows = Some(rows);
        self
    }

    /// With tiles of so many rows and columns of a product.
    #[must_use]
    pub const fn tile(mut self, rows: u32, columns: u32) -> Self {
        self.tile = Some([rows, columns]);
        self
    }
}

impl fmt::Display for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::USUAL {
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
