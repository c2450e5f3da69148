use loom::sync::Arc;
use loom::thread;
use millstream::{CubeCount, Device, Kernel, sim::Sim, update};

#[test]
fn two_threads_add() {
    let n = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let m = n.clone();
    let start = std::time::Instant::now();
    loom::model(move || {
        m.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let device = Device::open(Sim::seed(7)).unwrap();
        let client = device.client();
        let add = client
            .kernel(
                Kernel::new("add")
                    .updates::<u32>("sum")
                    .native(|_, args| args.chunk::<u32>(0)[0] += 1),
            )
            .unwrap();
        let main = client.stream();
        let sum = main.create(&[0_u32]).unwrap();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (client, add, sum) = (client.clone(), add.clone(), sum.clone());
                thread::spawn(move || {
                    let stream = client.stream();
                    stream
                        .launch(&add, CubeCount::single(), (update(&sum),))
                        .unwrap();
                    stream.read(&sum).wait().unwrap()[0]
                })
            })
            .collect();
        let seen: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert!(seen.contains(&2), "{seen:?}");
    });
    println!(
        "{} executions {:?}",
        n.load(std::sync::atomic::Ordering::Relaxed),
        start.elapsed()
    );
}
