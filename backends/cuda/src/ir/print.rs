//! Prints SSA functions as CUDA C: one statement per line, one variable for each lane of each value.

mod loops;

use std::fmt::{self, Write};

use millstream_ir::nest::BufferMode;
use millstream_ir::ssa::{
    AtomicOp, Axis, Block, Function, Memory, Op, Position, Scope, Stmt, Type, ValueId, statements,
};
use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

/// The prelude: types, arithmetic and reductions.
pub(super) const PRELUDE: &str = include_str!("prelude.cu");

/// Prints a checked function as an entry point with this name. No bindings of an exclusive one overlap if one of them is
/// written.
pub(super) fn print(
    text: &mut String,
    name: &str,
    function: &Function,
    is_exclusive: bool,
) -> fmt::Result {
    let function = &*function.with_checks();
    let mut printer = Printer {
        text,
        function,
        threads: function.threads.iter().product(),
        is_exclusive,
        used: function.used(),
        depth: 1,
        constants: vec![None; function.values.len()],
        most: vec![None; function.values.len()],
        narrower: vec![None; function.values.len()],
    };
    printer.head(name)?;
    printer.block(&function.body)?;
    printer.text.push_str("}\n");
    Ok(())
}

struct Printer<'a> {
    text: &'a mut String,
    function: &'a Function,
    /// Threads of a cube.
    threads: u32,
    is_exclusive: bool,
    /// Whether each value is used.
    used: Vec<bool>,
    depth: usize,
    // What `For` looks up of its bounds.
    /// The bits of integers that are known.
    constants: Vec<Option<u64>>,
    /// What each `i64` is known not to exceed.
    most: Vec<Option<i64>>,
    /// The types that values were cast from.
    narrower: Vec<Option<DType>>,
}

/// The variable of one lane of a value.
struct Name(ValueId, u8, Type);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.2.lanes {
            1 => write!(f, "v{}", self.0),
            _ => write!(f, "v{}_{}", self.0, self.1),
        }
    }
}

/// Returns the C type of elements in memory.
fn stored(dtype: DType) -> &'static str {
    match dtype {
        // A `bool` of C++ with a byte other than 0 or 1 would be undefined behaviour.
        DType::Bool => "u8",
        dtype => dtype.name(),
    }
}

impl Printer<'_> {
    fn head(&mut self, name: &str) -> fmt::Result {
        let threads = self.threads;
        write!(
            self.text,
            "\nextern \"C\" __global__ void __launch_bounds__({threads}) {name}("
        )?;
        let mut comma = "";
        for (index, param) in self.function.params.iter().enumerate() {
            let qualifier = match param.mode {
                BufferMode::Read => "const ",
                _ => "",
            };
            // Stores then change nothing that is read. Other parameters may be how threads communicate.
            let restrict = match (param.mode, self.is_exclusive) {
                (BufferMode::Read, true) => " __restrict__",
                _ => "",
            };
            write!(
                self.text,
                "{comma}{qualifier}{}*{restrict} p{index}",
                stored(param.dtype)
            )?;
            comma = ", ";
        }
        let words = self.function.scalars.len();
        if words > 0 {
            write!(self.text, "{comma}const ms::Words<{words}> words")?;
        }
        self.text.push_str(") {\n");
        // The compiler then knows which accesses are in bounds.
        for (axis, threads) in ["x", "y", "z"].into_iter().zip(self.function.threads) {
            if threads > 1 {
                writeln!(
                    self.text,
                    "  __builtin_assume(threadIdx.{axis} < {threads});"
                )?;
            }
        }
        for (index, array) in self.function.shared.iter().enumerate() {
            let (of, len) = (stored(array.dtype), array.len.max(1));
            writeln!(
                self.text,
                "  __shared__ alignas(16) {of} s{index}[{len}]; // {}",
                array.name
            )?;
        }
        let mut ops = statements(&self.function.body).filter_map(Stmt::op);
        if ops.any(|op| matches!(op, Op::Reduce(Scope::Cube, ..))) {
            self.text.push_str("  __shared__ u64 places[32];\n");
        }
        for (index, array) in self.function.locals.iter().enumerate() {
            let (of, len) = (stored(array.dtype), array.len.max(1));
            writeln!(
                self.text,
                "  {of} l{index}[{len}] = {{}}; // {}",
                array.name
            )?;
        }
        for (index, table) in self.function.tables.iter().enumerate() {
            // As bits: what makes floats of them is no constant of C.
            write!(
                self.text,
                "  static const {} t{index}[{}] = {{",
                table.dtype.unsigned(),
                table.bits.len()
            )?;
            for bits in &table.bits {
                write!(self.text, "{bits:#x}, ")?;
            }
            writeln!(self.text, "}}; // {}", table.name)?;
        }
        Ok(())
    }

    fn block(&mut self, body: &Block) -> fmt::Result {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn of(&self, value: ValueId) -> Type {
        self.function.values[value as usize]
    }

    fn name(&self, value: ValueId, lane: u8) -> Name {
        Name(value, lane, self.of(value))
    }

    /// Prints an indented line.
    fn line(&mut self, line: fmt::Arguments<'_>) -> fmt::Result {
        for _ in 0..self.depth {
            self.text.push_str("  ");
        }
        self.text.write_fmt(line)?;
        self.text.push('\n');
        Ok(())
    }

    fn inside(&mut self, body: &Block) -> fmt::Result {
        self.depth += 1;
        self.block(body)?;
        self.depth -= 1;
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt) -> fmt::Result {
        match stmt {
            Stmt::Let { value, op } => self.define(*value, op),
            Stmt::Store { to, at, value } => self.store(*to, *at, *value),
            Stmt::If {
                condition,
                then,
                otherwise,
            } => {
                let condition = self.name(*condition, 0);
                self.line(format_args!("if ({condition}) {{"))?;
                self.inside(then)?;
                if !otherwise.is_empty() {
                    self.line(format_args!("}} else {{"))?;
                    self.inside(otherwise)?;
                }
                self.line(format_args!("}}"))
            }
            Stmt::For {
                index,
                start,
                end,
                step,
                unroll,
                body,
            } => {
                let head = self.loop_head(*index, [*start, *end, *step]);
                if *unroll {
                    self.line(format_args!("#pragma unroll"))?;
                }
                self.line(format_args!("{}", head.0))?;
                if let Some(first) = head.1 {
                    self.line(format_args!("  {first}"))?;
                }
                self.inside(body)?;
                self.line(format_args!("}}"))
            }
            Stmt::Loop { body } => {
                self.line(format_args!("for (;;) {{"))?;
                self.inside(body)?;
                self.line(format_args!("}}"))
            }
            Stmt::Break => self.line(format_args!("break;")),
            Stmt::Continue => self.line(format_args!("continue;")),
            Stmt::Return => self.line(format_args!("return;")),
            Stmt::Barrier => self.line(format_args!("__syncthreads();")),
            // Only the CPU and the simulator check assertions; kernels that print are refused.
            Stmt::Say(_) => Ok(()),
            // Not printed: the code of a kernel that only moves within its file stays the same, and is not compiled again.
            Stmt::Line(_) => Ok(()),
        }
    }

    /// Prints a line that fails to compile, for an operation that this version does not support.
    fn unknown(&mut self, what: &str) -> fmt::Result {
        let what = what.escape_debug().to_string().replace('"', "'");
        self.line(format_args!(
            "static_assert(false, \"unsupported operation: {what}\");"
        ))
    }

    /// Returns the element `lane` elements after the index.
    fn element(&self, memory: Memory, at: Option<ValueId>, lane: u8) -> String {
        let base = self.base(memory);
        match (at, lane) {
            (None, lane) => format!("{base}[{lane}]"),
            (Some(at), 0) => format!("{base}[{}]", self.name(at, 0)),
            (Some(at), lane) => format!("{base}[{} + {lane}]", self.name(at, 0)),
        }
    }

    fn base(&self, memory: Memory) -> String {
        match memory {
            Memory::Param(index) => format!("p{index}"),
            Memory::Shared(index) => format!("s{index}"),
            Memory::Local(index) => format!("l{index}"),
            Memory::Table(index) => format!("t{index}"),
        }
    }

    fn store(&mut self, to: Memory, at: Option<ValueId>, value: ValueId) -> fmt::Result {
        let of = self.of(value);
        if of.lanes == 1 || matches!(to, Memory::Local(_)) {
            return (0..of.lanes).try_for_each(|lane| {
                let (place, value) = (self.element(to, at, lane), self.name(value, lane));
                self.line(format_args!("{place} = {value};"))
            });
        }
        let wide = format!("ms::Wide<{}, {}>", stored(of.dtype), of.lanes);
        let lanes: Vec<String> = (0..of.lanes)
            .map(|lane| self.name(value, lane).to_string())
            .collect();
        let (place, lanes) = (self.element(to, at, 0), lanes.join(", "));
        self.line(format_args!("*({wide}*)&{place} = {wide}{{{{{lanes}}}}};"))
    }

    fn define(&mut self, value: ValueId, op: &Op) -> fmt::Result {
        let of = self.of(value);
        if let Op::Load(memory, at) = op
            && of.lanes > 1
            && !matches!(memory, Memory::Local(_) | Memory::Table(_))
        {
            let wide = format!("ms::Wide<{}, {}>", stored(of.dtype), of.lanes);
            let loaded = self.element(*memory, *at, 0);
            self.line(format_args!(
                "const {wide} w{value} = *(const {wide}*)&{loaded};"
            ))?;
        }
        self.note(value, op);
        if let Op::Atomic(AtomicOp::Swap(stored), memory, at) = op
            && !self.used[value as usize]
        {
            let place = self.element(*memory, Some(*at), 0);
            let stored = self.name(*stored, 0);
            return self.line(format_args!("ms::atomic_store(&{place}, {stored});"));
        }
        let dtype = of.dtype;
        for lane in 0..of.lanes {
            let Some(expression) = self.expression(value, op, lane) else {
                return self.unknown(&format!("{op:?}"));
            };
            let name = self.name(value, lane);
            self.line(format_args!("const {dtype} {name} = {expression};"))?;
        }
        Ok(())
    }

    /// Returns the expression of one lane, or `None` if the operation is not supported.
    fn expression(&self, value: ValueId, op: &Op, lane: u8) -> Option<String> {
        let to = self.of(value);
        let name = |id: &ValueId| {
            let of = self.of(*id);
            Name(*id, lane, of)
        };
        Some(match op {
            Op::Const(bits) => constant(*bits, to.dtype),
            Op::Scalar(index) => scalar(*index, to.dtype),
            Op::Position(position, axis) => {
                let threads = self.function.threads[*axis as usize];
                let axis = match axis {
                    Axis::X => "x",
                    Axis::Y => "y",
                    Axis::Z => "z",
                };
                match position {
                    Position::Thread if threads == 1 => "0".into(),
                    Position::Thread => format!("threadIdx.{axis}"),
                    Position::Threads => threads.to_string(),
                    Position::Cube => format!("blockIdx.{axis}"),
                    Position::Cubes => format!("gridDim.{axis}"),
                }
            }
            Op::Load(memory, at) => {
                let element = match memory {
                    _ if to.lanes == 1 => self.element(*memory, *at, 0),
                    Memory::Local(_) | Memory::Table(_) => self.element(*memory, *at, lane),
                    _ => format!("w{value}.lane[{lane}]"),
                };
                match (memory, to.dtype) {
                    (_, DType::Bool) => format!("{element} != 0"),
                    (Memory::Table(_), dtype) => of_bits(&element, dtype),
                    _ => element,
                }
            }
            Op::Lane(a, lane) => self.name(*a, *lane).to_string(),
            Op::Splat(a) => self.name(*a, 0).to_string(),
            Op::Pack(lanes) => self.name(lanes[usize::from(lane)], 0).to_string(),
            Op::Unary(UnaryOp::Not, a) if to.dtype == DType::Bool => format!("!{}", name(a)),
            Op::Unary(UnaryOp::Not, a) => format!("({})~{}", to.dtype, name(a)),
            Op::Unary(op, a) => format!("ms::{op}({})", name(a)),
            Op::Binary(op @ (BinaryOp::And | BinaryOp::Or | BinaryOp::Xor), a, b) => {
                let sign = match op {
                    BinaryOp::And => '&',
                    BinaryOp::Or => '|',
                    _ => '^',
                };
                format!("({})({} {sign} {})", to.dtype, name(a), name(b))
            }
            // The compiler contracts its own operators, and not the functions of the prelude.
            Op::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b)
                if self.function.contract && matches!(to.dtype, DType::F32 | DType::F64) =>
            {
                let sign = match op {
                    BinaryOp::Add => '+',
                    BinaryOp::Sub => '-',
                    _ => '*',
                };
                format!("{} {sign} {}", name(a), name(b))
            }
            Op::Binary(op, a, b) => format!("ms::{op}({}, {})", name(a), name(b)),
            Op::Compare(op, a, b) => {
                let sign = match op {
                    CompareOp::Eq => "==",
                    CompareOp::Ne => "!=",
                    CompareOp::Lt => "<",
                    CompareOp::Le => "<=",
                    CompareOp::Gt => ">",
                    CompareOp::Ge => ">=",
                    _ => return None,
                };
                match self.of(*a).dtype {
                    DType::F16 | DType::Bf16 => {
                        format!("ms::single({}) {sign} ms::single({})", name(a), name(b))
                    }
                    _ => format!("{} {sign} {}", name(a), name(b)),
                }
            }
            Op::Select(condition, a, b) => {
                format!("{} ? {} : {}", name(condition), name(a), name(b))
            }
            Op::Cast(a) => cast(name(a).to_string(), self.of(*a).dtype, to.dtype),
            Op::Bits(a) => format!("ms::bits<{}>({})", to.dtype, name(a)),
            Op::Fma(a, b, c) => format!("ms::fma({}, {}, {})", name(a), name(b), name(c)),
            Op::Random(seed, counter) => {
                format!("ms::random({}, {})", name(seed), name(counter))
            }
            Op::Reduce(scope, op, a) => {
                let by = match op {
                    ReduceOp::Sum => "ms::Sum",
                    ReduceOp::Prod => "ms::Prod",
                    ReduceOp::Min => "ms::Min",
                    ReduceOp::Max => "ms::Max",
                    _ => return None,
                };
                let threads = self.threads;
                let a = self.name(*a, 0);
                match scope {
                    Scope::Cube => format!("ms::reduce_cube<{by}, {threads}>({a}, places)"),
                    Scope::Subgroup(width) => {
                        format!("ms::reduce_subgroup<{by}, {width}, {threads}>({a})")
                    }
                }
            }
            Op::Atomic(op, memory, at) => {
                let mut call = format!("ms::atomic_{}(&", op.name());
                call += &self.element(*memory, Some(*at), 0);
                for operand in op.operands() {
                    call += &format!(", {}", self.name(operand, 0));
                }
                call + ")"
            }
            Op::Shuffle(from, width, a, by) => {
                let (threads, a, by) = (self.threads, self.name(*a, 0), self.name(*by, 0));
                format!("ms::shuffle_{from}<{width}, {threads}>({a}, {by})")
            }
            _ => return None,
        })
    }
}

/// Returns a constant of this type.
fn constant(bits: u64, dtype: DType) -> String {
    match dtype {
        DType::F64 => format!("__longlong_as_double((i64){bits:#x}ull)"),
        DType::F32 => format!("__uint_as_float({bits:#x}u)"),
        DType::F16 | DType::Bf16 => format!("{dtype}{{{bits:#x}}}"),
        DType::Bool => (bits != 0).to_string(),
        DType::I64 | DType::U64 => format!("({dtype}){bits}ull"),
        _ => format!("({dtype}){bits}u"),
    }
}

/// Returns an unsigned integer of the same size as this type: its bits.
fn of_bits(bits: &str, dtype: DType) -> String {
    match dtype {
        DType::F64 => format!("__longlong_as_double((i64){bits})"),
        DType::F32 => format!("__uint_as_float({bits})"),
        DType::F16 | DType::Bf16 => format!("{dtype}{{{bits}}}"),
        _ => format!("({dtype}){bits}"),
    }
}

/// Returns a launch word as this type: its low bits.
fn scalar(index: u16, dtype: DType) -> String {
    let word = format!("words.word[{index}]");
    match dtype {
        DType::F64 => format!("__longlong_as_double((i64){word})"),
        DType::F32 => format!("__uint_as_float((u32){word})"),
        DType::F16 | DType::Bf16 => format!("{dtype}{{(u16){word}}}"),
        DType::Bool => format!("(u8){word} != 0"),
        _ => format!("({dtype}){word}"),
    }
}

/// Casts a value to another type. Half floats are cast through single precision, without rounding twice.
fn cast(a: String, from: DType, to: DType) -> String {
    let (a, from) = match from {
        DType::F16 | DType::Bf16 => (format!("ms::single({a})"), DType::F32),
        from => (a, from),
    };
    match to {
        DType::Bool => format!("{a} != 0"),
        DType::F16 | DType::Bf16 => match from.size() {
            // Single precision represents every value of the smaller types.
            1 | 2 => format!("ms::to_{to}((f32){a})"),
            _ => format!("ms::to_{to}(ms::to_odd({a}))"),
        },
        _ if from.is_float() && !to.is_float() => format!("ms::to_{to}({a})"),
        _ => format!("({to}){a}"),
    }
}
