//! A service: async handlers of many tenants share one device. Each tenant has limits of its own; requests have a
//! deadline and may be given up; a handler that finds no room awaits it; and there is a page of metrics.
//!
//! ```text
//! cargo run --release --example service -- --requests 400 --backend cpu
//! ```
//! `--backend cuda` is the first NVIDIA GPU, `sim` the simulator.
//! The executor is a few threads that each run one handler to its end. Any other does as well: answers are futures
//! that need no runtime.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use millstream::sim::Sim;
use millstream::{
    CancelToken, ComputeClient, Cpu, CubeCount, Cuda, Device, Error, Health, Kernel, MemoryError,
    OpenError, Priority, Read, Reason, Source, Stream, TypedKernel, Write,
};

/// Handlers that run at a time.
const HANDLERS: usize = 4;
/// Numbers that one cube adds up.
const PER_CUBE: usize = 4_096;
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let Some((requests, backend)) = arguments(std::env::args().skip(1)) else {
        eprintln!("the arguments are --requests N and --backend cpu, cuda or sim");
        return ExitCode::from(2);
    };
    match run(requests, &backend) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// How many requests, and the device's kind.
fn arguments(mut given: impl Iterator<Item = String>) -> Option<(u32, String)> {
    let (mut requests, mut backend) = (400, "cpu".to_owned());
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--requests" => requests = given.next()?.parse().ok()?,
            "--backend" => backend = given.next().filter(|name| KINDS.contains(&name.as_str()))?,
            _ => return None,
        }
    }
    Some((requests, backend))
}

const KINDS: [&str; 3] = ["cpu", "cuda", "sim"];

fn open(backend: &str) -> Result<Device, OpenError> {
    match backend {
        "cuda" => Device::open(Cuda::ordinal(0)),
        "sim" => Device::open(Sim::seed(7)),
        _ => Device::open(Cpu::default()),
    }
}

/// Serves so many requests and tells how it went.
pub fn run(requests: u32, backend: &str) -> Result<String, Box<dyn std::error::Error>> {
    let device = open(backend)?;
    let squares = device.new_client().kernel(squares())?.typed()?;
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
                    let answer = pollster::block_on(tenant.handle(&squares, &request, &ledger));
                    lock(&ledger).note(tenant.name, &request, &answer);
                }
            });
        }
        (0..requests)
            .map(Request::new)
            .try_for_each(|request| queue.send(request))?;
        // The handlers end when they have served what there is.
        drop(queue);
        Ok::<(), mpsc::SendError<Request>>(())
    })?;
    let ledger = lock(&ledger);
    let page = metrics(&device, &tenants, &ledger)?;
    let text = format!("{}\n{page}", ledger.table());
    let report = device.close(PATIENCE);
    Ok(format!(
        "{text}\nclosed: drained {}, {} tasks left\n",
        report.drained, report.tasks_left
    ))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who uses the service.
struct Tenant {
    name: &'static str,
    client: ComputeClient,
}

/// Three tenants: one that others wait for, one that has little, one that can wait.
fn tenants(device: &Device) -> Vec<Tenant> {
    let client = |name| device.client_builder().name(name);
    let tenant = |name, client: millstream::ClientBuilder| Tenant {
        name,
        client: client.build(),
    };
    vec![
        tenant(
            "shop",
            client("shop").priority(Priority::High).hard_limit(64 << 20),
        ),
        // Two uploads at a time, and less than a megabyte of memory.
        tenant(
            "trial",
            client("trial")
                .hard_limit(900 << 10)
                .max_upload_bytes(200 << 10)
                .max_tasks(8),
        ),
        tenant("batch", client("batch").priority(Priority::Low).weight(2)),
    ]
}

fn request_tenant(request: &Request, tenants: usize) -> usize {
    request.number as usize % tenants
}

/// What is asked: the sum of the squares of some numbers.
struct Request {
    number: u32,
    numbers: Vec<f32>,
    deadline: Instant,
    /// Cancelled when the asker has gone away.
    token: CancelToken,
}

impl Request {
    fn new(number: u32) -> Self {
        let (token, mut deadline, mut len) =
            (CancelToken::new(), Instant::now() + PATIENCE, 20_000);
        match number % 20 {
            // The asker did not wait for the answer.
            5 => drop(token.cancel()),
            // It was too old when it came.
            9 => deadline = Instant::now(),
            // More than `trial` may have.
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

    /// The right answer: whole numbers below 2^24, of which sums are exact in any order.
    fn answer(&self) -> f32 {
        self.numbers.len() as f32 * (self.number % 7).pow(2) as f32
    }
}

impl Tenant {
    /// Answers one request. What it has submitted is withdrawn when its deadline passes, or when this future is dropped
    /// because its asker has gone away. Where there is no room it waits in turn, and blocks no thread.
    async fn handle(
        &self,
        squares: &TypedKernel<Squares>,
        request: &Request,
        ledger: &Mutex<Ledger>,
    ) -> Result<f32, Error> {
        let gone = request.token.clone().drop_guard();
        let stream = self.client.new_stream().with_cancel(&request.token);
        let stream = stream.with_deadline(request.deadline);
        let len = request.numbers.len();
        let upload = |stream: &Stream| self.tried(ledger, stream.create(&request.numbers));
        let input = stream.when_room(upload).await?;
        let make = |stream: &Stream| self.tried(ledger, stream.empty(len.div_ceil(PER_CUBE)));
        let parts = stream.when_room(make).await?;
        let launch = |stream: &Stream| {
            let cubes = CubeCount::cover(len, PER_CUBE);
            let arguments = (&input, &parts, len as u32);
            self.tried(ledger, squares.launch(stream, cubes, arguments))
        };
        stream.when_room(launch).await?;
        let ask = |stream: &Stream| self.tried(ledger, stream.read(&parts).asked());
        let parts: Vec<f32> = stream.when_room(ask).await?.await?;
        gone.disarm();
        Ok(parts.iter().sum())
    }

    /// Notes a call that found no room, and will be made again.
    fn tried<T>(&self, ledger: &Mutex<Ledger>, outcome: Result<T, Error>) -> Result<T, Error> {
        if matches!(outcome, Err(Error::Busy { .. })) {
            lock(ledger).busy(self.name);
        }
        outcome
    }
}

/// The arguments of [`squares`]: numbers, a part for each cube, and how many numbers there are.
type Squares = (Read<f32>, Write<f32>, u32);

/// The sum of the squares, a part a cube: in Rust, in CUDA C, and as what NVRTC made of that, for GPUs without NVRTC.
pub fn squares() -> Kernel {
    let kernel = Kernel::new("squares")
        .reads::<f32>("numbers")
        .writes::<f32>("parts")
        .scalar::<u32>("count");
    let kernel = kernel
        .cuda(include_str!("kernels/squares.cu"))
        .source(Source::Ptx(include_str!("kernels/squares.ptx").into()));
    kernel.native(|cube, args| {
        let numbers = args.read::<f32>(0);
        let start = cube.index() as usize * PER_CUBE;
        let mine = &numbers[start.min(numbers.len())..(start + PER_CUBE).min(numbers.len())];
        args.chunk::<f32>(1)[0] = mine.iter().map(|number| number * number).sum();
    })
}

/// How requests ended.
#[derive(Default)]
struct Ledger {
    /// By tenant and outcome.
    outcomes: BTreeMap<(&'static str, &'static str), u64>,
    /// How often a tenant found no room.
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
        text += "  found no room\n";
        let mut tenants: Vec<_> = self.outcomes.keys().map(|(tenant, _)| *tenant).collect();
        tenants.dedup();
        for tenant in tenants {
            text += &format!("{tenant:<8}");
            for outcome in OUTCOMES {
                let count = self.outcomes.get(&(tenant, outcome)).copied().unwrap_or(0);
                text += &format!("{count:>11}");
            }
            text += &format!("{:>15}\n", self.busy.get(tenant).copied().unwrap_or(0));
        }
        text
    }
}

fn outcome(answer: &Result<f32, Error>) -> &'static str {
    match answer {
        Ok(_) => "served",
        Err(Error::Memory(MemoryError::Limit { .. })) => "refused",
        Err(error) => match error.failure().map(|failure| &failure.root().reason) {
            Some(Reason::Cancelled) => "cancelled",
            Some(Reason::DeadlinePassed) => "late",
            _ => "failed",
        },
    }
}

/// The page that a collector of metrics reads, in Prometheus' text form.
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
        (
            "tasks",
            "Tasks that were given to queues, in tasks.",
            stats.tasks,
        ),
        (
            "launches",
            "Kernel launches that were given to queues, in launches.",
            stats.launches,
        ),
        (
            "batches",
            "Batches of tasks that were handed to queues together, in batches.",
            stats.batches,
        ),
        (
            "failures",
            "Tasks that failed before they ran, in tasks.",
            stats.failures,
        ),
        (
            "withdrawn",
            "Tasks that were cancelled, or whose deadline passed, before they ran, in tasks.",
            stats.withdrawn,
        ),
    ] {
        page.family(&format!("millstream_{name}_total"), "counter", help)?;
        page.sample("", count as f64)?;
    }
    page.family(
        "millstream_tasks_held",
        "gauge",
        "Tasks that streams have accepted and no queue was given yet, in tasks.",
    )?;
    page.sample("", stats.tasks_held as f64)?;
    page.family(
        "millstream_queue_busy_seconds_total",
        "counter",
        "Time in which a queue ran tasks, in seconds.",
    )?;
    for (queue, stats) in stats.queues.iter().enumerate() {
        page.sample(&format!("queue=\"{queue}\""), stats.busy_ns as f64 / 1e9)?;
    }
    page.family("millstream_memory_bytes", "gauge", "Memory of the device in bytes, by state: in_use (by slices), reserved (in pages), high_water (the most in use).")?;
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
        "The most memory that the slices of a client had at a time, in bytes.",
    )?;
    for of in &memory.clients {
        let is_theirs = |tenant: &&Tenant| tenant.client.id() == of.client;
        if let Some(tenant) = tenants.iter().find(is_theirs) {
            page.sample(&format!("client=\"{}\"", tenant.name), of.high_water as f64)?;
        }
    }
    page.family(
        "service_requests_total",
        "counter",
        "Requests that were answered, in requests, by how they ended.",
    )?;
    for ((tenant, outcome), count) in &ledger.outcomes {
        page.sample(
            &format!("tenant=\"{tenant}\",outcome=\"{outcome}\""),
            *count as f64,
        )?;
    }
    Ok(page.text)
}

/// A page of metrics that is being written.
#[derive(Default)]
struct Page {
    text: String,
    name: String,
}

impl Page {
    /// What follows is of this metric.
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
