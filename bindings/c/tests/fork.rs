//! A fork while another thread of the parent makes and destroys objects: no call of the child waits for what that thread
//! had begun. A program of its own, because `fork` copies the locks that other tests hold.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millstream_capi::buffer::ms_buffer_create;
use millstream_capi::cancel::{ms_cancel_token_create, ms_cancel_token_destroy};
use millstream_capi::client::{ms_client_create, ms_client_destroy};
use millstream_capi::device::ms_device_destroy;
use millstream_capi::opening::ms_device_open;
use millstream_capi::status::ms_status;
use millstream_capi::stream::{ms_stream, ms_stream_create, ms_stream_destroy};

use common::{given, last_error, ok};

const FORKS: u32 = 200;

/// After this number of seconds a child that waits is ended by a signal.
const PATIENCE_S: u32 = 60;

fn make_and_destroy() {
    // SAFETY: the pointer is valid.
    let token = given(|out| unsafe { ms_cancel_token_create(out) });
    // SAFETY: no other call uses the token.
    ok(unsafe { ms_cancel_token_destroy(token) });
}

/// Returns the exit status of the child: 0 if its calls return what they should.
fn child(stream: *const ms_stream) -> i32 {
    make_and_destroy();
    let mut buffer = null_mut();
    // SAFETY: the handle is live, and the pointer is that of a local.
    let status = unsafe { ms_buffer_create(stream, 16, &raw mut buffer) };
    i32::from(status != ms_status::Forked || !last_error().contains("spawn"))
}

/// I5: each call of a forked child returns, whatever another thread did at the fork.
#[test]
fn calls_of_a_child_return_if_another_thread_was_inside_a_call_at_the_fork_i5() {
    // SAFETY: the name ends with NUL, and the pointers are valid.
    let device = given(|out| unsafe { ms_device_open(c"cpu".as_ptr(), null(), out) });
    // SAFETY: as above.
    let client = given(|out| unsafe { ms_client_create(device, null(), out) });
    // SAFETY: as above.
    let stream = given(|out| unsafe { ms_stream_create(client, out) });
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                make_and_destroy();
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        for nth in 1..=FORKS {
            let begun = rounds.load(Ordering::Relaxed);
            while rounds.load(Ordering::Relaxed) == begun {
                std::hint::spin_loop();
            }
            // SAFETY: the child makes calls of this library, which take no lock that the other thread may hold, and ends.
            let process = unsafe { libc::fork() };
            if process == 0 {
                // SAFETY: no handler is set, so the signal ends the child. It ends without the exit handlers, which are
                // the parent's.
                unsafe {
                    libc::alarm(PATIENCE_S);
                    libc::_exit(child(stream));
                }
            }
            let mut status = 0;
            // SAFETY: the status is a local.
            let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
            let outcome = (waited == process, status);
            if outcome != (true, 0) {
                stop.store(true, Ordering::Relaxed);
                panic!("fork {nth}: a call of the child hangs or fails: {outcome:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    // SAFETY: no other call uses the objects.
    unsafe {
        ok(ms_stream_destroy(stream));
        ok(ms_client_destroy(client));
        ok(ms_device_destroy(device));
    }
}
