//! Measures the peer's behaviour where the figure is not a time: a panic on its device.

use cubecl_environment::future::block_on;

use super::Peer;
use crate::contender::Contender;
use crate::measures::Figures;
use crate::noop::Mark;

/// Counts which of flush, sync and a read of the buffer report a panic in a launch.
pub(crate) fn panic_reports() -> Figures {
    std::panic::set_hook(Box::new(|_| {}));
    let peer = Peer::open();
    let buffer = peer.empty(16);
    peer.sync();
    let arguments = super::over(std::slice::from_ref(&buffer));
    let kernel = Box::new(super::kernels::Marked(Mark::Panic));
    peer.client.launch(kernel, super::single(), arguments);
    let reports = [
        peer.client.flush().is_err(),
        block_on(peer.client.sync()).is_err(),
        peer.client.read_one(buffer).is_err(),
    ];
    let count = reports.iter().filter(|&&reported| reported).count();
    vec![("reports", count as f64)]
}
