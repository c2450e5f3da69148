//! Captures: the operations of captured streams are not executed, but become nodes of a graph. A capture begins in one
//! stream, adds streams that wait for its events, and ends in the first stream after the others have joined it again.
//!
//! A call that violates a rule invalidates the capture: the capture must still be ended, and produces no graph. Each
//! violation is reported.

use crate::code::Code;
use crate::graph::{Capture, Mode, StreamCapture, Work};
use crate::state::State;

impl State {
    /// Invalidates a capture and reports the violated rule. Returns the code for the call.
    pub(crate) fn break_capture(
        &mut self,
        capture: u64,
        call: &str,
        rule: &str,
        code: Code,
    ) -> Code {
        let call = self.this_call(call);
        self.report(format!("capture invalidated: {call} {rule}"));
        if let Some(capture) = self.graphs.captures.get_mut(&capture) {
            capture.broken = true;
        }
        code
    }

    /// Returns `true` if the stream is captured, or an error if its capture is invalidated.
    pub(crate) fn is_captured(&mut self, call: &str, stream: u64) -> Result<bool, Code> {
        let Some(by) = self
            .known_stream(call, stream)?
            .capture
            .as_ref()
            .map(|captured| captured.capture)
        else {
            return Ok(false);
        };
        match self.graphs.captures.get(&by) {
            Some(capture) if capture.broken => Err(Code::STREAM_CAPTURE_INVALIDATED),
            _ => Ok(true),
        }
    }

    /// Invalidates the capture of a captured stream, for an operation that captures do not support.
    pub(crate) fn check_not_captured(
        &mut self,
        call: &str,
        stream: u64,
        why: &str,
    ) -> Result<(), Code> {
        if !self.is_captured(call, stream)? {
            return Ok(());
        }
        let by = self.streams.live[&stream]
            .capture
            .as_ref()
            .map_or(0, |captured| captured.capture);
        Err(self.break_capture(by, call, why, Code::STREAM_CAPTURE_UNSUPPORTED))
    }

    /// Adds a node to the capture of a stream.
    pub(crate) fn capture(&mut self, stream: u64, work: Work) {
        let Some(captured) = self
            .streams
            .live
            .get(&stream)
            .and_then(|of| of.capture.clone())
        else {
            return;
        };
        let Some(graph) = self
            .graphs
            .captures
            .get(&captured.capture)
            .map(|capture| capture.graph)
        else {
            return;
        };
        let node = self.handle();
        self.graphs.make_node(node, graph, work, captured.tail);
        if let Some(of) = self.streams.live.get_mut(&stream) {
            of.capture = Some(StreamCapture::new(captured.capture, vec![node]));
        }
    }

    /// Adds a stream to a capture, because it waits for an event that was recorded there.
    pub(crate) fn join_capture(
        &mut self,
        call: &str,
        stream: u64,
        (by, nodes): (u64, Vec<u64>),
    ) -> Result<(), Code> {
        let captured = self
            .streams
            .live
            .get(&stream)
            .and_then(|of| of.capture.clone());
        let lives = self.graphs.captures.get(&by).map(|capture| capture.broken);
        let tail = match (captured, lives) {
            (Some(_), Some(true)) => return Err(Code::STREAM_CAPTURE_INVALIDATED),
            (None, Some(true)) => return Err(Code::INVALID_VALUE),
            (Some(captured), Some(false)) if captured.capture == by => {
                let mut tail = captured.tail;
                tail.extend(nodes);
                tail.sort_unstable();
                tail.dedup();
                tail
            }
            (Some(captured), Some(false)) => {
                let rule = "would merge two captures";
                self.break_capture(by, call, rule, Code::STREAM_CAPTURE_MERGE);
                return Err(self.break_capture(
                    captured.capture,
                    call,
                    rule,
                    Code::STREAM_CAPTURE_MERGE,
                ));
            }
            (None, Some(false)) => nodes,
            (Some(captured), None) => {
                let rule = "waits for an event of a capture that has ended";
                return Err(self.break_capture(
                    captured.capture,
                    call,
                    rule,
                    Code::STREAM_CAPTURE_ISOLATION,
                ));
            }
            (None, None) => {
                let call = self.this_call(call);
                self.report(format!(
                    "invalid event: {call} waits for an event that was last recorded in a capture, which has ended"
                ));
                return Err(Code::CAPTURED_EVENT);
            }
        };
        if let Some(of) = self.streams.live.get_mut(&stream) {
            of.capture = Some(StreamCapture::new(by, tail));
        }
        Ok(())
    }

    /// Checks whether this thread may make an unsafe call while streams are captured.
    pub(crate) fn check_safe(&mut self, call: &str) -> Result<(), Code> {
        let own = self
            .graphs
            .modes
            .get(&self.caller)
            .copied()
            .unwrap_or(Mode::Global);
        let caller = self.caller;
        let forbids = |capture: &Capture| match own {
            Mode::Relaxed => false,
            _ if capture.thread == caller => capture.mode != Mode::Relaxed,
            Mode::Global => capture.mode == Mode::Global,
            Mode::ThreadLocal => false,
        };
        let captures = &self.graphs.captures;
        let broken: Vec<u64> = captures
            .iter()
            .filter_map(|(handle, capture)| forbids(capture).then_some(*handle))
            .collect();
        for capture in &broken {
            let mode = self.graphs.captures[capture].mode;
            let rule = format!(
                "is not safe while a stream is captured in mode {mode:?}; call it before, or exchange the thread's mode"
            );
            self.break_capture(*capture, call, &rule, Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        match broken.is_empty() {
            true => Ok(()),
            false => Err(Code::STREAM_CAPTURE_UNSUPPORTED),
        }
    }

    /// Ends a capture. Also returns whether all streams have joined the first one.
    pub(crate) fn end_capture(&mut self, by: u64) -> Option<(Capture, bool)> {
        let capture = self.graphs.captures.remove(&by)?;
        let mut tails = Vec::new();
        for (handle, of) in &mut self.streams.live {
            if of
                .capture
                .as_ref()
                .is_some_and(|captured| captured.capture == by)
                && let Some(captured) = of.capture.take()
            {
                match *handle == capture.origin {
                    true => tails.insert(0, captured.tail),
                    false => tails.push(captured.tail),
                }
            }
        }
        // All nodes that happen before the end of the first stream.
        let mut reached = tails.first().cloned().unwrap_or_default();
        let mut at = 0;
        while let Some(node) = reached.get(at) {
            let after = self
                .graphs
                .nodes
                .get(node)
                .map_or(&[][..], |node| &node.after);
            let new: Vec<u64> = after
                .iter()
                .filter(|node| !reached.contains(node))
                .copied()
                .collect();
            reached.extend(new);
            at += 1;
        }
        let joined = tails.iter().flatten().all(|node| reached.contains(node));
        if let Some(graph) = self.graphs.graphs.get_mut(&capture.graph) {
            graph.captured = false;
        }
        Some((capture, joined))
    }
}
