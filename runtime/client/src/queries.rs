//! Queries of a device: each sends one message and returns a [`Pending`].

use std::sync::Arc;

use millstream_protocol::{
    DeviceRequest, Error, MemoryReport, Op, Scope, Stats, Task, TraceSpan, journal::SubmissionLog,
    metrics::Metrics,
};
use millstream_sync::reply::{ReplySender, reply};

use crate::{DeviceShared, Finish, Pending, Requester};

impl DeviceShared {
    /// Sends a request. May block while the mailbox is full, if `wait` is set.
    pub(crate) fn request(&self, wait: bool, request: DeviceRequest) -> Result<(), Error> {
        self.send(wait, Task::new(None, Op::Device(Box::new(request))))
    }

    /// Sends a query. May block while the mailbox is full, if `wait` is set.
    pub(crate) fn query_if<T: Send + 'static>(
        self: &Arc<Self>,
        wait: bool,
        query: impl FnOnce(ReplySender<Result<T, Error>>) -> DeviceRequest,
    ) -> Pending<T> {
        let (sender, receiver) = reply();
        let requester = Requester::Device(self.clone());
        match self.request(wait, query(sender)) {
            Ok(()) => Pending::value(requester, receiver),
            Err(error) => Pending::failed(requester, error),
        }
    }

    /// Sends a query. May block while the mailbox is full.
    pub(crate) fn query<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(ReplySender<Result<T, Error>>) -> DeviceRequest,
    ) -> Pending<T> {
        self.query_if(true, query)
    }

    /// Returns an answer that is ready once all tasks of `scope` that were submitted before have completed. May block
    /// while the mailbox is full.
    pub fn sync(self: &Arc<Self>, scope: Scope) -> Pending<()> {
        let (sender, receiver) = reply();
        let request = DeviceRequest::Sync {
            scope,
            reply: sender,
        };
        let requester = Requester::Device(self.clone());
        match self.request(true, request) {
            Ok(()) => Pending::ticket(requester, receiver, Finish::Value(())),
            Err(error) => Pending::failed(requester, error),
        }
    }

    /// Queries the counters. May block while the mailbox is full.
    pub fn stats(self: &Arc<Self>) -> Pending<Stats> {
        self.query(DeviceRequest::Stats)
    }

    /// Queries everything that is counted and measured. May block while the mailbox is full.
    pub fn metrics(self: &Arc<Self>) -> Pending<Metrics> {
        let mailbox_depth = self.channel().depth() as u64;
        self.query(|reply| DeviceRequest::Metrics {
            mailbox_depth,
            reply,
        })
    }

    /// Queries the memory usage, in total and per client. May block while the mailbox is full.
    pub fn memory(self: &Arc<Self>) -> Pending<MemoryReport> {
        self.query(DeviceRequest::Memory)
    }

    /// Returns unused pages to the device; yields the number of bytes. May block while the mailbox is full.
    pub fn cleanup(self: &Arc<Self>) -> Pending<u64> {
        self.query(DeviceRequest::Cleanup)
    }

    /// Reports to the device thread that the device is lost; the answer is the error that every call returns from then
    /// on.
    pub(crate) fn report_lost(self: &Arc<Self>) -> Pending<()> {
        self.query(DeviceRequest::Lost)
    }

    /// Takes the submissions logged since the last call. May block while the mailbox is full.
    pub fn log(self: &Arc<Self>) -> Pending<SubmissionLog> {
        self.query(DeviceRequest::Log)
    }

    /// Takes the spans recorded since the last call. May block while the mailbox is full.
    pub fn trace(self: &Arc<Self>) -> Pending<Vec<TraceSpan>> {
        self.query(DeviceRequest::Trace)
    }
}
