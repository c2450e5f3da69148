//! What compiling a function must know before it begins: how locals are used.

use millstream_ir::ssa::{Block, Function, Memory, Op, Stmt, ValueId};

/// How the locals of a function are used.
pub(crate) struct Survey {
    /// Whether all threads wait for each other somewhere, or share memory, so that chunks are whole cubes.
    pub(crate) meets: bool,
    /// Whether threads print or check assertions.
    pub(crate) says: bool,
    /// For each local whether all accesses are to its only element.
    pub(crate) is_variable: Vec<bool>,
    /// For each local whether a store comes before each other access, so that it need not be initialized.
    pub(crate) begins_stored: Vec<bool>,
    /// For each value whether it is loaded from a variable that is not stored to as long as the value is used.
    pub(crate) is_variable_itself: Vec<bool>,
    /// For each value how many operands of statements it is.
    pub(crate) uses: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq)]
enum First {
    Unknown,
    /// A store to the whole variable, in this block.
    Store(u32),
    /// Something else, or not all accesses come behind the store.
    Other,
}

struct Walk<'a> {
    function: &'a Function,
    /// The current statement.
    position: usize,
    defined: Vec<usize>,
    last_use: Vec<usize>,
    /// The uses so far, for the ends of loops.
    uses: Vec<ValueId>,
    counts: Vec<u32>,
    constants: Vec<Option<u64>>,
    /// The stores to each local, and the loads.
    stores: Vec<Vec<usize>>,
    loads: Vec<(ValueId, usize)>,
    /// Values whose content is that of another value.
    same: Vec<(ValueId, ValueId)>,
    first: Vec<First>,
    is_variable: Vec<bool>,
    blocks: Vec<u32>,
    blocks_len: u32,
    meets: bool,
    says: bool,
}

/// Surveys a checked function.
pub(crate) fn survey(function: &Function) -> Survey {
    let (values, locals) = (function.values.len(), function.locals.len());
    let mut walk = Walk {
        function,
        position: 0,
        defined: vec![0; values],
        last_use: vec![0; values],
        uses: Vec::new(),
        counts: vec![0; values],
        constants: vec![None; values],
        stores: vec![Vec::new(); locals],
        loads: Vec::new(),
        same: Vec::new(),
        first: vec![First::Unknown; locals],
        is_variable: function.locals.iter().map(|array| array.len == 1).collect(),
        blocks: Vec::new(),
        blocks_len: 0,
        meets: !function.shared.is_empty(),
        says: false,
    };
    walk.block(&function.body);
    for (value, of) in walk.same.iter().rev() {
        let last = walk.last_use[*value as usize];
        let last_use = &mut walk.last_use[*of as usize];
        *last_use = last.max(*last_use);
    }
    let mut is_variable_itself = vec![false; values];
    for (value, local) in &walk.loads {
        let value = *value as usize;
        let used = walk.defined[value]..=walk.last_use[value];
        is_variable_itself[value] = !walk.stores[*local].iter().any(|at| used.contains(at));
    }
    Survey {
        meets: walk.meets,
        says: walk.says,
        begins_stored: walk
            .first
            .iter()
            .map(|first| *first != First::Other)
            .collect(),
        is_variable: walk.is_variable,
        is_variable_itself,
        uses: walk.counts,
    }
}

impl Walk<'_> {
    fn block(&mut self, block: &Block) {
        self.blocks.push(self.blocks_len);
        self.blocks_len += 1;
        for stmt in block {
            self.position += 1;
            self.stmt(stmt);
        }
        self.blocks.pop();
    }

    fn use_of(&mut self, value: ValueId) {
        self.last_use[value as usize] = self.position;
        self.uses.push(value);
        self.counts[value as usize] += 1;
    }

    /// A value that is defined before the loop and used in it is used until its end.
    fn repeated(&mut self, body: &Block) {
        let (begin, uses) = (self.position, self.uses.len());
        self.block(body);
        self.position += 1;
        for value in &self.uses[uses..] {
            let value = *value as usize;
            if self.defined[value] < begin {
                self.last_use[value] = self.position;
            }
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let { value, op } => {
                self.defined[*value as usize] = self.position;
                op.each_operand(|operand| self.use_of(operand));
                self.op(*value, op);
            }
            Stmt::Store { to, at, value } => {
                self.use_of(*value);
                at.iter().for_each(|at| self.use_of(*at));
                if let Memory::Local(local) = to {
                    let local = usize::from(*local);
                    self.access(local, *at, *value);
                    self.stores[local].push(self.position);
                    let block = self.blocks[self.blocks.len() - 1];
                    if self.first[local] == First::Unknown {
                        self.first[local] = First::Store(block);
                    }
                    self.goes_behind(local);
                }
            }
            Stmt::Say(say) => {
                self.says = true;
                say.values.iter().for_each(|value| self.use_of(*value));
            }
            Stmt::If {
                condition,
                then,
                otherwise,
            } => {
                self.use_of(*condition);
                self.block(then);
                // The threads of the other block are chosen after the first one has run.
                self.use_of(*condition);
                self.block(otherwise);
            }
            Stmt::For {
                index,
                start,
                end,
                step,
                body,
                ..
            } => {
                [start, end, step]
                    .into_iter()
                    .for_each(|value| self.use_of(*value));
                self.defined[*index as usize] = self.position;
                self.repeated(body);
                // The loop reads them before each iteration.
                [end, step]
                    .into_iter()
                    .for_each(|value| self.use_of(*value));
            }
            Stmt::Loop { body } => self.repeated(body),
            Stmt::Barrier => self.meets = true,
            Stmt::Break | Stmt::Continue | Stmt::Return | Stmt::Line(_) => {}
        }
    }

    fn op(&mut self, value: ValueId, op: &Op) {
        match op {
            Op::Const(bits) => self.constants[value as usize] = Some(*bits),
            Op::Load(Memory::Local(local), at) => {
                let local = usize::from(*local);
                self.access(local, *at, value);
                self.loads.push((value, local));
                if self.first[local] == First::Unknown {
                    self.first[local] = First::Other;
                }
                self.goes_behind(local);
            }
            Op::Reduce(..) => self.meets = true,
            Op::Shuffle(_, _, a, _) => {
                self.meets = true;
                self.same.push((value, *a));
            }
            Op::Lane(a, _) | Op::Splat(a) | Op::Cast(a) | Op::Bits(a) | Op::Unary(_, a) => {
                self.same.push((value, *a));
            }
            Op::Pack(lanes) => self.same.extend(lanes.iter().map(|lane| (value, *lane))),
            _ => {}
        }
    }

    /// An access to a local.
    fn access(&mut self, local: usize, at: Option<ValueId>, value: ValueId) {
        let is_first = at.is_none_or(|at| self.constants[at as usize] == Some(0));
        let is_one = self.function.values[value as usize].lanes == 1;
        self.is_variable[local] &= is_first && is_one;
    }

    /// Checks that an access lies behind the first store.
    fn goes_behind(&mut self, local: usize) {
        if let First::Store(block) = self.first[local]
            && !self.blocks.contains(&block)
        {
            self.first[local] = First::Other;
        }
    }
}
