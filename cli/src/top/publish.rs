//! Publishing frames: a file that is replaced as a whole, so that whoever reads it finds one frame, and never a part of one.
//!
//! A file and not a socket: any number of watchers, none of which the writer knows or waits for; and what a writer that was killed
//! leaves behind says when it was written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millstream::metrics::Metrics;
use millstream::{ComputeClient, Device};

use super::frame::{Frame, Source};
use crate::exit::CommandError;

/// How often.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);

/// One task of so many is followed for latencies.
const SAMPLE_EVERY: u64 = 16;

/// One task of how many is followed on a device that publishes to this file, or to none.
pub(crate) fn sampling(path: Option<&Path>) -> u64 {
    path.map_or(0, |_| SAMPLE_EVERY)
}

/// How long the device may take to tell.
const PATIENCE: Duration = Duration::from_secs(5);

/// Frames of a device, published by a thread of its own until this is dropped.
pub(crate) struct Publication {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Publication {
    /// Publishes to `path`, if there is one, what `device` tells; at once for the first time, so that a name that is no good is told before the work.
    pub(crate) fn start(
        path: Option<&Path>,
        command: &'static str,
        device: &Device,
    ) -> Result<Option<Self>, CommandError> {
        let Some(path) = path else { return Ok(None) };
        let writer = Writer::new(path, Source::new(command, device), device.new_client());
        let (stop, stopped) = mpsc::channel();
        let mut writer = writer.map_err(|source| CommandError::MetricsUnwritable {
            path: path.to_owned(),
            source,
        })?;
        let publish = move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // A full disk ends no soak: whoever watches sees that nothing comes.
                let _ = writer.write(false);
            }
            let _ = writer.write(true);
        };
        let thread = thread::Builder::new()
            .name("publisher".to_owned())
            .spawn(publish);
        Ok(Some(Self {
            stop: Some(stop),
            thread: Some(thread.map_err(|source| CommandError::Thread { source })?),
        }))
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of it was told where it happened.
            let _ = thread.join();
        }
    }
}

/// Asks, and writes.
struct Writer {
    path: PathBuf,
    /// Beside it, so that it can take its place.
    draft: PathBuf,
    source: Source,
    client: ComputeClient,
    began: Instant,
    last: Option<(Metrics, Instant)>,
    frame: Option<Frame>,
}

impl Writer {
    fn new(path: &Path, source: Source, client: ComputeClient) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}", std::process::id()));
        let mut writer = Self {
            path: path.to_owned(),
            draft: draft.into(),
            source,
            client,
            began: Instant::now(),
            last: None,
            frame: None,
        };
        writer.write(false)?;
        Ok(writer)
    }

    /// Publishes what the device tells now. A device that is lost tells nothing until it is opened again; then its last frame stays.
    fn write(&mut self, is_last: bool) -> io::Result<()> {
        let at_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let at_ms = u64::try_from(at_ms.as_millis()).unwrap_or(u64::MAX);
        if let Ok(metrics) = self.client.metrics().wait_timeout(PATIENCE) {
            let now = Instant::now();
            let before = self.last.as_ref().map(|(metrics, at)| (metrics, now - *at));
            let uptime = now - self.began;
            self.frame = Some(Frame::new(&self.source, &metrics, before, uptime, at_ms));
            self.last = Some((metrics, now));
        } else if let Some(frame) = &mut self.frame {
            frame.stands_still();
        }
        let Some(frame) = &mut self.frame else {
            return Ok(());
        };
        (frame.is_last, frame.at_ms) = (is_last, at_ms);
        fs::write(&self.draft, serde_json::to_vec(frame)?)?;
        fs::rename(&self.draft, &self.path)
    }
}

impl Drop for Writer {
    /// Where the last one could not take its place.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.draft);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millstream::Cpu;

    use super::super::follow;
    use super::*;
    use crate::scratch::Scratch;

    /// What it did is told still, and not that it goes on doing that.
    #[test]
    fn a_device_that_is_gone_has_counts_and_no_rates() {
        let folder = Scratch::new("publish");
        let path = folder.path().join("metrics.json");
        let device = Device::open(Cpu::default()).unwrap();
        let stream = device.new_client().new_stream();
        let source = Source::new("soak", &device);
        let mut writer = Writer::new(&path, source, device.new_client()).unwrap();
        let buffer = stream.create(&[1_u32; 16]).unwrap();
        stream.fill(&buffer, 2).unwrap();
        device.sync().wait().unwrap();
        writer.write(false).unwrap();
        let at_work = follow::read(&path).unwrap();
        assert!(at_work.tasks > 0 && at_work.tasks_per_second > 0.0);
        device.close(Duration::from_secs(60));
        writer.write(false).unwrap();
        let gone = follow::read(&path).unwrap();
        assert_eq!((gone.tasks, gone.tasks_per_second), (at_work.tasks, 0.0));
        assert!(gone.queues.iter().all(|queue| queue.busy == 0.0));
    }
}
