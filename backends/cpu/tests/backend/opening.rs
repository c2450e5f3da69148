//! Options, properties, memory limits, kernels that do not compile, and measurements.

use std::sync::Arc;

use millstream_cpu::Cpu;
use millstream_protocol::{
    Backend, Feature, HostContext, Kernel, KernelError, Open, OpenError, PageError,
};
use millstream_sync::facade::SpinPolicy;

use crate::rig::{Q0, Q1, Rig, table};

fn refused(options: Cpu) -> &'static str {
    let context = HostContext {
        gone: Default::default(),
        driven: false,
        table: table().0,
        trace_capacity: 0,
        spin: SpinPolicy::default(),
        spawner: Default::default(),
    };
    match options.open(context) {
        Err(OpenError::Option { option, .. }) => option,
        _ => "nothing",
    }
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    assert_eq!(refused(Cpu::default().queues(0)), "queues");
    assert_eq!(refused(Cpu::default().queues(17)), "queues");
    assert_eq!(refused(Cpu::default().threads(0)), "threads");
    assert_eq!(refused(Cpu::default().threads(1_000_000)), "threads");
    assert_eq!(refused(Cpu::default().queues(16)), "nothing");
}

#[test]
fn properties_reflect_the_options() {
    let rig = Rig::new(Cpu::default().queues(3).threads(2).memory_limit(1 << 20));
    let properties = rig.device.properties();
    assert_eq!((properties.queues, properties.compute_units), (3, 2));
    assert_eq!(
        (properties.memory_bytes, properties.max_allocation_bytes),
        (Some(1 << 20), 1 << 20)
    );
    assert!(properties.has(Feature::NativeKernels) && !properties.has(Feature::TensorMaps));
    assert!(!properties.name.is_empty());
}

#[test]
fn memory_beyond_the_limit_is_refused_until_some_is_freed() {
    let mut rig = Rig::new(Cpu::default().queues(1).memory_limit(1000));
    let first = rig.device.allocate(600).unwrap();
    assert_eq!(
        rig.device.allocate(600),
        Err(PageError::OutOfMemory { free: Some(400) })
    );
    assert_eq!(
        rig.device.allocate(1001),
        Err(PageError::TooLarge { limit: 1000 })
    );
    rig.device.free(first);
    assert_eq!(
        rig.device.allocate(600),
        Ok(first),
        "page numbers are reused"
    );
}

#[test]
fn allocation_refused_by_the_system_is_out_of_memory() {
    let mut rig = Rig::new(Cpu::default().queues(1));
    assert!(matches!(
        rig.device.allocate(1 << 60),
        Err(PageError::OutOfMemory { .. })
    ));
    assert!(matches!(
        rig.device.allocate(u64::MAX),
        Err(PageError::TooLarge { .. })
    ));
}

#[test]
fn pages_start_zeroed_and_aligned() {
    let mut rig = Rig::new(Cpu::default().queues(1));
    for bytes in [1, 255, 4096, 1 << 22] {
        let slice = rig.slice(bytes);
        let point = rig.custom(Q0, &[slice.read()], |resources| {
            let resources = resources.unwrap();
            let bytes = resources.read::<u8>(0);
            assert!(
                bytes.as_ptr().addr().is_multiple_of(256) && bytes.iter().all(|byte| *byte == 0)
            );
        });
        rig.wait(point).unwrap();
        let read = rig.custom(Q0, &[slice.read()], |value| assert!(value.is_ok()));
        rig.wait(read).unwrap();
    }
}

#[test]
fn kernels_this_device_cannot_run_fail_to_compile() {
    let rig = Rig::new(Cpu::default().queues(1));
    let compile = |kernel: Kernel| {
        rig.device
            .compiler()
            .compile(&Arc::new(kernel))
            .map(drop)
            .unwrap_err()
    };
    let only_cuda = compile(Kernel::new("k").cuda("..."));
    assert_eq!(
        only_cuda.to_string(),
        "kernel `k` has no source for `cpu`, only CUDA C; add one of native, IR"
    );
    assert!(matches!(
        compile(Kernel::new("k")),
        KernelError::NoSource { .. }
    ));
    let feature = compile(
        Kernel::new("k")
            .requires(Feature::TensorMaps)
            .native(|_, _| ()),
    );
    assert!(matches!(feature, KernelError::Feature { .. }));
    let mut wide = Kernel::new("k");
    for _ in 0..65 {
        wide = wide.reads::<u8>("in");
    }
    assert!(matches!(
        compile(wide.native(|_, _| ())),
        KernelError::TooManyBindings { .. }
    ));
}

#[test]
fn latest_spans_up_to_the_capacity_are_kept_in_order() {
    let mut rig = Rig::with(Cpu::default().queues(2), false, 3);
    for _ in 0..5 {
        rig.custom(Q0, &[], |_| ());
    }
    let last = rig.next(Q0);
    rig.device.mark(Q0, last.cursor);
    rig.wait(last).unwrap();
    let spans = rig.device.take_spans();
    assert_eq!(
        spans
            .iter()
            .map(|span| span.point.cursor)
            .collect::<Vec<_>>(),
        [3, 4, 5]
    );
    assert!(spans.iter().all(|span| span.start_ns <= span.end_ns));
    assert!(
        spans
            .windows(2)
            .all(|pair| pair[0].end_ns <= pair[1].start_ns)
    );
    assert!(rig.device.take_spans().is_empty());
    assert!(rig.device.busy_ns(Q0) > 0 && rig.device.busy_ns(Q1) == 0);
}

/// Recording costs nothing while it is off.
#[test]
fn spans_are_recorded_while_requested() {
    let mut rig = Rig::new(Cpu::default().queues(1));
    let run = |rig: &mut Rig| {
        let points = [(); 4].map(|()| rig.custom(Q0, &[], |_| ()));
        rig.wait(points[3]).unwrap();
        let spans = rig.device.take_spans();
        spans
            .iter()
            .map(|span| span.point.cursor)
            .collect::<Vec<_>>()
    };
    assert_eq!(run(&mut rig), []);
    rig.device.record_spans(3);
    assert_eq!(run(&mut rig), [6, 7, 8]);
    rig.device.record_spans(8);
    assert_eq!(run(&mut rig), [9, 10, 11, 12]);
    rig.device.record_spans(0);
    assert_eq!(run(&mut rig), []);
}

#[test]
fn resources_of_a_guard_reach_the_same_bytes() {
    let mut rig = Rig::new(Cpu::default().queues(1));
    let slice = rig.slice_of(&[1, 2]);
    let resources = rig.device.resources(&[slice.update()]).unwrap();
    assert_eq!(resources.queue(), None);
    resources.write::<u32>(0)[1] = 7;
    drop(resources);
    assert_eq!(rig.read(Q0, &slice).unwrap(), [1, 7]);
}
