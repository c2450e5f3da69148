//! Tests for authors of backends: the suite catches mistakes, an opening refuses invalid properties, and a kernel may
//! be a text in the backend's own language.

use std::panic::{AssertUnwindSafe, catch_unwind};

use millstream::{
    Cpu, CpuResources, CubeCount, Device, DeviceProperties, Kernel, OpenError, Priority, Stream,
    error::ResourceError, update, write,
};
use millstream_conformance::list::TESTS;
use millstream_conformance::{Abilities, Mode, On as SuiteOn, Opening, Setting, Subject, Test};
use rstest::rstest;

use crate::altered::{Altered, Change, NAME, NUMBER};
use crate::support::*;

/// The CPU with a change. Each kernel of the suite except one has a twin in the language of [`Change::TakeNames`]. The
/// other changes get the same twins and ignore them, because the suite knows one subject for each name of a backend.
struct OnAltered(Change);

impl Subject for OnAltered {
    type Kind = Altered;

    fn open(&self, setting: &Setting) -> Opening<Altered> {
        let Opening { kind, .. } = OnCpu.open(setting);
        Opening::of(Altered::new(kind, self.0))
    }

    fn abilities(&self, mode: Mode) -> Abilities {
        let takes_rust = !matches!(self.0, Change::TakeNames);
        OnCpu.abilities(mode).with(|has| {
            has.rust_kernels &= takes_rust;
            has.holds_kernels &= takes_rust;
        })
    }

    fn twin(&self, kernel: Kernel) -> Kernel {
        let name = kernel.name().clone();
        kernel.text(NAME, name)
    }

    fn lacks_twin(&self, kernel: &str) -> bool {
        kernel == "places"
    }

    fn read(&self, resources: &CpuResources, index: usize) -> Vec<u32> {
        OnCpu.read(resources, index)
    }

    fn change(&self, resources: &CpuResources, index: usize, change: &mut dyn FnMut(&mut [u32])) {
        OnCpu.change(resources, index, change);
    }
}

/// The device runs no closures as kernels; the tests that need a panic use a custom task.
#[test]
fn suite_runs_on_a_backend_that_has_only_twins_of_its_kernels() {
    const TEXTS: SuiteOn = SuiteOn::new(&OnAltered(Change::TakeNames), Mode::Threads);
    let themes = ["failure", "ordering", "requests", "recordings", "untyped"];
    let tests = TESTS.iter().filter(|test| themes.contains(&test.module));
    let skipped: Vec<_> = tests
        .filter_map(|test| Some((test.name, test.run(TEXTS).err()?.0)))
        .collect();
    let count_because = |why: &str| {
        skipped
            .iter()
            .filter(|(_, reason)| reason.contains(why))
            .count()
    };
    let lacks_places = (
        "every_cube_runs_once_with_its_own_coordinates",
        "it needs a twin of `places`".to_owned(),
    );
    assert!(skipped.contains(&lacks_places));
    let rust = count_because("kernels in Rust");
    let held = count_because("kernels that can be held");
    // One more test needs one queue.
    assert_eq!(skipped.len(), 1 + rust + held + 1, "{skipped:?}");
}

/// Returns the panic message of a test that fails on a device.
fn failure(on: SuiteOn, module: &str, name: &str) -> String {
    let test = Test::named(module, name).unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| test.run(on)));
    let panic = outcome.map(|skipped| skipped.unwrap()).unwrap_err();
    millstream::backend::panic_message(panic)
}

#[rstest]
#[case::of_a_new_batch(
    SuiteOn::new(&OnAltered(Change::DropWaitsOnNewBatches), Mode::Threads),
    "ordering::reader_waits_for_a_writer_in_the_middle_of_a_batch",
    "did not wait for the writer"
)]
#[case::without_held_kernels(
    SuiteOn::new(&OnAltered(Change::DropWaitsOnNewBatches), Mode::Driven),
    "ordering::data_passed_between_streams_without_a_flush_arrives",
    "left == right"
)]
#[case::of_the_last_elements_of_a_fill(
    SuiteOn::new(&OnAltered(Change::FillWholeWords), Mode::Threads),
    "views::fill_sets_every_element_of_its_view_and_no_other",
    "1 elements from 0, of 1 bytes"
)]
fn suite_catches_an_omission(#[case] on: SuiteOn, #[case] test: &str, #[case] expected: &str) {
    let (module, name) = test.split_once("::").unwrap();
    let message = failure(on, module, name);
    assert!(message.contains(expected), "{message}");
}

fn opened_with(change: fn(&mut DeviceProperties)) -> Result<Device, OpenError> {
    let cpu = Cpu::default().threads(1);
    Device::open(Altered::new(cpu, Change::Properties(change)))
}

#[test]
fn opening_with_invalid_properties_is_refused_i5() {
    const QUEUES: &str = "must be from 1 to 16 (`MAX_QUEUES`)";
    const NO_LONGER: &str = "must be no longer than there are `queues`";
    const ALIGNED: &str =
        "must be a power of two from 8 (`ALIGNMENT_MIN`) to 2^30 (`ALIGNMENT_MAX`)";
    const PITCH: &str = "must be a power of two up to 2^30 (`ALIGNMENT_MAX`)";
    const ONE: &str = "must be at least 1";
    const ONE_EACH: &str = "must be at least 1 in each dimension";
    let three = "[Normal, Normal, Normal]";
    let longer = |of: &mut DeviceProperties| of.queue_priorities = vec![Priority::Normal; 3];
    let zero = |of: &mut DeviceProperties| of.max_cube_count = [1, 0, 1];
    type Edit = fn(&mut DeviceProperties);
    let wrong: &[(&str, &str, &str, Edit)] = &[
        ("queues", "17", QUEUES, |of| of.queues = 17),
        ("queues", "0", QUEUES, |of| of.queues = 0),
        ("queue_priorities", three, NO_LONGER, longer),
        ("compute_units", "0", ONE, |of| of.compute_units = 0),
        ("alignment", "0", ALIGNED, |of| of.alignment = 0),
        ("alignment", "4", ALIGNED, |of| of.alignment = 4),
        ("alignment", "24", ALIGNED, |of| of.alignment = 24),
        ("alignment", "2147483648", ALIGNED, |of| {
            of.alignment = 1 << 31;
        }),
        ("pitch_alignment", "0", PITCH, |of| of.pitch_alignment = 0),
        ("pitch_alignment", "48", PITCH, |of| of.pitch_alignment = 48),
        ("max_allocation_bytes", "0", ONE, |of| {
            of.max_allocation_bytes = 0;
        }),
        ("max_cube_count", "[1, 0, 1]", ONE_EACH, zero),
        ("max_bindings", "0", ONE, |of| of.max_bindings = 0),
        ("max_queue_depth", "0", ONE, |of| of.max_queue_depth = 0),
    ];
    for (field, value, rule, change) in wrong {
        let error = opened_with(*change).unwrap_err();
        assert!(matches!(&error, OpenError::Unavailable { .. }));
        let expected = format!(
            "`altered` cannot be opened: `{field}` of its `properties()` {rule}, got {value}"
        );
        assert_eq!(error.to_string(), expected);
    }
    opened_with(|_| ()).unwrap();
}

#[test]
fn text_source_compiles_on_the_backend_of_its_kind_and_is_refused_by_others() {
    let kernel = |text: &str| {
        Kernel::new("nines")
            .writes::<u32>("values")
            .text(NUMBER, text)
    };
    let numbers = Altered::new(Cpu::default().threads(1), Change::TakeNumbers);
    let device = Device::open(numbers).unwrap();
    let client = device.new_client();
    let stream = client.new_stream();
    let nines = client.kernel(kernel("9")).unwrap();
    let values = stream.empty::<u32>(4).unwrap();
    let cubes = CubeCount::d1(2);
    stream.launch(&nines, cubes, (write(&values),)).unwrap();
    assert_eq!(stream.get(&values), [9; 4]);
    for (refused, expected) in [
        (
            kernel("nine"),
            "kernel `nines` does not compile: `nine`: invalid digit found in string",
        ),
        (
            Kernel::new("k").cuda("..").native(|_, _| ()),
            "kernel `k` has no source for `altered`, only CUDA C, native; add one of a number",
        ),
        (
            Kernel::new("k"),
            "kernel `k` has no source for `altered`, nor for any other; add one of a number",
        ),
    ] {
        assert_eq!(error_text(client.kernel(refused)), expected);
    }
    let rig = On::Cpu.open();
    assert_eq!(
        error_text(rig.client().kernel(kernel("9"))),
        "kernel `nines` has no source for `cpu`, only a number; add one of native, IR"
    );
}

/// I2: what is borrowed from a guard is the memory of its own task, whatever happens to other guards.
#[test]
fn a_borrow_keeps_the_task_of_its_guard_i2() {
    let device = Device::open(Cpu::default()).unwrap();
    let client = device.new_client();
    let [first, second] = [(); 2].map(|()| client.new_stream());
    let a = first.put(&[1_u32; 64]);
    let b = first.put(&[2_u32; 64]);
    let guard = |stream: &Stream, of| stream.get_resource::<Cpu>(update(of)).wait().unwrap();
    let (of_a, of_b) = (guard(&first, &a), guard(&second, &b));
    let mut borrowed = of_b.write::<u32>(0);
    borrowed[0] = 3;
    // The task of `a` ends, that of `b` does not: a later fill of `b` is held.
    drop(of_a);
    second.fill(&b, 9).unwrap();
    first.fill(&a, 9).unwrap();
    assert_eq!(first.get(&a), [9; 64]);
    assert_eq!((borrowed[0], borrowed[63]), (3, 2));
    let lent = ResourceError::Lent { binding: 0 };
    assert_eq!(of_b.try_read::<u32>(0).err(), Some(lent));
    drop(borrowed);
    drop(of_b);
    assert_eq!(second.get(&b), [9; 64]);
}
