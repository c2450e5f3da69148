//! What the simulated cluster is made of.

/// A link between two places: how long the head of a message takes to cross it, and how fast the rest follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Nanoseconds from one end to the other.
    pub latency_ns: u64,
    /// Bytes per microsecond (megabytes per second).
    pub bytes_per_us: u64,
}

/// A cluster: hosts with some ranks each, switches with some hosts each, and a core that connects the switches and is
/// never full.
///
/// ```text
///  rank ─┐                      ┌─ rank
///  rank ─┼─ memory ─ port ── switch ── uplink ── core ── uplink ── switch ── port ─ ..
///                               │
///                     other hosts' ports
/// ```
///
/// The times of a call are those of the LogGP model (Alexandrov and others, 1995): `message_ns` is its overhead `o`,
/// a link's latency and bandwidth are `L` and `1 / G`. A message occupies each link of its way for its bytes' time, and
/// a later one waits until the link is free: that is the contention.
///
/// The defaults describe hosts with one device each, 100 Gbit/s ports with 1.5 us from host to host, and 32 hosts for
/// each switch, whose uplink carries half of what their ports do. They are round figures of such hardware, not
/// measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Ranks of each host. 0 counts as 1.
    pub ranks_per_host: usize,
    /// Hosts of each switch. 0 counts as 1.
    pub hosts_per_switch: usize,
    /// Between ranks of one host, which share it, in both directions.
    pub memory: Link,
    /// From a host to its switch and back; its ranks share it.
    pub port: Link,
    /// From a switch to the core and back; its hosts share it.
    pub uplink: Link,
    /// Whether messages wait for links that are in use. Without it each message has all links for itself.
    pub contention: bool,
    /// Nanoseconds for which a message occupies the thread that sends it, and the one that receives it. A rank has one
    /// such thread.
    pub message_ns: u64,
    /// Nanoseconds from the time at which the data of a call is ready to the first message, and again from the last
    /// message to the time at which the device goes on.
    pub wake_ns: u64,
    /// Bytes up to which a send does not wait for its receive.
    pub eager_bytes: u64,
    /// Bytes up to which collectives take the fewest messages; larger ones take the fewest bytes.
    pub short_bytes: u64,
    /// Bytes per microsecond that a rank combines in a reduction.
    pub combined_bytes_per_us: u64,
    /// Nanoseconds until the others know that a rank has ended.
    pub detection_ns: u64,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            ranks_per_host: 1,
            hosts_per_switch: 32,
            memory: Link {
                latency_ns: 300,
                bytes_per_us: 10_000,
            },
            port: Link {
                latency_ns: 500,
                bytes_per_us: 12_500,
            },
            uplink: Link {
                latency_ns: 250,
                bytes_per_us: 16 * 12_500,
            },
            contention: true,
            message_ns: 250,
            wake_ns: 5_000,
            eager_bytes: 8 << 10,
            short_bytes: 16 << 10,
            combined_bytes_per_us: 8_000,
            detection_ns: 1_000_000_000,
        }
    }
}

impl Link {
    /// Returns how long these bytes take, apart from the latency.
    pub(crate) fn bytes_ns(self, bytes: u64) -> u64 {
        bytes_ns(bytes, self.bytes_per_us)
    }
}

/// Returns the nanoseconds for some bytes.
pub(crate) fn bytes_ns(bytes: u64, bytes_per_us: u64) -> u64 {
    let ns = u128::from(bytes) * 1000 / u128::from(bytes_per_us.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
