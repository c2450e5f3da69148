//! `millstream soak --scale`: opens, uses and drops 10,000 clients with 100,000 streams, wave after wave.
//!
//! Each wave must leave the device empty, and waves after the second must not add memory.

use std::fmt::Write;
use std::time::{Duration, Instant};

use millstream::sim::Sim;
use millstream::{ComputeClient, Cpu, CubeCount, Device, Error, Handle, OpenError, Stream, Vulkan};
use millstream_testkit::{Pattern, add};
use serde::Serialize;

use super::run::left;
use super::system;
use super::verdict::Left;
use super::worker::kernels;
use crate::args::{Backend, SoakArgs};
use crate::demo::bytes;
use crate::exit::{CommandError, Exit};

/// The clients that are alive at once, and the streams of each.
const CLIENTS: usize = 10_000;
const STREAMS_EACH: usize = 10;
/// The number of waves. The first fills caches and tables; later ones must not grow them.
const WAVES: usize = 4;
/// The elements of each client's buffer.
const ELEMENTS: usize = 64;
/// The memory that the process may gain from the second wave to the last, which allocators may keep.
const GROWTH_MAX_BYTES: u64 = 8 << 20;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The measurements of one wave.
#[derive(Debug, Serialize)]
pub(crate) struct Wave {
    seconds: f64,
    /// The streams alive at the peak, as counted by the device.
    streams_live: u64,
    /// The buffers with wrong contents.
    wrong: u64,
    left: Left,
    reserved_bytes: u64,
    resident_bytes: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    exit_code: u8,
    backend: Backend,
    clients: usize,
    streams: usize,
    waves: Vec<Wave>,
    drained: bool,
    violations: Vec<String>,
}

impl Report {
    pub(crate) fn exit(&self) -> Exit {
        match self.violations.is_empty() {
            true => Exit::Success,
            false => Exit::Failure,
        }
    }
}

pub(crate) fn run(args: &SoakArgs) -> Result<Report, CommandError> {
    let device = open(args).map_err(|source| CommandError::Open { source })?;
    let waves: Result<Vec<Wave>, Error> = (0..WAVES).map(|_| wave(&device)).collect();
    let waves = waves.map_err(|source| CommandError::Device { source })?;
    let closed = device.close(CLOSE_TIMEOUT);
    let drained = closed.drained && closed.slices_held == 0 && closed.threads_left == 0;
    let violations = judge(&waves, drained);
    let mut report = Report {
        exit_code: 0,
        backend: args.backend,
        clients: CLIENTS,
        streams: CLIENTS * STREAMS_EACH,
        waves,
        drained,
        violations,
    };
    report.exit_code = report.exit().code();
    Ok(report)
}

fn open(args: &SoakArgs) -> Result<Device, OpenError> {
    match args.backend {
        Backend::Cpu => Device::open(Cpu::default()),
        Backend::Vulkan => Device::open(Vulkan::ordinal(0)),
        Backend::Sim => Device::open(Sim::seed(args.seed)),
    }
}

/// Opens, uses and drops all clients and streams.
fn wave(device: &Device) -> Result<Wave, Error> {
    let began = Instant::now();
    let kernels = kernels(&device.new_client())?;
    let clients: Vec<(ComputeClient, Vec<Stream>)> = (0..CLIENTS)
        .map(|_| {
            let client = device.new_client();
            let streams = (0..STREAMS_EACH).map(|_| client.new_stream()).collect();
            (client, streams)
        })
        .collect();
    let mut buffers: Vec<(Pattern, Handle<u32>)> = Vec::with_capacity(CLIENTS);
    for (index, (_, streams)) in clients.iter().enumerate() {
        let pattern = Pattern {
            base: index as u32,
            stride: 1,
        };
        let buffer = streams[0].create(&pattern.elements(ELEMENTS))?;
        for stream in streams {
            add(stream, &kernels, &buffer, 1, CubeCount::single())?;
        }
        let base = pattern.base + STREAMS_EACH as u32;
        buffers.push((Pattern { base, ..pattern }, buffer));
    }
    let streams_live = device.stats()?.streams;
    let mut wrong = 0;
    for ((_, streams), (pattern, buffer)) in clients.iter().zip(&buffers) {
        let got = streams[STREAMS_EACH - 1].read(buffer).wait()?;
        wrong += u64::from(got != pattern.elements(ELEMENTS));
    }
    drop((clients, buffers, kernels));
    device.sync().wait()?;
    Ok(Wave {
        seconds: began.elapsed().as_secs_f64(),
        streams_live,
        wrong,
        left: left(device)?,
        reserved_bytes: device.memory_usage()?.device.reserved,
        resident_bytes: system::resident_bytes().unwrap_or(0),
    })
}

/// Returns the violations of the waves.
fn judge(waves: &[Wave], drained: bool) -> Vec<String> {
    let mut violations = Vec::new();
    for (number, wave) in waves.iter().enumerate() {
        if wave.left != Left::default() {
            violations.push(format!("wave {number} left {:?}", wave.left));
        }
        if wave.wrong > 0 {
            violations.push(format!("wave {number} read {} wrong buffers", wave.wrong));
        }
        let streams = (CLIENTS * STREAMS_EACH) as u64;
        if wave.streams_live != streams {
            let live = wave.streams_live;
            violations.push(format!(
                "wave {number}: expected {streams} live streams, got {live}"
            ));
        }
    }
    if let [_, second, .., last] = waves {
        if last.reserved_bytes > second.reserved_bytes {
            let (from, to) = (bytes(second.reserved_bytes), bytes(last.reserved_bytes));
            violations.push(format!("reserved device memory grew from {from} to {to}"));
        }
        if last.resident_bytes > second.resident_bytes + GROWTH_MAX_BYTES {
            let (from, to) = (bytes(second.resident_bytes), bytes(last.resident_bytes));
            violations.push(format!("the process grew from {from} to {to}"));
        }
    }
    if !drained {
        violations.push("the device did not close cleanly".to_owned());
    }
    violations
}

/// Renders the report as text.
pub(crate) fn render(report: &Report) -> String {
    let mut text = format!(
        "{} clients and {} streams at once, {} waves\n\n",
        report.clients,
        report.streams,
        report.waves.len()
    );
    // Writing to a string cannot fail.
    for (number, wave) in report.waves.iter().enumerate() {
        let _ = writeln!(
            text,
            "  wave {number}: {:5.2} s, {} live streams, {} reserved on the device, {} in the process",
            wave.seconds,
            wave.streams_live,
            bytes(wave.reserved_bytes),
            bytes(wave.resident_bytes)
        );
    }
    text.push('\n');
    for violation in &report.violations {
        let _ = writeln!(text, "VIOLATION {violation}");
    }
    if report.violations.is_empty() {
        text.push_str(
            "clean: no wave left anything, and memory did not grow after the second wave\n",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(resident_bytes: u64) -> Wave {
        Wave {
            seconds: 1.0,
            streams_live: (CLIENTS * STREAMS_EACH) as u64,
            wrong: 0,
            left: Left::default(),
            reserved_bytes: 1,
            resident_bytes,
        }
    }

    #[test]
    fn leak_growth_or_wrong_data_of_a_wave_is_a_violation() {
        let clean = || vec![wave(0), wave(1 << 30), wave(1 << 30)];
        assert_eq!(judge(&clean(), true), [""; 0]);
        let plants: [fn(&mut Vec<Wave>); 5] = [
            |waves| waves[0].left.clients = 1,
            |waves| waves[1].wrong = 1,
            |waves| waves[2].streams_live -= 1,
            |waves| waves[2].reserved_bytes += 1,
            |waves| waves[2].resident_bytes += GROWTH_MAX_BYTES + 1,
        ];
        for plant in plants {
            let mut waves = clean();
            plant(&mut waves);
            assert_eq!(judge(&waves, true).len(), 1);
        }
        assert_eq!(judge(&clean(), false).len(), 1);
    }
}
