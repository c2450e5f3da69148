//! A service: async handlers of several tenants share one device. Each tenant has its own limits, requests have a
//! deadline and may be cancelled, handlers await room under back-pressure, and the service renders a page of metrics.
//!
//! ```text
//! cargo run --release --example service -- --requests 400 --backend cpu
//! ```
//! `--backend cuda` is the first NVIDIA GPU, `vulkan` the first GPU of Vulkan (with `--features vulkan`), `sim` the simulator. The executor is a few threads, each of which runs
//! one handler to its end. Any other executor works as well: answers are futures that need no runtime.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use millstream::prelude::*;
use millstream::sim::Sim;
use millstream::{
    CancelToken, ComputeClient, Cpu, Cuda, Error, Health, OpenError, Priority, Reason,
    device::AtLimit, error::MemoryError,
};

/// The handlers that run at once.
const HANDLERS: usize = 4;
/// The numbers that one cube sums.
const PER_CUBE: usize = 4_096;
/// The time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let Some((requests, backend)) = arguments(std::env::args().skip(1)) else {
        eprintln!("usage: service [--requests N] [--backend cpu|cuda|vulkan|sim]");
        return ExitCode::from(2);
    };
    match run(requests, &backend) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Parses the number of requests and the backend. Returns `None` if the arguments are invalid.
fn arguments(mut given: impl Iterator<Item = String>) -> Option<(u32, String)> {
    let (mut requests, mut backend) = (400, "cpu".to_owned());
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--requests" => requests = given.next()?.parse().ok()?,
            "--backend" => {
                backend = given
                    .next()
                    .filter(|name| BACKENDS.contains(&name.as_str()))?;
            }
            _ => return None,
        }
    }
    Some((requests, backend))
}

const BACKENDS: &[&str] = &[
    "cpu",
    "cuda",
    #[cfg(feature = "vulkan")]
    "vulkan",
    "sim",
];

fn open(backend: &str) -> Result<Device, OpenError> {
    match backend {
        "cuda" => Device::open(Cuda::ordinal(0)),
        #[cfg(feature = "vulkan")]
        "vulkan" => Device::open(millstream::Vulkan::ordinal(0)),
        "sim" => Device::open(Sim::seed(7)),
        _ => Device::open(Cpu::default()),
    }
}

/// Serves `requests` requests on the first device of a backend, and returns a report.
pub fn run(requests: u32, backend: &str) -> Result<String, Box<dyn std::error::Error>> {
    serve(requests, open(backend)?)
}

/// Serves `requests` requests on a device, and returns a report.
pub fn serve(requests: u32, device: Device) -> Result<String, Box<dyn std::error::Error>> {
    let tenants = tenants(&device);
    let ledger = Mutex::new(Ledger::default());
    let (queue, incoming) = mpsc::channel();
    let incoming = Mutex::new(incoming);
    std::thread::scope(|scope| {
        for _ in 0..HANDLERS {
            scope.spawn(|| {
                let next = || lock(&incoming).recv();
                while let Ok(request) = next() {
                    let tenant: &Tenant = &tenants[request_tenant(&request, tenants.len())];
                    let answer = pollster::block_on(tenant.handle(&request, &ledger));
                    lock(&ledger).note(tenant.name, &request, &answer);
                }
            });
        }
        (0..requests)
            .map(Request::new)
            .try_for_each(|request| queue.send(request))?;
        // Closes the channel, so that the handlers end after the remaining requests.
        drop(queue);
        Ok::<(), mpsc::SendError<Request>>(())
    })?;
    let ledger = lock(&ledger);
    let page = metrics(&device, &tenants, &ledger)?;
    let text = format!("{}\n{page}", ledger.table());
    let report = device.close(REQUEST_TIMEOUT);
    Ok(format!(
        "{text}\nclosed: drained {}, {} tasks left\n",
        report.drained, report.tasks_left
    ))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A user of the service.
struct Tenant {
    name: &'static str,
    client: ComputeClient,
}

/// Returns three tenants: one with high priority, one with tight limits, and one with low priority.
fn tenants(device: &Device) -> Vec<Tenant> {
    let client = |name| device.client_builder().name(name);
    let tenant = |name, client: millstream::ClientBuilder| Tenant {
        name,
        client: client.build(),
    };
    vec![
        tenant(
            "shop",
            client("shop")
                .priority(Priority::High)
                .hard_limit(64 << 20)
                .at_limit(AtLimit::Wait),
        ),
        // At most two uploads at once, and less than a megabyte of memory. A request that does not fit beside the others
        // waits for them; one that never fits is refused.
        tenant(
            "trial",
            client("trial")
                .hard_limit(900 << 10)
                .at_limit(AtLimit::Wait)
                .max_upload_bytes(200 << 10)
                .max_tasks(8),
        ),
        tenant("batch", client("batch").priority(Priority::Low).weight(2)),
    ]
}

fn request_tenant(request: &Request, tenants: usize) -> usize {
    request.number as usize % tenants
}

/// A request: the sum of the squares of some numbers.
struct Request {
    number: u32,
    numbers: Vec<f32>,
    deadline: Instant,
    /// Cancelled when the caller disconnects.
    token: CancelToken,
}

impl Request {
    fn new(number: u32) -> Self {
        let (token, mut deadline, mut len) =
            (CancelToken::new(), Instant::now() + REQUEST_TIMEOUT, 20_000);
        match number % 20 {
            // The caller has disconnected.
            5 => drop(token.cancel()),
            // The deadline has passed on arrival.
            9 => deadline = Instant::now(),
            // More memory than the limit of `trial`.
            13 => len = 1 << 18,
            _ => {}
        }
        Self {
            number,
            numbers: vec![(number % 7) as f32; len],
            deadline,
            token,
        }
    }

    /// Returns the correct answer. All sums are whole numbers below 2^24, and therefore exact in any order.
    fn answer(&self) -> f32 {
        self.numbers.len() as f32 * (self.number % 7).pow(2) as f32
    }
}

impl Tenant {
    /// Answers one request. Its tasks are withdrawn when the deadline passes, or when this future is dropped because
    /// the caller disconnects. Under back-pressure it awaits room, and blocks no thread.
    async fn handle(&self, request: &Request, ledger: &Mutex<Ledger>) -> Result<f32, Error> {
        let cancel_on_drop = request.token.clone().drop_guard();
        let stream = self.client.new_stream().with_cancel(&request.token);
        let stream = stream.with_deadline(request.deadline);
        let len = request.numbers.len();
        let upload = |stream: &Stream| self.count_busy(ledger, stream.create(&request.numbers));
        let input = stream.when_ready(upload).await?;
        let allocate =
            |stream: &Stream| self.count_busy(ledger, stream.empty(len.div_ceil(PER_CUBE)));
        let mut parts = stream.when_ready(allocate).await?;
        let launch = |stream: &Stream| {
            let cubes = len.div_ceil(PER_CUBE);
            let launched = squares(&input, &mut parts).launch(stream, cubes * 256);
            self.count_busy(ledger, launched)
        };
        stream.when_ready(launch).await?;
        let read = |stream: &Stream| self.count_busy(ledger, stream.read(&parts).submitted());
        let parts: Vec<f32> = stream.when_ready(read).await?.await?;
        cancel_on_drop.disarm();
        Ok(parts.iter().sum())
    }

    /// Counts a call that found no room and will be repeated.
    fn count_busy<T>(&self, ledger: &Mutex<Ledger>, outcome: Result<T, Error>) -> Result<T, Error> {
        if matches!(outcome, Err(Error::Busy { .. })) {
            lock(ledger).busy(self.name);
        }
        outcome
    }
}

/// Sums the squares of some numbers, a partial sum for each cube.
#[kernel(cube = 256)]
pub fn squares(numbers: &[f32], #[whole] parts: &mut [f32]) {
    let start = cube() * PER_CUBE;
    let end = (start + PER_CUBE).min(numbers.len());
    let (mut i, mut sum) = (start + thread_in_cube(), 0.0);
    while i < end {
        sum += numbers[i] * numbers[i];
        i += threads_in_cube();
    }
    let sum = cube_sum(sum);
    if thread_in_cube() == 0 {
        parts[cube()] = sum;
    }
}

/// The outcomes of requests.
#[derive(Default)]
struct Ledger {
    /// The number of requests by tenant and outcome.
    outcomes: BTreeMap<(&'static str, &'static str), u64>,
    /// The number of calls of each tenant that found no room.
    busy: BTreeMap<&'static str, u64>,
}

const OUTCOMES: [&str; 6] = ["served", "refused", "cancelled", "late", "failed", "wrong"];

impl Ledger {
    fn note(&mut self, tenant: &'static str, request: &Request, answer: &Result<f32, Error>) {
        let outcome = match answer {
            Ok(sum) if *sum != request.answer() => "wrong",
            answer => outcome(answer),
        };
        *self.outcomes.entry((tenant, outcome)).or_default() += 1;
    }

    fn busy(&mut self, tenant: &'static str) {
        *self.busy.entry(tenant).or_default() += 1;
    }

    fn table(&self) -> String {
        let mut text = format!("{:<8}", "tenant");
        OUTCOMES
            .iter()
            .for_each(|outcome| text += &format!("{outcome:>11}"));
        text += "   busy calls\n";
        let mut tenants: Vec<_> = self.outcomes.keys().map(|(tenant, _)| *tenant).collect();
        tenants.dedup();
        for tenant in tenants {
            text += &format!("{tenant:<8}");
            for outcome in OUTCOMES {
                let count = self.outcomes.get(&(tenant, outcome)).copied().unwrap_or(0);
                text += &format!("{count:>11}");
            }
            text += &format!("{:>13}\n", self.busy.get(tenant).copied().unwrap_or(0));
        }
        text
    }
}

fn outcome(answer: &Result<f32, Error>) -> &'static str {
    match answer {
        Ok(_) => "served",
        Err(Error::Memory(MemoryError::AboveLimit { .. })) => "refused",
        Err(error) => match error.failure().map(|failure| &failure.root().reason) {
            Some(Reason::Cancelled) => "cancelled",
            Some(Reason::DeadlinePassed) => "late",
            _ => "failed",
        },
    }
}

/// Renders the page of metrics in Prometheus' text format.
fn metrics(
    device: &Device,
    tenants: &[Tenant],
    ledger: &Ledger,
) -> Result<String, Box<dyn std::error::Error>> {
    let (stats, memory) = (device.stats()?, device.memory_usage()?);
    let mut page = Page::default();
    let healthy = matches!(device.health(), Health::Running { .. });
    page.family(
        "millstream_up",
        "gauge",
        "Whether the device runs: 1 if it does, else 0.",
    )?;
    page.sample("", f64::from(u8::from(healthy)))?;
    for (name, help, count) in [
        ("tasks", "Tasks issued to queues, in tasks.", stats.tasks),
        (
            "launches",
            "Kernel launches issued to queues, in launches.",
            stats.launches,
        ),
        (
            "batches",
            "Batches of tasks issued to queues together, in batches.",
            stats.batches,
        ),
        (
            "failures",
            "Tasks that failed before they ran, in tasks.",
            stats.failures,
        ),
        (
            "withdrawn",
            "Tasks cancelled or past their deadline before they ran, in tasks.",
            stats.withdrawn,
        ),
    ] {
        page.family(&format!("millstream_{name}_total"), "counter", help)?;
        page.sample("", count as f64)?;
    }
    page.family(
        "millstream_tasks_held",
        "gauge",
        "Tasks accepted by streams and not yet issued, in tasks.",
    )?;
    page.sample("", stats.tasks_held as f64)?;
    page.family(
        "millstream_queue_busy_seconds_total",
        "counter",
        "Busy time of a queue, in seconds.",
    )?;
    for (queue, stats) in stats.queues.iter().enumerate() {
        page.sample(&format!("queue=\"{queue}\""), stats.busy_ns as f64 / 1e9)?;
    }
    page.family("millstream_memory_bytes", "gauge", "Memory of the device in bytes, by state: in_use (by slices), reserved (in pages), high_water (the maximum in use).")?;
    let device = &memory.device;
    for (state, bytes) in [
        ("in_use", device.in_use),
        ("reserved", device.reserved),
        ("high_water", device.high_water),
    ] {
        page.sample(&format!("state=\"{state}\""), bytes as f64)?;
    }
    page.family(
        "millstream_client_memory_peak_bytes",
        "gauge",
        "Peak memory of a client's slices, in bytes.",
    )?;
    for usage in &memory.clients {
        let is_owner = |tenant: &&Tenant| tenant.client.id() == usage.client;
        if let Some(tenant) = tenants.iter().find(is_owner) {
            page.sample(
                &format!("client=\"{}\"", tenant.name),
                usage.high_water as f64,
            )?;
        }
    }
    page.family(
        "service_requests_total",
        "counter",
        "Answered requests by outcome, in requests.",
    )?;
    for ((tenant, outcome), count) in &ledger.outcomes {
        page.sample(
            &format!("tenant=\"{tenant}\",outcome=\"{outcome}\""),
            *count as f64,
        )?;
    }
    Ok(page.text)
}

/// A page of metrics.
#[derive(Default)]
struct Page {
    text: String,
    name: String,
}

impl Page {
    /// Begins a metric. The samples that follow belong to it.
    fn family(&mut self, name: &str, kind: &str, help: &str) -> std::fmt::Result {
        name.clone_into(&mut self.name);
        writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}")
    }

    fn sample(&mut self, labels: &str, value: f64) -> std::fmt::Result {
        let name = &self.name;
        match labels {
            "" => writeln!(self.text, "{name} {value}"),
            labels => writeln!(self.text, "{name}{{{labels}}} {value}"),
        }
    }
}
