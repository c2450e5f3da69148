//! Clients: names, limits and priorities.

use std::ffi::c_char;

use millstream::{ClientBuilder, ComputeClient, Device, Priority, device::AtLimit};

use crate::device::ms_device;
use crate::handles::{destroy, get, give, objects};
use crate::pending::{self, ms_pending};
use crate::sized::{chosen, read_options, sized, text, with};
use crate::status::{Answer, exports};

/// A user of a device, with limits of its own. It makes streams and kernels. Any thread may use it.
pub struct ms_client(pub(crate) ComputeClient);

objects!(ms_client: 3);

/// Which tasks go first.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ms_priority {
    /// The default.
    Normal = 0,
    /// Work that can wait.
    Low = 1,
    /// Work whose result a user waits for.
    High = 2,
}

/// What a call does that needs memory within the client's hard limit while its buffers leave no room. A call that needs
/// more than the whole limit answers `MS_STATUS_TOO_LARGE` in both cases.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ms_at_limit {
    /// The default: it answers `MS_STATUS_OUT_OF_MEMORY`.
    Fail = 0,
    /// It waits for its turn, at most until the deadline of its stream (`ms_stream_with_deadline`), and then answers
    /// `MS_STATUS_BUSY`; on a stream of `ms_stream_nowait` it answers that at once. For clients of many threads: a thread
    /// that keeps all buffers itself waits for itself.
    Wait = 1,
}

/// Options of a client. Zero is the default of every field.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_client_options {
    /// `sizeof(ms_client_options)`.
    pub size: u32,
    /// An `ms_priority`.
    pub priority: u32,
    /// The name in errors and reports. NULL: `client N`.
    pub name: *const c_char,
    /// The most bytes that the client's buffers may use. 0: no limit.
    pub hard_limit: u64,
    /// The bytes above which other clients get memory first. 0: no limit.
    pub soft_limit: u64,
    /// The most tasks of the client that wait to begin, over all its streams. 0: each stream has a limit of its own.
    pub max_tasks: u64,
    /// The most bytes of the client's uploads that are in flight. 0: the default, 1 GiB.
    pub max_upload_bytes: u64,
    /// The client's share among clients of the same priority. 0: 1.
    pub weight: u32,
    /// An `ms_at_limit`.
    pub at_limit: u32,
}

sized!(ms_client_options: 56);

exports! {
    /// Makes a client of a device. `options` may be NULL. Never blocks.
    fn ms_client_create(
        device: *const ms_device, options: *const ms_client_options, out: *mut *mut ms_client,
    ) {
        give(out, || client_of(&get(device)?.0, &read_options(options)?))
    }

    /// Destroys the handle of a client. Never blocks: its streams, kernels and buffers stay valid. NULL is fine.
    fn ms_client_destroy(client: *mut ms_client) {
        destroy(client)
    }

    /// Gives a pending answer that arrives once everything that was submitted to the client's streams before has
    /// completed.
    fn ms_client_sync(client: *const ms_client, out: *mut *mut ms_pending) {
        give(out, || pending::unit(get(client)?.0.clone().sync()))
    }
}

/// # Safety
/// The name of the options is NULL or valid.
unsafe fn client_of(device: &Device, options: &ms_client_options) -> Answer<ms_client> {
    let priorities = [Priority::Normal, Priority::Low, Priority::High];
    let limits = [AtLimit::Fail, AtLimit::Wait];
    let builder = device
        .client_builder()
        .priority(chosen(
            options.priority,
            priorities,
            "`priority` must be an `ms_priority`",
        )?)
        .at_limit(chosen(
            options.at_limit,
            limits,
            "`at_limit` must be an `ms_at_limit`",
        )?);
    let builder = match options.name.is_null() {
        true => builder,
        // SAFETY: the caller's promise.
        false => builder.name(unsafe { text(options.name, "name of the client")? }),
    };
    let builder = with(builder, options.hard_limit, ClientBuilder::hard_limit);
    let builder = with(builder, options.soft_limit, ClientBuilder::soft_limit);
    let builder = with(builder, options.max_tasks, ClientBuilder::max_tasks);
    let uploads = options.max_upload_bytes;
    let builder = with(builder, uploads, ClientBuilder::max_upload_bytes);
    let builder = with(builder, options.weight, ClientBuilder::weight);
    Ok(ms_client(builder.build()))
}
