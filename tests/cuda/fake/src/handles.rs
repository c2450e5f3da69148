//! Objects by their handles: a handle that does not exist is reported.

use crate::code::Code;
use crate::event::Event;
use crate::function::Function;
use crate::graph::{Executable, Graph, Node};
use crate::state::{Module, State};
use crate::stream::Stream;

/// Declares the look-up of each kind of object.
macro_rules! lookups {
    ($($name:ident: $type:ty, in $($all:ident).+, else $code:ident $what:literal;)*) => {$(
        pub(crate) fn $name(&mut self, handle: u64) -> Result<&mut $type, Code> {
            if !self.$($all).+.contains_key(&handle) {
                return Err(self.unknown(Code::$code, handle, $what));
            }
            self.$($all).+.get_mut(&handle).ok_or(Code::$code)
        }
    )*};
}

impl State {
    lookups! {
        event: Event, in events, else INVALID_HANDLE "an event";
        function: Function, in functions, else INVALID_HANDLE "a function";
        module: Module, in modules, else INVALID_HANDLE "a module";
        pool: usize, in pools, else INVALID_HANDLE "a pool";
        graph: Graph, in graphs.graphs, else INVALID_VALUE "a graph";
        node: Node, in graphs.nodes, else INVALID_VALUE "a node";
        executable: Executable, in graphs.executables, else INVALID_VALUE "an executable graph";
    }

    /// Returns a stream that is not destroyed.
    pub(crate) fn stream(&mut self, handle: u64) -> Result<&mut Stream, Code> {
        let lives = matches!(self.streams.live.get(&handle), Some(of) if !of.destroyed);
        if !lives && handle <= 2 {
            self.report(format!("not modelled: {} on a default stream", self.call));
        } else if !lives {
            self.unknown(Code::INVALID_HANDLE, handle, "a stream");
        }
        let of = self.streams.live.get_mut(&handle);
        of.filter(|of| !of.destroyed).ok_or(Code::INVALID_HANDLE)
    }

    /// Reports that a handle is not `what`, or was destroyed.
    fn unknown(&mut self, code: Code, handle: u64, what: &str) -> Code {
        let call = self.call;
        let report = format!(
            "invalid handle: {call} receives {handle:#x}, which is not {what}, or was destroyed"
        );
        self.refuse(code, report)
    }
}
