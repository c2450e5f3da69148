//! Queries of a device: each is one message, and its answer a [`Pending`]. The server answers them.

use std::sync::Arc;

use millstream_protocol::error::Error;
use millstream_protocol::journal::SubmissionLog;
use millstream_protocol::message::{Ask, Op, Scope, Task};
use millstream_protocol::metrics::Metrics;
use millstream_protocol::report::{MemoryReport, Stats, TraceSpan};
use millstream_sync::reply::{ReplySender, reply};

use crate::{DeviceShared, Finish, Home, Pending};

impl DeviceShared {
    /// Asks something of the device. May wait for room; the answer is a [`Pending`].
    pub(crate) fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl FnOnce(ReplySender<Result<T, Error>>) -> Ask,
    ) -> Pending<T> {
        let (sender, receiver) = reply();
        match self.send(true, Task::new(None, Op::Ask(Box::new(ask(sender))))) {
            Ok(()) => Pending::value(Home::Device(self.clone()), receiver),
            Err(error) => Pending::failed(Home::Device(self.clone()), error),
        }
    }

    /// When everything of `scope` that was sent before has completed.
    pub fn sync(self: &Arc<Self>, scope: Scope) -> Pending<()> {
        let (sender, receiver) = reply();
        let ask = Ask::Sync {
            scope,
            reply: sender,
        };
        match self.send(true, Task::new(None, Op::Ask(Box::new(ask)))) {
            Ok(()) => Pending::ticket(Home::Device(self.clone()), receiver, Finish::Value(())),
            Err(error) => Pending::failed(Home::Device(self.clone()), error),
        }
    }

    /// Counters.
    pub fn stats(self: &Arc<Self>) -> Pending<Stats> {
        self.ask(Ask::Stats)
    }

    /// Everything that is counted and measured.
    pub fn metrics(self: &Arc<Self>) -> Pending<Metrics> {
        let mailbox_depth = self.channel().depth() as u64;
        self.ask(|reply| Ask::Metrics {
            mailbox_depth,
            reply,
        })
    }

    /// Memory, whole and per client.
    pub fn memory(self: &Arc<Self>) -> Pending<MemoryReport> {
        self.ask(Ask::Memory)
    }

    /// Gives unused pages back to the device; answers with their bytes.
    pub fn cleanup(self: &Arc<Self>) -> Pending<u64> {
        self.ask(Ask::Cleanup)
    }

    /// Tells the device's thread that the device is gone; answers with the error that every caller gets.
    pub(crate) fn tell_lost(self: &Arc<Self>) -> Pending<()> {
        self.ask(Ask::Lost)
    }

    /// The submissions logged since the last call.
    pub fn log(self: &Arc<Self>) -> Pending<SubmissionLog> {
        self.ask(Ask::Log)
    }

    /// The spans recorded since the last call.
    pub fn trace(self: &Arc<Self>) -> Pending<Vec<TraceSpan>> {
        self.ask(Ask::Trace)
    }
}
