//! Sorting by radix: digits of 4 bits, the lowest first.
//!
//! A pass sorts by one digit, and keeps the order of equal ones. The keys lie in tiles of [`TILE`]. One launch counts the
//! digits of each tile; a scan of the counts, all tiles of digit 0 first, gives each tile's place for each digit; a last
//! launch sorts each tile in shared memory and moves the keys of a digit to their place, side by side.
//!
//! On the CPU the keys lie in chunks, each of which a thread counts and moves with an array of its own, by digits of 8 bits.
//!
//! Keys are compared as unsigned numbers, after a mask has made them so: the sign of integers is turned around, and of
//! negative floats all bits.

use millstream_ir::DType;

use super::scan::{padded, scanned};
use super::{CUBE, ITEMS, TILE, check_countable, iota, single};
use crate::{Element, Error, Handle, Int, Number, Stream, kernel};

/// The digits that there are.
const DIGITS: usize = 16;

/// The digits that there are on the CPU.
const WIDE_DIGITS: usize = 256;
/// The keys of a chunk: enough to make the counts of all digits cheap.
const CHUNK: usize = 1 << 15;

/// The digit of a key at a bit, below `DIGITS`. `negative` and `positive` are the masks of keys with and without the highest
/// bit.
#[kernel]
fn digit<K: Int, const BITS: u32, const DIGITS: u32>(
    key: K,
    negative: K,
    positive: K,
    shift: u32,
) -> u32 {
    let mask = if key >> (BITS - 1) & 1 as K == 1 as K {
        negative
    } else {
        positive
    };
    ((key ^ mask) >> shift) as u32 % DIGITS
}

/// The counts of the digits of each tile: `counts[digit * tiles + tile]`.
#[kernel(cube = 256)]
fn sort_counts<K: Int, const BITS: u32>(
    shift: u32,
    negative: K,
    positive: K,
    keys: &[K],
    #[whole] counts: &mut [u32],
) {
    // A counter of each digit for every 32nd thread, so that few threads wait for one counter.
    let own = shared::<u32, 512>();
    let (mine, start) = (thread_in_cube(), cube() * TILE);
    own[mine] = 0;
    own[mine + CUBE] = 0;
    barrier();
    for item in 0..ITEMS {
        let at = start + item * CUBE + mine;
        if at < keys.len() {
            let digit = digit::<K, BITS, 16>(keys[at], negative, positive, shift) as usize;
            own[digit * 32 + mine % 32].fetch_add(1);
        }
    }
    barrier();
    if mine < DIGITS {
        let mut count = 0;
        for lane in 0..32 {
            count += own[mine * 32 + (lane + mine) % 32];
        }
        counts[mine * cubes() + cube()] = count;
    }
}

/// Moves the keys of each tile to their places. With `ORDERED` their numbers in `order` go along.
#[kernel(cube = 256)]
pub(super) fn sort_tiles<K: Int, const BITS: u32, const ORDERED: bool>(
    shift: u32,
    negative: K,
    positive: K,
    keys: &[K],
    order: &[u32],
    places: &[u32],
    sorted: &mut [K],
    sorted_order: &mut [u32],
) {
    let (tile, sums) = (shared::<K, 2112>(), shared::<u32, 256>());
    // How many keys of a digit a thread has: digits from 8 on in the upper half of a counter.
    let counters = shared::<u32, 2112>();
    let bases = shared::<u32, 16>();
    let (mine, start) = (thread_in_cube(), cube() * TILE);
    let count = (keys.len() - start).min(TILE);
    for item in 0..ITEMS {
        let at = item * CUBE + mine;
        if at < count {
            tile[padded(at)] = keys[start + at];
        }
        counters[padded(at)] = 0;
    }
    barrier();
    let mut own = [0 as K; 8];
    let mut digits = [0_u32; 8];
    for item in 0..ITEMS {
        let at = mine * ITEMS + item;
        if at < count {
            let key = tile[padded(at)];
            let digit = digit::<K, BITS, 16>(key, negative, positive, shift);
            own[item] = key;
            digits[item] = digit;
            counters[padded((digit % 8) as usize * CUBE + mine)] += 1 << (digit / 8 * 16);
        }
    }
    barrier();
    // The counters become the sums of those before them: what a tile has of lower digits, and of the same digit in threads
    // before.
    let mut sum = 0;
    for item in 0..ITEMS {
        sum += counters[padded(mine * ITEMS + item)];
    }
    sums[mine] = sum;
    let mut distance = 1;
    while distance < CUBE {
        barrier();
        let mut other = 0;
        if mine >= distance {
            other = sums[mine - distance];
        }
        barrier();
        sums[mine] += other;
        distance *= 2;
    }
    barrier();
    // The keys of all lower digits come before those of digits from 8 on.
    let mut before = sums[mine] - sum + (sums[CUBE - 1] << 16);
    for item in 0..ITEMS {
        let at = padded(mine * ITEMS + item);
        let counter = counters[at];
        counters[at] = before;
        before += counter;
    }
    barrier();
    if mine < DIGITS {
        let first = counters[padded(mine % 8 * CUBE)] >> (mine as u32 / 8 * 16) & 0xffff;
        bases[mine] = places[mine * cubes() + cube()] - first;
    }
    barrier();
    let mut ranks = [0_u32; 8];
    for item in 0..ITEMS {
        if mine * ITEMS + item < count {
            let (digit, upper) = (digits[item], digits[item] / 8 * 16);
            let at = padded((digit % 8) as usize * CUBE + mine);
            let counter = counters[at];
            ranks[item] = counter >> upper & 0xffff;
            counters[at] = counter + (1 << upper);
        }
    }
    barrier();
    for item in 0..ITEMS {
        let at = mine * ITEMS + item;
        if at < count {
            let rank = padded(ranks[item] as usize);
            tile[rank] = own[item];
            if ORDERED {
                counters[rank] = order[start + at];
            }
        }
    }
    barrier();
    for item in 0..ITEMS {
        let at = item * CUBE + mine;
        if at < count {
            let key = tile[padded(at)];
            let place = bases[digit::<K, BITS, 16>(key, negative, positive, shift)] + at as u32;
            sorted[place] = key;
            if ORDERED {
                sorted_order[place] = counters[padded(at)];
            }
        }
    }
}

/// As [`sort_counts`], of chunks.
#[kernel]
fn sort_chunk_counts<K: Int, const BITS: u32>(
    shift: u32,
    negative: K,
    positive: K,
    keys: &[K],
    #[whole] counts: &mut [u32],
) {
    let mut own = [0_u32; 256];
    let start = thread() * CHUNK;
    for i in start..(start + CHUNK).min(keys.len()) {
        own[digit::<K, BITS, 256>(keys[i], negative, positive, shift)] += 1;
    }
    for digit in 0..WIDE_DIGITS {
        counts[digit * threads() + thread()] = own[digit];
    }
}

/// As [`sort_tiles`], of chunks.
#[kernel]
fn sort_chunks<K: Int, const BITS: u32, const ORDERED: bool>(
    shift: u32,
    negative: K,
    positive: K,
    keys: &[K],
    order: &[u32],
    places: &[u32],
    sorted: &mut [K],
    sorted_order: &mut [u32],
) {
    let mut next = [0_u32; 256];
    for digit in 0..WIDE_DIGITS {
        next[digit] = places[digit * threads() + thread()];
    }
    let start = thread() * CHUNK;
    for i in start..(start + CHUNK).min(keys.len()) {
        let key = keys[i];
        let digit = digit::<K, BITS, 256>(key, negative, positive, shift);
        let place = next[digit];
        next[digit] = place + 1;
        sorted[place] = key;
        if ORDERED {
            sorted_order[place] = order[i];
        }
    }
}

/// The masks by which keys become unsigned numbers of the same order.
struct Masks<K> {
    negative: K,
    positive: K,
}

impl<K: Int> Masks<K> {
    fn of(dtype: DType) -> Self {
        let (all, highest) = (u64::MAX, 1 << (8 * size_of::<K>() - 1));
        let (negative, positive) = match dtype {
            dtype if dtype.is_float() => (all, highest),
            dtype if dtype.is_signed() => (highest, highest),
            _ => (0, 0),
        };
        let of_bits = |bits: u64| bits.cast::<K>();
        use millstream_kernel::number::Cast as _;
        Self {
            negative: of_bits(negative),
            positive: of_bits(positive),
        }
    }
}

/// Sorts keys, and their order if there is one.
fn sort_bits<K: Int + Element, const BITS: u32, const ORDERED: bool>(
    stream: &Stream,
    Masks { negative, positive }: Masks<K>,
    keys: &mut Handle<K>,
    order: &mut Handle<u32>,
) -> Result<(), Error> {
    let is_cpu = stream.client().properties().backend == "cpu";
    let (part, digits, digit_bits) = match is_cpu {
        true => (CHUNK, WIDE_DIGITS, WIDE_DIGITS.ilog2()),
        false => (TILE, DIGITS, DIGITS.ilog2()),
    };
    let parts = keys.len().div_ceil(part);
    let (mut other, mut other_order) = (stream.empty(keys.len())?, stream.empty(order.len())?);
    let (mut from, mut to) = ((keys, order), (&mut other, &mut other_order));
    let passes = BITS / digit_bits;
    for pass in 0..passes {
        let shift = pass * digit_bits;
        let mut counts = stream.empty(digits * parts)?;
        match is_cpu {
            true => {
                sort_chunk_counts::<K, BITS>(shift, negative, positive, from.0, &mut counts)
                    .launch(stream, parts)?;
            }
            false => {
                sort_counts::<K, BITS>(shift, negative, positive, from.0, &mut counts)
                    .launch(stream, parts * CUBE)?;
            }
        }
        let places = scanned::<u32, u32, false, false>(stream, &counts)?;
        macro_rules! sort {
            ($kernel:ident, $threads:expr) => {
                $kernel::<K, BITS, ORDERED>(
                    shift, negative, positive, from.0, from.1, &places, to.0, to.1,
                )
                .launch(stream, $threads)?
            };
        }
        match is_cpu {
            true => sort!(sort_chunks, parts),
            false => sort!(sort_tiles, parts * CUBE),
        }
        (from, to) = (to, from);
    }
    // The results are where the last pass stored.
    if passes % 2 == 1 {
        stream.copy(from.0, to.0)?;
        stream.copy(from.1, to.1)?;
    }
    Ok(())
}

/// Sorts keys of any type.
fn sort_keys<T: Number + Element, const ORDERED: bool>(
    stream: &Stream,
    keys: &mut Handle<T>,
    order: &mut Handle<u32>,
) -> Result<(), Error> {
    let dtype = <T as Element>::DTYPE;
    macro_rules! sort_as {
        ($K:ident, $bits:literal) => {
            sort_bits::<$K, $bits, ORDERED>(stream, Masks::of(dtype), &mut keys.cast()?, order)
        };
    }
    match size_of::<T>() {
        _ if keys.len() < 2 => Ok(()),
        1 => sort_as!(u8, 8),
        2 => sort_as!(u16, 16),
        4 => sort_as!(u32, 32),
        _ => sort_as!(u64, 64),
    }
}

/// Sorts keys in ascending order, floats as by [`f32::total_cmp`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let mut keys = stream.create(&[2.5, -1.0, f32::NEG_INFINITY, 0.0])?;
/// millstream::kernels::sort(&stream, &mut keys)?;
/// assert_eq!(stream.read(&keys).wait()?, [f32::NEG_INFINITY, -1.0, 0.0, 2.5]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Argument`] if there are more than 2^32 - 1 keys, and those of [`Stream::empty`] and [`Stream::launch`]. The keys
/// are in any order after an error.
pub fn sort<T: Number + Element>(stream: &Stream, keys: &mut Handle<T>) -> Result<(), Error> {
    check_countable("sort", keys.len())?;
    let mut none = single(stream, 0)?;
    sort_keys::<T, false>(stream, keys, &mut none)
}

/// Returns the order that sorts keys, as by [`sort`]: the number of the least key, of the second, and so on. Equal keys keep
/// their order. [`gather`](super::gather) brings the keys, and what belongs to them, into this order.
///
/// ```
/// use millstream::kernels::{gather, sort_order};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let (years, prices) = (stream.create(&[1999, 1971, 2020])?, stream.create(&[5.0, 2.0, 9.0])?);
/// let order = sort_order(&stream, &years)?;
/// assert_eq!(stream.read(&order).wait()?, [1, 0, 2]);
/// assert_eq!(stream.read(&gather(&stream, &prices, &order)?).wait()?, [2.0, 5.0, 9.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Argument`] if there are more than 2^32 - 1 keys, and those of [`Stream::empty`] and [`Stream::launch`].
pub fn sort_order<T: Number + Element>(
    stream: &Stream,
    keys: &Handle<T>,
) -> Result<Handle<u32>, Error> {
    check_countable("sort_order", keys.len())?;
    let mut order = iota(stream, 0, 1, keys.len())?;
    let mut sorted = stream.empty(keys.len())?;
    stream.copy(keys, &sorted)?;
    sort_keys::<T, true>(stream, &mut sorted, &mut order)?;
    Ok(order)
}
