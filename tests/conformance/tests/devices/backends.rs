//! Tests for authors of backends: the suite catches mistakes, an opening refuses invalid properties, and a kernel may
//! be a text in the backend's own language.

use std::panic::{AssertUnwindSafe, catch_unwind};

use millstream::{
    Cpu, CpuResources, CubeCount, Device, DeviceProperties, Kernel, OpenError, write,
};
use millstream_conformance::list::TESTS;
use millstream_conformance::{Abilities, Mode, On as SuiteOn, Opening, Setting, Subject, Test};

use crate::altered::{Altered, Change, NAME, NUMBER};
use crate::support::*;

/// The CPU with a change. Each kernel of the suite except one has a twin in the language of [`Change::TakeNames`]. The
/// other changes get the same twins and ignore them, because the suite knows one subject for each name of a backend.
struct OnAltered(Change);

impl Subject for OnAltered {
    type Kind = Altered;

    fn open(&self, setting: &Setting) -> Opening<Altered> {
        let Opening { kind, .. } = OnCpu.open(setting);
        Opening::of(Altered {
            cpu: kind,
            change: self.0,
        })
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
    assert_eq!(
        skipped.iter().find(|(_, why)| why.contains("places")),
        Some(&(
            "every_cube_runs_once_with_its_own_coordinates",
            "it needs a twin of `places`".to_owned()
        ))
    );
    let (rust, held) = (
        count_because("kernels in Rust"),
        count_because("kernels that can be held"),
    );
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

#[test]
fn suite_catches_a_dropped_wait_on_a_new_batch() {
    const MISTAKEN: SuiteOn =
        SuiteOn::new(&OnAltered(Change::DropWaitsOnNewBatches), Mode::Threads);
    let name = "reader_waits_for_a_writer_in_the_middle_of_a_batch";
    let message = failure(MISTAKEN, "ordering", name);
    assert!(message.contains("did not wait for the writer"), "{message}");
}

#[test]
fn suite_catches_dropped_waits_without_held_kernels() {
    const MISTAKEN: SuiteOn = SuiteOn::new(&OnAltered(Change::DropWaitsOnNewBatches), Mode::Driven);
    let name = "data_passed_between_streams_without_a_flush_arrives";
    let message = failure(MISTAKEN, "ordering", name);
    assert!(message.contains("left == right"), "{message}");
}

#[test]
fn suite_catches_a_fill_that_omits_its_last_elements() {
    const MISTAKEN: SuiteOn = SuiteOn::new(&OnAltered(Change::FillWholeWords), Mode::Threads);
    let message = failure(
        MISTAKEN,
        "views",
        "fill_sets_every_element_of_its_view_and_no_other",
    );
    assert!(
        message.contains("1 elements from 0, of 1 bytes"),
        "{message}"
    );
}

fn opened_with(change: fn(&mut DeviceProperties)) -> Result<Device, OpenError> {
    Device::open(Altered {
        cpu: Cpu::default().threads(1),
        change: Change::Properties(change),
    })
}

/// A change of the properties, and the end of the error's message.
type Wrong = (fn(&mut DeviceProperties), &'static str);

#[test]
fn opening_with_invalid_properties_is_refused_i5() {
    const QUEUES: &str = "must be from 1 to 16 (`MAX_QUEUES`)";
    const ALIGNED: &str =
        "must be a power of two from 8 (`ALIGNMENT_MIN`) to 2^30 (`ALIGNMENT_MAX`)";
    const PITCH: &str = "must be a power of two up to 2^30 (`ALIGNMENT_MAX`)";
    let wrong: &[(&str, &str, Wrong)] = &[
        ("queues", "17", (|of| of.queues = 17, QUEUES)),
        ("queues", "0", (|of| of.queues = 0, QUEUES)),
        (
            "queue_priorities",
            "[Normal, Normal, Normal]",
            (
                |of| of.queue_priorities = vec![millstream::Priority::Normal; of.queues + 1],
                "must be no longer than there are `queues`",
            ),
        ),
        (
            "compute_units",
            "0",
            (|of| of.compute_units = 0, "must be at least 1"),
        ),
        ("alignment", "0", (|of| of.alignment = 0, ALIGNED)),
        ("alignment", "4", (|of| of.alignment = 4, ALIGNED)),
        ("alignment", "24", (|of| of.alignment = 24, ALIGNED)),
        (
            "alignment",
            "2147483648",
            (|of| of.alignment = 1 << 31, ALIGNED),
        ),
        ("pitch_alignment", "0", (|of| of.pitch_alignment = 0, PITCH)),
        (
            "pitch_alignment",
            "48",
            (|of| of.pitch_alignment = 48, PITCH),
        ),
        (
            "max_allocation_bytes",
            "0",
            (|of| of.max_allocation_bytes = 0, "must be at least 1"),
        ),
        (
            "max_cube_count",
            "[1, 0, 1]",
            (
                |of| of.max_cube_count = [1, 0, 1],
                "must be at least 1 in each dimension",
            ),
        ),
        (
            "max_bindings",
            "0",
            (|of| of.max_bindings = 0, "must be at least 1"),
        ),
        (
            "max_queue_depth",
            "0",
            (|of| of.max_queue_depth = 0, "must be at least 1"),
        ),
    ];
    for (field, value, (change, rule)) in wrong {
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
    let device = Device::open(Altered {
        cpu: Cpu::default().threads(1),
        change: Change::TakeNumbers,
    });
    let device = device.unwrap();
    let client = device.new_client();
    let stream = client.new_stream();
    let (nines, values) = (
        client.kernel(kernel("9")).unwrap(),
        stream.empty::<u32>(4).unwrap(),
    );
    stream
        .launch(&nines, CubeCount::d1(2), (write(&values),))
        .unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [9; 4]);
    assert_eq!(
        error_text(client.kernel(kernel("nine"))),
        "kernel `nines` does not compile: `nine`: invalid digit found in string"
    );
    assert_eq!(
        error_text(client.kernel(Kernel::new("k").cuda("..").native(|_, _| ()))),
        "kernel `k` has no source for `altered`, only CUDA C, native; add one of a number"
    );
    assert_eq!(
        error_text(client.kernel(Kernel::new("k"))),
        "kernel `k` has no source for `altered`, nor for any other; add one of a number"
    );
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
    let (a, b) = (
        first.create(&[1_u32; 64]).unwrap(),
        first.create(&[2_u32; 64]).unwrap(),
    );
    let guard = |stream: &millstream::Stream, of| {
        stream
            .get_resource::<Cpu>(millstream::update(of))
            .wait()
            .unwrap()
    };
    let (of_a, of_b) = (guard(&first, &a), guard(&second, &b));
    let mut borrowed = of_b.write::<u32>(0);
    borrowed[0] = 3;
    // The task of `a` ends, that of `b` does not: a later fill of `b` is held.
    drop(of_a);
    second.fill(&b, 9).unwrap();
    first.fill(&a, 9).unwrap();
    assert_eq!(first.read(&a).wait().unwrap(), [9; 64]);
    assert_eq!((borrowed[0], borrowed[63]), (3, 2));
    assert_eq!(
        of_b.try_read::<u32>(0).err(),
        Some(millstream::error::ResourceError::Lent { binding: 0 })
    );
    drop(borrowed);
    drop(of_b);
    assert_eq!(second.read(&b).wait().unwrap(), [9; 64]);
}
