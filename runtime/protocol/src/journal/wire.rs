//! Numbers and texts as bytes, and back. Reading believes nothing: it answers what is wrong and where, and takes
//! no more memory than a small multiple of the bytes there are, whatever they say: of what a list says that it has,
//! each takes a least number of bytes, and those must be there before there is room for any.

use std::sync::Arc;

/// What does not decode, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Garbled {
    pub(super) at: usize,
    pub(super) what: &'static str,
}

/// A number in as few bytes as it needs, seven bits in each, low ones first.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// One of a list of values, as its place there.
pub(super) fn put_one_of<T: PartialEq>(bytes: &mut Vec<u8>, all: &[T], value: &T) {
    // The lists are whole: each is written beside its type's values, and a test puts them all.
    let place = all.iter().position(|one| one == value).unwrap_or(0);
    bytes.push(place as u8);
}

/// Bytes that are being read.
pub(super) struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn garbled<T>(&self, what: &'static str) -> Result<T, Garbled> {
        Err(Garbled { at: self.at, what })
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Garbled> {
        match self.bytes.get(self.at..self.at.saturating_add(count)) {
            Some(taken) => {
                self.at += count;
                Ok(taken)
            }
            None => self.garbled("it ends within an entry"),
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, Garbled> {
        self.take(1).map(|byte| byte[0])
    }

    pub(super) fn number(&mut self) -> Result<u64, Garbled> {
        let mut number = 0_u64;
        for place in 0..10 {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if place == 9 && bits > 1 {
                break;
            }
            number |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        self.garbled("a number is longer than 64 bits")
    }

    pub(super) fn small(&mut self) -> Result<u32, Garbled> {
        let number = self.number()?;
        u32::try_from(number).or_else(|_| self.garbled("a number is longer than 32 bits"))
    }

    /// A number of so many bytes, little endian.
    pub(super) fn fixed(&mut self, bytes: usize) -> Result<u64, Garbled> {
        let bytes = self.take(bytes)?.iter().rev();
        Ok(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    pub(super) fn flag(&mut self) -> Result<bool, Garbled> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => self.garbled("a truth value is neither"),
        }
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T], what: &'static str) -> Result<T, Garbled> {
        let place = self.byte()?;
        all.get(usize::from(place))
            .copied()
            .ok_or(Garbled { at: self.at, what })
    }

    pub(super) fn text(&mut self) -> Result<Arc<str>, Garbled> {
        let count = self.count(1)?;
        let bytes = self.take(count)?;
        std::str::from_utf8(bytes)
            .map(Arc::from)
            .or_else(|_| self.garbled("a name is no text"))
    }

    /// How many there are of what takes at least `least` bytes each.
    pub(super) fn count(&mut self, least: usize) -> Result<usize, Garbled> {
        match usize::try_from(self.number()?) {
            Ok(count) if count <= self.left() / least => Ok(count),
            _ => self.garbled("a list is longer than the log"),
        }
    }

    /// A list of what `next` reads, which takes at least `least` bytes each.
    pub(super) fn list<T>(
        &mut self,
        least: usize,
        mut next: impl FnMut(&mut Self) -> Result<T, Garbled>,
    ) -> Result<Vec<T>, Garbled> {
        let count = self.count(least)?;
        // Exactly: a vector that grows takes three times as much while it moves.
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(next(self)?);
        }
        Ok(list)
    }
}
