//! Products by the library: which are, what is done where it refuses, what it costs and leaves.

use millstream_client::{ComputeClient, Stream};
use millstream_graph::{CompiledSchedule, DType, Graph, LazyBuffer, Schedule, Size, Symbol};
use millstream_protocol::error::Error;
use rstest::rstest;

use crate::support::Gpu;

/// `CUBLAS_STATUS_EXECUTION_FAILED`
const EXECUTION_FAILED: u32 = 13;
/// `CUBLAS_STATUS_NOT_SUPPORTED`
const NOT_SUPPORTED: u32 = 15;

/// What a test says to the library, and asks of it.
pub(crate) fn library() -> fake_cublaslt::Lt {
    match fake_cublaslt::Lt::loaded() {
        Ok(library) => library,
        Err(error) => panic!("the library is not what is found as libcublasLt.so: {error}"),
    }
}

/// `max(a b + 1, 0) b`, of as many rows as a run says.
struct Model {
    compiled: CompiledSchedule,
    rows: Symbol,
    sides: [LazyBuffer; 2],
}

const WIDTH: usize = 8;
const ROWS_MAX: usize = 400;

impl Model {
    fn new(client: &ComputeClient) -> Self {
        let graph = Graph::new();
        let rows = graph.length("rows", ROWS_MAX as u64);
        let width = Size::from(WIDTH as u64);
        let a = graph.input("a", DType::F32, [Size::from(&rows), width.clone()]);
        let b = graph.input("b", DType::F32, [width.clone(), width]);
        let out = (a.matmul(&b) + 1.0_f32).maximum(0.0_f32).matmul(&b);
        let compiled = Schedule::create_one(&out).unwrap().compile(client).unwrap();
        let sides = [a, b];
        Self {
            compiled,
            rows,
            sides,
        }
    }

    /// Runs it, and looks whether it is right.
    fn run(&self, stream: &Stream, rows: usize) -> Result<(), Error> {
        let element = |at: usize| (at * 7 % 11) as f32 / 8.0 - 0.5;
        // An input has room for the most that there may be.
        let mut a: Vec<f32> = (0..ROWS_MAX * WIDTH).map(element).collect();
        let b: Vec<f32> = (0..WIDTH * WIDTH).map(element).collect();
        let [a_room, b_room] = [&a, &b].map(|side| stream.create(side).unwrap());
        a.truncate(rows * WIDTH);
        let run = self.compiled.run().length(&self.rows, rows as u64);
        let run = run
            .input(&self.sides[0], &a_room)
            .input(&self.sides[1], &b_room);
        let outputs = run.submit(stream).unwrap();
        let found = stream.read(&outputs[0].handle::<f32>().unwrap()).wait()?;
        let product = |a: &[f32]| -> Vec<f32> {
            let element = |at: usize| {
                let row = &a[at / WIDTH * WIDTH..][..WIDTH];
                row.iter()
                    .zip(b[at % WIDTH..].iter().step_by(WIDTH))
                    .map(|(a, b)| a * b)
                    .sum()
            };
            (0..a.len()).map(element).collect()
        };
        let hidden: Vec<f32> = product(&a).iter().map(|x| (x + 1.0).max(0.0)).collect();
        for (found, expected) in found.iter().zip(product(&hidden)) {
            assert!(
                (found - expected).abs() < 1e-4,
                "{found}, expected {expected}"
            );
        }
        assert_eq!(found.len(), a.len());
        Ok(())
    }
}

/// Runs are replays of one recording: one with a product by the library is issued task by task.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn a_schedule_uses_the_library_at_every_run() {
    let gpu = Gpu::with(5, |cuda| cuda.library_products_from(0));
    let (client, stream) = gpu.open();
    let (model, before) = (Model::new(client), library().products());
    for rows in [3, 3, 40, 3] {
        model.run(stream, rows).unwrap();
    }
    assert_eq!(library().products() - before, 8);
    assert_eq!(gpu.session().calls("cuGraphLaunch"), 0);
    drop(model);
    gpu.close();
}

#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn products_of_few_multiplications_are_not_the_librarys() {
    let gpu = Gpu::with(6, |cuda| {
        cuda.library_products_from((40 * WIDTH * WIDTH) as u64)
    });
    let (client, stream) = gpu.open();
    let (model, before) = (Model::new(client), library().products());
    for (rows, by_library) in [(39, 0), (40, 2)] {
        model.run(stream, rows).unwrap();
        assert_eq!(library().products() - before, by_library);
    }
    drop(model);
    gpu.close();
}

/// I12: a length that grows asks for another form at each run, and what was asked long ago is forgotten.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn forms_are_remembered_up_to_a_bound_i12() {
    let gpu = Gpu::with(7, |cuda| cuda.library_products_from(0));
    let (client, stream) = gpu.open();
    let model = Model::new(client);
    for rows in 1..=300 {
        model.run(stream, rows).unwrap();
    }
    // A handle, and four descriptions of each form.
    let living = gpu.living();
    assert!((1000..=1 + 4 * 256).contains(&living), "{living} are there");
    drop(model);
    gpu.close();
}

/// I7: what it refuses before it begins is nobody's error: there is a kernel for it.
#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn what_the_library_refuses_is_done_by_our_own_kernel_i7(
    #[values((NOT_SUPPORTED, 0), (0, NOT_SUPPORTED))] (product, algorithm): (u32, u32),
) {
    let gpu = Gpu::with(8, |cuda| cuda.library_products_from(0));
    let (client, stream) = gpu.open();
    let (model, before) = (Model::new(client), library().products());
    library().refuse(product, algorithm);
    for rows in [3, 3, 3, 4] {
        model.run(stream, rows).unwrap();
    }
    library().refuse(0, 0);
    assert_eq!(library().products(), before);
    // Another form is another question.
    model.run(stream, 5).unwrap();
    assert_eq!(library().products() - before, 2);
    drop(model);
    gpu.close();
}

/// I7: one that fails as it is executed may be under way in part: the device is lost, and everybody is told.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn a_product_that_fails_is_the_end_of_the_device_i7() {
    let gpu = Gpu::with(9, |cuda| cuda.library_products_from(0));
    let (client, stream) = gpu.open();
    let model = Model::new(client);
    model.run(stream, 3).unwrap();
    library().refuse(EXECUTION_FAILED, 0);
    let lost = model.run(stream, 3).unwrap_err();
    library().refuse(0, 0);
    let said = lost.to_string();
    assert!(matches!(lost, Error::DeviceLost { .. }), "{said}");
    assert!(client.new_stream().create(&[1.0_f32]).is_err());
    drop(model);
}

/// The library works in memory of the device; where there is none, our own kernel needs none.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn without_memory_to_work_in_products_are_our_own() {
    let gpu = Gpu::with(10, |cuda| cuda.library_products_from(0));
    gpu.session().memory_bytes(8 << 20);
    let (client, stream) = gpu.open();
    let (model, before) = (Model::new(client), library().products());
    for rows in [3, 3, 3] {
        model.run(stream, rows).unwrap();
    }
    assert_eq!(library().products(), before);
    drop(model);
    gpu.close();
}

/// I2: two queues do not work in one place; the fake reports it where they do.
#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn each_queue_has_memory_of_its_own_for_the_library_i2(#[values(1, 2, 3, 4)] seed: u64) {
    let gpu = Gpu::with(seed, |cuda| cuda.library_products_from(0).queues(2));
    let (client, first) = gpu.open();
    let model = Model::new(client);
    let others: Vec<Stream> = (0..3).map(|_| client.new_stream()).collect();
    std::thread::scope(|scope| {
        for stream in others.iter().chain([first]) {
            let model = &model;
            scope.spawn(move || {
                for rows in [3, 30, 3] {
                    model.run(stream, rows).unwrap();
                }
            });
        }
    });
    drop((model, others));
    gpu.close();
}
