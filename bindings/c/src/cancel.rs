//! Cancel tokens: they withdraw tasks that have not begun, and count what became of those that had.

use millstream::{CancelToken, stream::Tally};

use crate::handles::{destroy, get, give, objects};
use crate::sized::{sized, write_struct};
use crate::status::{Fault, exports, write};
use crate::stream::ms_stream;

/// Withdraws the tasks that were added to a stream of `ms_stream_with_cancel`, until they begin. One token may be used
/// for any number of streams, also of different devices. Any thread may use it.
pub struct ms_cancel_token(CancelToken);

objects!(ms_cancel_token: 10);

/// What became of the tasks of a token or of a deadline. Each task counts in `withdrawn`, `finished`, `running` or
/// `waiting`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_tally {
    /// `sizeof(ms_tally)`. Set it before the call.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Tasks that were added.
    pub accepted: u64,
    /// Tasks that were withdrawn before they began.
    pub withdrawn: u64,
    /// Tasks that ran and have ended.
    pub finished: u64,
    /// Tasks that have begun and have not ended.
    pub running: u64,
    /// Running tasks after the cancel or the deadline: they run to their end, and what they write is valid. 0 before it.
    pub detached: u64,
    /// Tasks that have neither begun nor been withdrawn. After a cancel they will be withdrawn.
    pub waiting: u64,
}

sized!(ms_tally: 56);

fn tally_of(tally: &Tally) -> ms_tally {
    ms_tally {
        size: 0,
        reserved: 0,
        accepted: tally.accepted,
        withdrawn: tally.withdrawn,
        finished: tally.finished,
        running: tally.running,
        detached: tally.detached,
        waiting: tally.waiting(),
    }
}

exports! {
    /// Makes a token that is not cancelled. Never blocks.
    fn ms_cancel_token_create(out: *mut *mut ms_cancel_token) {
        give(out, || Ok(ms_cancel_token(CancelToken::new())))
    }

    /// Withdraws the token's tasks that have not begun, and all tasks that are added with it from now on. Never blocks,
    /// so a callback may call it. `tally` may be NULL; else it receives the tasks as of now: the device withdraws those
    /// that wait in their turn, except for one that it is just starting.
    ///
    /// A withdrawn task keeps its place in the order. What it would have written is poisoned, and reads of that answer
    /// `MS_STATUS_CANCELLED`. A withdrawn read answers that itself.
    fn ms_cancel_token_cancel(token: *const ms_cancel_token, tally: *mut ms_tally) {
        let token = get(token)?.0.clone();
        if tally.is_null() {
            token.cancel();
            return Ok(());
        }
        // Before the cancel, so that a failed call cancels nothing.
        write_struct(tally, &tally_of(&token.tally()))?;
        write_struct(tally, &tally_of(&token.cancel()))
    }

    /// Reports whether a token was cancelled. Never blocks.
    fn ms_cancel_token_is_cancelled(token: *const ms_cancel_token, out: *mut bool) {
        write(out, get(token)?.0.is_cancelled())
    }

    /// Reports what became of the token's tasks. Never blocks.
    fn ms_cancel_token_get_tally(token: *const ms_cancel_token, out: *mut ms_tally) {
        write_struct(out, &tally_of(&get(token)?.0.tally()))
    }

    /// Destroys the handle of a token. Cancels nothing: streams keep the token, which then nothing can cancel. Never
    /// blocks. NULL is fine.
    fn ms_cancel_token_destroy(token: *mut ms_cancel_token) {
        destroy(token)
    }

    /// Gives another handle of the same stream with tasks that the token withdraws until they begin. It replaces the
    /// stream's token; a deadline stays. Never blocks.
    fn ms_stream_with_cancel(
        stream: *const ms_stream, token: *const ms_cancel_token, out: *mut *mut ms_stream,
    ) {
        give(out, || {
            let (stream, token) = (get(stream)?, get(token)?);
            Ok(ms_stream::new(stream.stream.with_cancel(&token.0), stream.blocks))
        })
    }

    /// Reports what became of the tasks that were added to a stream of `ms_stream_with_cancel` or
    /// `ms_stream_with_deadline`, by any of its handles. Never blocks.
    ///
    /// Errors: `INVALID_ARGUMENT` for a stream without a token and a deadline, whose tasks are not counted.
    fn ms_stream_get_tally(stream: *const ms_stream, out: *mut ms_tally) {
        let text = "the stream has neither a token nor a deadline, so its tasks are not counted; use a handle of \
                    `ms_stream_with_cancel` or `ms_stream_with_deadline`";
        let tally = get(stream)?.stream.tally().ok_or_else(|| Fault::argument(text))?;
        write_struct(out, &tally_of(&tally))
    }
}
