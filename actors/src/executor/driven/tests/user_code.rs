//! User code of a driven device gets its part of the budget of a pump or a wait.

use super::*;

/// A value whose drop takes long and is counted.
struct Long(Arc<AtomicUsize>);

impl Drop for Long {
    fn drop(&mut self) {
        spin_for_long();
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// I8: user code stops when the pump's budget is used up, and the rest runs in the next pump.
#[test]
fn a_pump_leaves_user_code_beyond_its_budget_to_the_next_pump_i8() {
    let (device, mut driver) = open();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..20 {
        let long = Long(ran.clone());
        let stream = device.new_client().new_stream();
        stream.host("long", (), move || drop(long)).unwrap();
    }
    let stream = device.new_client().new_stream();
    for _ in 0..20 {
        stream.drop_after(Long(ran.clone())).unwrap();
    }
    let (mut pumps, mut before) = (0, 0);
    while driver.pump(Duration::ZERO) {
        let now = ran.load(Ordering::Relaxed);
        assert!(now - before <= 1, "{} in one pump", now - before);
        (pumps, before) = (pumps + 1, now);
    }
    assert!(before == 40 && pumps >= 40);
}

/// Launches a kernel that takes longer than `time`.
fn launch_a_long_kernel(device: &Device, stream: &Stream, time: Duration) {
    let long = Kernel::new("long").native(move |_, _| {
        let start = Instant::now();
        while start.elapsed() <= time {
            std::hint::spin_loop();
        }
    });
    let long = device.new_client().kernel(long).unwrap();
    stream.launch(&long, CubeCount::single(), ()).unwrap();
}

/// Adds `count` host functions without dependencies, which count themselves.
fn add_host_functions(device: &Device, count: usize) -> Arc<AtomicUsize> {
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..count {
        let ran = ran.clone();
        let count = move || _ = ran.fetch_add(1, Ordering::SeqCst);
        let stream = device.new_client().new_stream();
        stream.host("count", (), count).unwrap();
    }
    ran
}

#[test]
fn user_code_gets_what_the_kernels_of_a_pump_leave_of_its_budget() {
    let (device, mut driver) = open();
    let budget = Duration::from_millis(2);
    let stream = device.new_client().new_stream();
    launch_a_long_kernel(&device, &stream, budget);
    launch_a_long_kernel(&device, &stream, budget);
    let ran = add_host_functions(&device, 40);
    assert!(driver.pump(budget));
    assert_eq!(ran.load(Ordering::SeqCst), 1, "at least one, and no more");
    while driver.pump(budget) {}
    assert_eq!(ran.load(Ordering::SeqCst), 40);
}

/// I8: a wait with a timeout begins no user code of others while it has something else to do, and none once it is late.
#[test]
fn a_timed_wait_runs_user_code_only_if_there_is_nothing_else_to_do_i8() {
    let (device, mut driver) = open();
    let stream = device.new_client().new_stream();
    let values = stream.create(&[7_u32; 4]).unwrap();
    let ran = add_host_functions(&device, 2);
    let mut answer = stream.read(&values);
    assert_eq!(answer.wait_timeout(PATIENCE).unwrap(), [7; 4]);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    let guard = stream.get_resource::<Cpu>(&[(&values, Access::Write)][..]);
    let mut guard = guard;
    let late = guard.wait_timeout(Duration::ZERO);
    assert!(matches!(late, Err(Error::TimedOut { .. })));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    // The guard begins as user code, behind the two.
    drop(guard.wait_timeout(PATIENCE).unwrap());
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    while driver.pump(Duration::ZERO) {}
}
