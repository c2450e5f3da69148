//! The text of a kernel, in Rust.

mod expression;
mod literal;
mod statement;
mod together;

use std::fmt::{Result, Write};

use crate::tree::{Buffer, Helper, Kernel, LoopId, Mode, Shape, Var, Variable};
use literal::{constant, shape};

/// Returns the items of a kernel: structs, constants, helper functions, and the kernel, whose name is `k` and the seed.
pub fn text(kernel: &Kernel) -> String {
    let mut text = Text {
        out: String::new(),
        kernel,
        variables: &[],
        loops: Vec::new(),
        depth: 0,
        in_helper: false,
    };
    text.items().expect("a string has room");
    text.out
}

/// Returns the name of a type.
pub fn type_name(kernel: &Kernel, of: &Shape) -> String {
    shape(kernel, of)
}

struct Text<'a> {
    out: String,
    kernel: &'a Kernel,
    variables: &'a [Variable],
    loops: Vec<LoopId>,
    depth: usize,
    in_helper: bool,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> Result {
        self.out.push_str(text);
        Ok(())
    }
}

fn list<T>(of: impl IntoIterator<Item = T>, text: impl Fn(T) -> String) -> String {
    of.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

impl<'a> Text<'a> {
    fn items(&mut self) -> Result {
        let (kernel, seed) = (self.kernel, self.kernel.seed);
        for (index, it) in kernel.structs.iter().enumerate() {
            let layout = if it.is_element { "#[repr(C)]\n" } else { "" };
            writeln!(
                self,
                "#[kernel]\n{layout}#[derive(Clone, Copy)]\npub struct S{seed}_{index} {{"
            )?;
            for (field, of) in it.fields.iter().enumerate() {
                writeln!(self, "    pub f{field}: {},", shape(kernel, of))?;
            }
            writeln!(self, "}}\n")?;
        }
        for (index, table) in kernel.tables.iter().enumerate() {
            let of = shape(kernel, &table.shape);
            let value = constant(kernel, &table.shape, &mut table.bits.iter().copied());
            writeln!(self, "pub const T{seed}_{index}: {of} = {value};\n")?;
        }
        for (index, helper) in kernel.helpers.iter().enumerate() {
            self.helper(index, helper)?;
        }
        for (index, of) in kernel.shared.iter().enumerate() {
            let of = shape(kernel, of);
            writeln!(
                self,
                "#[kernel(in_cube)]\npub fn e{seed}_{index}(value: {of}, at: usize, room: &mut [{of}]) -> {of} {{\n    \
                 barrier();\n    room[thread_in_cube()] = value;\n    barrier();\n    room[at]\n}}\n"
            )?;
        }
        (self.variables, self.in_helper) = (&kernel.variables, false);
        let scalars = kernel.scalars.iter().enumerate();
        let mut params: Vec<String> = scalars
            .map(|(index, of)| format!("s{index}: {}", shape(kernel, of)))
            .collect();
        let buffers = kernel.buffers.iter().enumerate();
        params.extend(buffers.map(|(index, Buffer { of, mode })| {
            let (of, name) = (shape(kernel, of), self.buffer(index));
            match mode {
                Mode::Read | Mode::Along => format!("{name}: &[{of}]"),
                Mode::Own | Mode::Reversed => format!("{name}: &mut [{of}]"),
                Mode::Whole => format!("#[whole] {name}: &mut [{of}]"),
                Mode::Atomic(_) | Mode::AtomicOwn => format!("{name}: &[Atomic<{of}>]"),
            }
        }));
        let cube = kernel.cube.map(|len| format!("(cube = {len})"));
        writeln!(
            self,
            "#[kernel{}]\npub fn k{seed}({}) {{\n    let i = thread();",
            cube.unwrap_or_default(),
            params.join(", ")
        )?;
        self.depth = 1;
        for (index, of) in kernel.shared.iter().enumerate() {
            let (of, len) = (shape(kernel, of), kernel.cube.unwrap_or_default());
            self.line(&format!("let m{index} = shared::<{of}, {len}>();"))?;
        }
        for (index, of) in kernel.tallies.iter().enumerate() {
            let (of, len) = (of.name(), kernel.cube.unwrap_or_default());
            self.line(&format!("let n{index} = shared::<Atomic<{of}>, {len}>();"))?;
        }
        self.statements(&kernel.body)?;
        writeln!(self, "}}")
    }

    fn helper(&mut self, index: usize, helper: &'a Helper) -> Result {
        let (kernel, seed) = (self.kernel, self.kernel.seed);
        (self.variables, self.in_helper) = (&helper.variables, true);
        let mut params: Vec<String> = helper.variables[..helper.params]
            .iter()
            .map(|param| format!("{}: {}", param.name, shape(kernel, &param.shape)))
            .collect();
        let (mut first, mut last) = (format!("pub fn h{seed}_{index}"), "}\n");
        if let Some(id) = helper.method_of {
            "self".clone_into(&mut params[0]);
            first = format!("impl S{seed}_{id} {{\npub fn h{index}");
            last = "}\n}\n";
        }
        params.extend(
            helper
                .buffer
                .as_ref()
                .map(|Buffer { of, mode }| match mode {
                    Mode::Atomic(_) => format!("x: &[Atomic<{}>]", shape(kernel, of)),
                    _ => format!("x: &[{}]", shape(kernel, of)),
                }),
        );
        let (params, returns) = (params.join(", "), shape(kernel, &helper.returns));
        writeln!(self, "#[kernel]\n{first}({params}) -> {returns} {{")?;
        self.depth = 1;
        self.statements(&helper.body)?;
        let value = self.value(&helper.value);
        self.line(&value)?;
        writeln!(self, "{last}")
    }

    fn buffer(&self, index: usize) -> String {
        if self.in_helper {
            return "x".to_owned();
        }
        match self.kernel.buffers[index].mode {
            Mode::Read | Mode::Along => format!("x{index}"),
            Mode::Atomic(_) | Mode::AtomicOwn => format!("a{index}"),
            _ => format!("y{index}"),
        }
    }

    fn line(&mut self, text: &str) -> Result {
        let depth = self.depth;
        writeln!(self, "{:1$}{text}", "", 4 * depth)
    }

    fn name(&self, var: Var) -> &'a str {
        let variables: &'a [Variable] = self.variables;
        &variables[var].name
    }

    fn shape_of(&self, var: Var) -> String {
        shape(self.kernel, &self.variables[var].shape)
    }

    /// Returns what `text` writes.
    fn nested(&mut self, text: impl FnOnce(&mut Self) -> Result) -> String {
        let out = std::mem::take(&mut self.out);
        self.depth += 1;
        text(self).expect("a string has room");
        self.depth -= 1;
        std::mem::replace(&mut self.out, out)
    }
}
