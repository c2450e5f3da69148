//! The `tracing` spans of the slow paths; submitting a task and taking an answer that has arrived have none.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream::graph::{DType, Graph, Schedule};
use millstream::{Cpu, CubeCount, Device, Kernel, update};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Writes a line for each span that a thread begins.
#[derive(Clone, Default)]
struct SpanLog(Arc<Mutex<Vec<u8>>>);

impl SpanLog {
    /// Takes the spans begun since the last call.
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl Write for SpanLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for SpanLog {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[test]
fn slow_calls_have_a_span_and_launches_have_none() {
    super::alone(module_path!(), || {
        let log = SpanLog::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_span_events(FmtSpan::NEW)
            .with_writer(log.clone())
            .with_ansi(false)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let device = Device::open(Cpu::default()).unwrap();
            assert!(log.take().contains("open"));
            let client = device.new_client();
            let stream = client.new_stream();
            let kernel = Kernel::new("nothing")
                .updates::<u32>("data")
                .native(|_, _| {});
            let kernel = client.kernel(kernel).unwrap();
            assert!(log.take().contains("prepare{kernel=nothing}"));

            let data = stream.create(&[1_u32; 16]).unwrap();
            stream.sync().wait().unwrap();
            log.take();
            for _ in 0..100 {
                stream
                    .launch(&kernel, CubeCount::single(), (update(&data),))
                    .unwrap();
            }
            assert_eq!(log.take(), "");

            let graph = Graph::new();
            let x = graph.input("x", DType::F32, [16]);
            let schedule = Schedule::create_one(&x.exp()).unwrap();
            schedule.compile(&client).unwrap();
            let compiled = log.take();
            for span in [
                "schedule{roots=1}",
                "compile_schedule{items=1}",
                "compile{program=",
            ] {
                assert!(compiled.contains(span), "no {span} in:\n{compiled}");
            }
            device.close(Duration::from_secs(10));
            assert!(log.take().contains("close"));
        });
    });
}
