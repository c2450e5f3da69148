//! Captures: what streams are given is not executed but becomes nodes of a graph. A capture begins in one stream, takes in
//! those that wait for events of it, and ends in the first once the others have been joined to it again.
//!
//! A call that breaks a rule breaks the capture: the capture must still be ended, and leaves no graph. Every broken rule is
//! reported.

use crate::code::Code;
use crate::graph::{Capture, Captured, Mode, Work};
use crate::state::State;

impl State {
    /// A rule is broken: the capture is, and this is what the call answers.
    pub(crate) fn break_capture(
        &mut self,
        capture: u64,
        call: &str,
        rule: &str,
        code: Code,
    ) -> Code {
        let call = self.this_call(call);
        self.report(format!("capture broken: {call} {rule}"));
        if let Some(capture) = self.graphs.captures.get_mut(&capture) {
            capture.broken = true;
        }
        code
    }

    /// Is this stream captured? One whose capture is broken takes nothing.
    pub(crate) fn is_captured(&mut self, call: &str, stream: u64) -> Result<bool, Code> {
        let Some(by) = self
            .known_stream(call, stream)?
            .capture
            .as_ref()
            .map(|captured| captured.by)
        else {
            return Ok(false);
        };
        match self.graphs.captures.get(&by) {
            Some(capture) if capture.broken => Err(Code::STREAM_CAPTURE_INVALIDATED),
            _ => Ok(true),
        }
    }

    /// This may not be given to a stream that is captured.
    pub(crate) fn must_not_be_captured(
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
            .map_or(0, |captured| captured.by);
        Err(self.break_capture(by, call, why, Code::STREAM_CAPTURE_UNSUPPORTED))
    }

    /// Takes work into the capture of a stream that is captured.
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
            .get(&captured.by)
            .map(|capture| capture.graph)
        else {
            return;
        };
        let node = self.handle();
        self.graphs.make_node(node, graph, work, captured.tail);
        if let Some(of) = self.streams.live.get_mut(&stream) {
            of.capture = Some(Captured::new(captured.by, vec![node]));
        }
    }

    /// A stream waits for what an event remembers of a capture: it is captured from here on, too.
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
            (Some(captured), Some(false)) if captured.by == by => {
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
                    captured.by,
                    call,
                    rule,
                    Code::STREAM_CAPTURE_MERGE,
                ));
            }
            (None, Some(false)) => nodes,
            (Some(captured), None) => {
                let rule = "waits for an event of a capture that is over";
                return Err(self.break_capture(
                    captured.by,
                    call,
                    rule,
                    Code::STREAM_CAPTURE_ISOLATION,
                ));
            }
            (None, None) => {
                let call = self.this_call(call);
                self.report(format!(
                    "wrong event: {call} waits for an event that was last recorded in a capture, which is over"
                ));
                return Err(Code::CAPTURED_EVENT);
            }
        };
        if let Some(of) = self.streams.live.get_mut(&stream) {
            of.capture = Some(Captured::new(by, tail));
        }
        Ok(())
    }

    /// A call that is not safe while streams are captured: may this thread make it?
    pub(crate) fn must_be_safe(&mut self, call: &str) -> Result<(), Code> {
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
                "is not safe while a stream is captured in mode {mode:?}: do it before, or exchange the thread's mode"
            );
            self.break_capture(*capture, call, &rule, Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        match broken.is_empty() {
            true => Ok(()),
            false => Err(Code::STREAM_CAPTURE_UNSUPPORTED),
        }
    }

    /// Ends a capture, and says whether all streams were joined to the first.
    pub(crate) fn end_capture(&mut self, by: u64) -> Option<(Capture, bool)> {
        let capture = self.graphs.captures.remove(&by)?;
        let mut tails = Vec::new();
        for (handle, of) in &mut self.streams.live {
            if of
                .capture
                .as_ref()
                .is_some_and(|captured| captured.by == by)
                && let Some(captured) = of.capture.take()
            {
                match *handle == capture.origin {
                    true => tails.insert(0, captured.tail),
                    false => tails.push(captured.tail),
                }
            }
        }
        // All that the first stream has come after.
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
