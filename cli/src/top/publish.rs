//! Publishes frames to a file, which is replaced atomically, so that readers never see a partial frame.
//!
//! A file instead of a socket supports any number of readers without the writer waiting for them. The last frame of a
//! killed writer remains, with its time.

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

/// The time between frames.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);

/// One task in this number is sampled for latencies.
const SAMPLE_EVERY: u64 = 16;

/// Returns the sampling interval of latencies for a device that publishes to `path`: 0, which disables it, without a
/// path.
pub(crate) fn sample_every(path: Option<&Path>) -> u64 {
    path.map_or(0, |_| SAMPLE_EVERY)
}

/// The timeout of a request for metrics.
const METRICS_TIMEOUT: Duration = Duration::from_secs(5);

/// A thread that publishes the metrics of a device until this is dropped.
pub(crate) struct Publisher {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    /// Starts to publish the metrics of `device` to `path`, if there is one. Writes the first frame at once, so that a
    /// wrong path fails before the work begins.
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
                // A full disk must not end the soak. Readers notice that no frame arrives.
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

impl Drop for Publisher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

/// Requests metrics and writes frames.
struct Writer {
    path: PathBuf,
    /// A temporary file in the same folder, which is renamed to `path`.
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

    /// Publishes the current metrics. While the device is lost it reports none, and the last frame is repeated without
    /// rates.
    fn write(&mut self, is_last: bool) -> io::Result<()> {
        let at_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let at_ms = u64::try_from(at_ms.as_millis()).unwrap_or(u64::MAX);
        if let Ok(metrics) = self.client.metrics().wait_timeout(METRICS_TIMEOUT) {
            let now = Instant::now();
            let before = self.last.as_ref().map(|(metrics, at)| (metrics, now - *at));
            let uptime = now - self.began;
            self.frame = Some(Frame::new(&self.source, &metrics, before, uptime, at_ms));
            self.last = Some((metrics, now));
        } else if let Some(frame) = &mut self.frame {
            frame.clear_rates();
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
    /// Removes the draft that remains if a rename failed.
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

    #[test]
    fn frame_of_a_closed_device_keeps_counters_and_has_zero_rates() {
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
        let running = follow::read(&path).unwrap();
        assert!(running.tasks > 0 && running.tasks_per_second > 0.0);
        device.close(Duration::from_secs(60));
        writer.write(false).unwrap();
        let closed = follow::read(&path).unwrap();
        assert_eq!(
            (closed.tasks, closed.tasks_per_second),
            (running.tasks, 0.0)
        );
        assert!(closed.queues.iter().all(|queue| queue.busy == 0.0));
    }
}
