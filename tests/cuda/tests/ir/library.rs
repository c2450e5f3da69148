//! Matrix products by cuBLASLt: which products use it, what happens if it refuses one, and what it allocates.

use millstream_client::{ComputeClient, Stream};
use millstream_graph::{CompiledSchedule, DType, Graph, LazyBuffer, Schedule, Size, Symbol};
use millstream_kernel_cases::Runs;
use millstream_protocol::Error;
use rstest::rstest;

use crate::support::Gpu;

/// `CUBLAS_STATUS_EXECUTION_FAILED`
const EXECUTION_FAILED: u32 = 13;
/// `CUBLAS_STATUS_NOT_SUPPORTED`
const NOT_SUPPORTED: u32 = 15;

/// Returns the controls of the fake cuBLASLt.
pub(crate) fn library() -> fake_cublaslt::Lt {
    match fake_cublaslt::Lt::loaded() {
        Ok(library) => library,
        Err(error) => panic!("the loaded libcublasLt.so is not the fake: {error}"),
    }
}

/// Sums of split products are added in the type of the computation: in that of the output, `f16` would round each part.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn split_products_are_added_in_the_type_of_the_computation() {
    let gpu = Gpu::with(1, |cuda| cuda.library_products_from(0));
    let (client, stream) = gpu.stream();
    Model::new(client).run(stream, 40).unwrap();
    assert_eq!(library().reductions(), 2);
}

/// I8: the library loads its code when a kernel is prepared. Loading waits for all work of the context, for which the
/// thread of the device must not wait.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn code_of_the_library_is_loaded_while_a_kernel_is_prepared_i8() {
    let gpu = Gpu::with(2, |cuda| cuda.library_products_from(0).queues(2));
    let (client, stream) = gpu.stream();
    let model = Model::new(client);
    let loads = gpu.session().calls("cuModuleLoadData");
    assert!(loads > 0, "the library has loaded its code");
    model.run(stream, 40).unwrap();
    assert_eq!(gpu.session().calls("cuModuleLoadData"), loads);
}

/// `max(a b + 1, 0) b`, where each run sets the number of rows of `a`.
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

    /// Runs it and asserts that the result is correct.
    fn run(&self, stream: &Stream, rows: usize) -> Result<(), Error> {
        let element = |at: usize| (at * 7 % 11) as f32 / 8.0 - 0.5;
        // An input has the size of its largest length.
        let mut a: Vec<f32> = (0..ROWS_MAX * WIDTH).map(element).collect();
        let b: Vec<f32> = (0..WIDTH * WIDTH).map(element).collect();
        let [a_handle, b_handle] = [&a, &b].map(|side| stream.create(side).unwrap());
        a.truncate(rows * WIDTH);
        let run = self.compiled.run().length(&self.rows, rows as u64);
        let run = run
            .input(&self.sides[0], &a_handle)
            .input(&self.sides[1], &b_handle);
        let outputs = run.submit(stream).unwrap();
        let actual = stream.read(&outputs[0].handle::<f32>().unwrap()).wait()?;
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
        for (actual, expected) in actual.iter().zip(product(&hidden)) {
            assert!(
                (actual - expected).abs() < 1e-4,
                "{rows} rows: expected {expected}, got {actual}"
            );
        }
        assert_eq!(actual.len(), a.len());
        Ok(())
    }
}

/// Runs replay one recording. A recording with a product by the library is issued task by task, not as a graph of the
/// driver.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn every_run_of_a_schedule_uses_the_library() {
    let gpu = Gpu::with(5, |cuda| cuda.library_products_from(0));
    let (client, stream) = gpu.stream();
    let (model, before) = (Model::new(client), library().products());
    for rows in [3, 3, 40, 3] {
        model.run(stream, rows).unwrap();
    }
    assert_eq!(library().products() - before, 8);
    assert_eq!(gpu.session().calls("cuGraphLaunch"), 0);
}

#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn products_below_the_threshold_do_not_use_the_library() {
    let gpu = Gpu::with(6, |cuda| {
        cuda.library_products_from((40 * WIDTH * WIDTH) as u64)
    });
    let (client, stream) = gpu.stream();
    let (model, before) = (Model::new(client), library().products());
    for (rows, by_library) in [(39, 0), (40, 2)] {
        model.run(stream, rows).unwrap();
        assert_eq!(library().products() - before, by_library);
    }
}

/// I12: each run has another length and so another form of product; the cache evicts others.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn the_cache_of_product_forms_is_bounded_i12() {
    let gpu = Gpu::with(7, |cuda| cuda.library_products_from(0));
    let (client, stream) = gpu.stream();
    let model = Model::new(client);
    for rows in 1..=300 {
        model.run(stream, rows).unwrap();
    }
    // One handle of the library, and four descriptors for each cached form.
    let objects = gpu.library_objects();
    assert!(
        (1000..=1 + 4 * 256).contains(&objects),
        "expected at most 256 forms with 4 descriptors each, got {objects} objects"
    );
}

/// I7: a refusal before execution is not an error, since the tiled kernel computes the product instead.
#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn a_product_that_the_library_refuses_runs_on_the_tiled_kernel_i7(
    #[values((NOT_SUPPORTED, 0), (0, NOT_SUPPORTED))] (product, algorithm): (u32, u32),
) {
    let gpu = Gpu::with(8, |cuda| cuda.library_products_from(0));
    let (client, stream) = gpu.stream();
    let (model, before) = (Model::new(client), library().products());
    library().refuse(product, algorithm);
    for rows in [3, 3, 3, 4] {
        model.run(stream, rows).unwrap();
    }
    library().refuse(0, 0);
    assert_eq!(library().products(), before);
    // Refusals are cached by form, so a new form queries the library again.
    model.run(stream, 5).unwrap();
    assert_eq!(library().products() - before, 2);
}

/// I7: a product that fails during execution may have been submitted in part. The device is lost, and all later
/// requests receive the error.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn a_product_that_fails_during_execution_loses_the_device_i7() {
    let gpu = Gpu::with(9, |cuda| cuda.library_products_from(0));
    let (client, stream) = gpu.stream();
    let model = Model::new(client);
    model.run(stream, 3).unwrap();
    library().refuse(EXECUTION_FAILED, 0);
    let lost = model.run(stream, 3).unwrap_err();
    library().refuse(0, 0);
    assert!(matches!(lost, Error::DeviceLost { .. }), "{lost}");
    assert!(client.new_stream().create(&[1.0_f32]).is_err());
    gpu.may_leak();
}

/// The library needs device memory as a workspace. If there is too little, the tiled kernel, which needs none, computes
/// the product.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn without_memory_for_a_workspace_products_run_on_the_tiled_kernel() {
    let gpu = Gpu::with(10, |cuda| cuda.library_products_from(0));
    gpu.session().set_memory_bytes(8 << 20);
    let (client, stream) = gpu.stream();
    let (model, before) = (Model::new(client), library().products());
    for rows in [3, 3, 3] {
        model.run(stream, rows).unwrap();
    }
    assert_eq!(library().products(), before);
}

/// I2: queues do not share a workspace; the fake would report the race.
#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn each_queue_has_its_own_library_workspace_i2(#[values(1, 2, 3, 4)] seed: u64) {
    let gpu = Gpu::with(seed, |cuda| cuda.library_products_from(0).queues(2));
    let (client, first) = gpu.stream();
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
}
