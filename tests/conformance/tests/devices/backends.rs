//! What a backend's author meets: the suite catches mistakes, an opening tells of wrong properties, and a kernel may be a
//! text in a language of the backend's own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use millstream::{
    Cpu, CpuResources, CubeCount, Device, DeviceProperties, Kernel, OpenError, write,
};
use millstream_conformance::list::FACTS;
use millstream_conformance::{Abilities, Fact, On as SuiteOn, Opening, Setting, Subject, Mode};

use crate::altered::{Altered, Change, NAME, NUMBER};
use crate::support::*;

/// The CPU with a change. Where kernels are texts, there is a twin of each kernel of the suite but one. It is a twin for the others as
/// well, which do not look at it: the suite knows one subject of a backend's name.
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
        let takes_rust = !matches!(self.0, Change::TakesNames);
        OnCpu.abilities(way).with(|has| {
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

    fn change(
        &self,
        resources: &mut CpuResources,
        index: usize,
        change: &mut dyn FnMut(&mut [u32]),
    ) {
        OnCpu.change(resources, index, change);
    }
}

/// No closure is a kernel there; what panics is a custom task between them.
#[test]
fn suite_runs_on_a_backend_that_has_only_twins_of_its_kernels() {
    const TEXTS: SuiteOn = SuiteOn::new(&OnAltered(Change::TakesNames), Mode::Threads);
    let themes = ["failure", "ordering", "requests", "recordings", "untyped"];
    let facts = FACTS.iter().filter(|fact| themes.contains(&fact.module));
    let skipped: Vec<_> = facts
        .filter_map(|fact| Some((fact.name, fact.check(TEXTS).err()?.0)))
        .collect();
    let because = |why: &str| {
        skipped
            .iter()
            .filter(|(_, told)| told.contains(why))
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
        because("kernels in Rust"),
        because("kernels that can be held"),
    );
    // The rest needs one queue.
    assert_eq!(skipped.len(), 1 + rust + held + 1, "{skipped:?}");
}

/// The message with which a fact fails on a device.
fn failure(on: SuiteOn, module: &str, name: &str) -> String {
    let fact = Fact::named(module, name).unwrap();
    let checked = catch_unwind(AssertUnwindSafe(|| fact.check(on)));
    let panic = checked.map(|skipped| skipped.unwrap()).unwrap_err();
    millstream::backend::panic_message(panic)
}

#[test]
fn suite_catches_a_dropped_wait_on_a_new_batch() {
    const MISTAKEN: SuiteOn =
        SuiteOn::new(&OnAltered(Change::DropsWaitsOnNewBatches), Mode::Threads);
    let name = "reader_waits_for_a_writer_in_the_middle_of_a_batch";
    let told = failure(MISTAKEN, "ordering", name);
    assert!(told.contains("did not wait for the writer"), "{told}");
}

#[test]
fn suite_catches_dropped_waits_without_held_kernels() {
    const MISTAKEN: SuiteOn = SuiteOn::new(&OnAltered(Change::DropsWaitsOnNewBatches), Mode::Driven);
    let name = "data_passed_between_streams_without_a_flush_arrives";
    let told = failure(MISTAKEN, "ordering", name);
    assert!(told.contains("left == right"), "{told}");
}

#[test]
fn suite_catches_a_fill_that_omits_its_last_elements() {
    const MISTAKEN: SuiteOn = SuiteOn::new(&OnAltered(Change::FillsInWords), Mode::Threads);
    let told = failure(
        MISTAKEN,
        "views",
        "fill_sets_every_element_of_its_view_and_no_other",
    );
    assert!(told.contains("1 elements from 0, of 1 bytes"), "{told}");
}

fn opened_with(change: fn(&mut DeviceProperties)) -> Result<Device, OpenError> {
    Device::open(Altered {
        cpu: Cpu::default().threads(1),
        change: Change::Properties(change),
    })
}

/// A field, what a backend says of it, and the sentence's end.
type Wrong = (fn(&mut DeviceProperties), &'static str);

#[test]
fn opening_with_invalid_properties_is_refused_i5() {
    const QUEUES: &str = "it must be from 1 to 16 (`MAX_QUEUES`)";
    const ALIGNED: &str =
        "it must be a power of two from 8 (`ALIGNMENT_MIN`) to 2^30 (`ALIGNMENT_MAX`)";
    const PITCH: &str = "it must be a power of two up to 2^30 (`ALIGNMENT_MAX`)";
    let wrong: &[(&str, &str, Wrong)] = &[
        ("queues", "17", (|of| of.queues = 17, QUEUES)),
        ("queues", "0", (|of| of.queues = 0, QUEUES)),
        (
            "queue_priorities",
            "[Normal, Normal, Normal]",
            (
                |of| of.queue_priorities = vec![millstream::Priority::Normal; of.queues + 1],
                "it must be no longer than there are `queues`",
            ),
        ),
        (
            "compute_units",
            "0",
            (|of| of.compute_units = 0, "it must be at least 1"),
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
            (|of| of.max_allocation_bytes = 0, "it must be at least 1"),
        ),
        (
            "max_cube_count",
            "[1, 0, 1]",
            (
                |of| of.max_cube_count = [1, 0, 1],
                "it must be at least 1 in each dimension",
            ),
        ),
        (
            "max_bindings",
            "0",
            (|of| of.max_bindings = 0, "it must be at least 1"),
        ),
        (
            "max_queue_depth",
            "0",
            (|of| of.max_queue_depth = 0, "it must be at least 1"),
        ),
    ];
    for (field, given, (change, must)) in wrong {
        let told = opened_with(*change).unwrap_err();
        assert!(matches!(&told, OpenError::Properties { field: of, .. } if of == field));
        let expected = format!(
            "`altered` cannot be opened: its `properties()` say that `{field}` is {given}, {must}"
        );
        assert_eq!(told.to_string(), expected);
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
        change: Change::TakesNumbers,
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
