//! Parses the bodies of functions and kernels.

use std::collections::HashMap;

use super::stream::{TokenStream, error_at};
use crate::decode::decode;
use crate::instruction::{Action, Instruction};
use crate::operands::{Scope, Symbol, split_operands};
use crate::tokens::Token;

/// The parameters or results of a function in local memory: offsets and sizes in bytes.
type Slots = Vec<(usize, usize)>;

/// A function. It has static registers and memory in each thread, so it must not be recursive.
#[derive(Default)]
pub(super) struct Function {
    parameters: Slots,
    results: Slots,
    /// The number by which calls refer to it until they are linked.
    number: usize,
    /// The first of its instructions, once they are parsed.
    start: Option<usize>,
    calls: Vec<usize>,
}

/// The body that is being parsed.
pub(super) struct Body<'w, 'a> {
    words: &'w mut TokenStream<'a>,
    functions: &'w mut HashMap<String, Function>,
    instructions: &'w mut Vec<Instruction>,
    calls: Vec<usize>,
    /// Labels, by their block and name.
    labels: HashMap<(usize, &'a str), usize>,
    /// Branches to resolve: instruction, block, label.
    branches: Vec<(usize, usize, Token<'a>)>,
    /// The enclosing block of each block.
    parents: Vec<usize>,
}

impl<'w, 'a> Body<'w, 'a> {
    pub(super) fn new(
        words: &'w mut TokenStream<'a>,
        functions: &'w mut HashMap<String, Function>,
        instructions: &'w mut Vec<Instruction>,
    ) -> Self {
        Self {
            words,
            functions,
            instructions,
            calls: Vec::new(),
            labels: HashMap::new(),
            branches: Vec::new(),
            parents: vec![0],
        }
    }

    /// Parses a function or a declaration of one, after `.func`.
    pub(super) fn function(&mut self, scope: &mut Scope) -> Result<(), String> {
        let results = self.formals(scope)?;
        let name = self.words.expect_any()?;
        let parameters = self.formals(scope)?;
        self.words.until(&["{", ";"])?;
        let number = self.functions.len();
        let known = self.functions.entry(name.text.to_owned());
        let known = known.or_insert_with(|| Function {
            number,
            ..Function::default()
        });
        if self.words.accept(";") {
            return Ok(());
        }
        self.words.expect("{")?;
        known.parameters = parameters;
        known.results = results;
        known.start = Some(self.instructions.len());
        self.run(scope)?;
        let calls = std::mem::take(&mut self.calls);
        if let Some(function) = self.functions.get_mut(name.text) {
            function.calls = calls;
        }
        Ok(())
    }

    /// Parses parameters or results in parentheses, if there are any.
    fn formals(&mut self, scope: &mut Scope) -> Result<Slots, String> {
        let mut slots = Slots::new();
        if !self.words.accept("(") {
            return Ok(slots);
        }
        while !self.words.accept(")") {
            self.words.expect(".param")?;
            slots.push(self.local(scope)?);
            self.words.accept(",");
        }
        Ok(slots)
    }

    /// Parses a variable in local memory, after `.param` or `.local`.
    fn local(&mut self, scope: &mut Scope) -> Result<(usize, usize), String> {
        let (align, ty) = self.words.aligned_type()?;
        let name = self.words.expect_any()?;
        let count = self.words.count()?;
        let count = count.ok_or_else(|| error_at(name, "the variable has no size"))?;
        let bytes = usize::from(ty.bytes()) * count;
        Ok((scope.add_local(name.text, align, bytes), bytes))
    }

    /// Parses a body after its opening brace.
    pub(super) fn run(&mut self, scope: &mut Scope) -> Result<(), String> {
        self.block(scope, 0)?;
        // Control that reaches the end of the body returns or exits.
        let action = match scope.in_function {
            true => Action::Return,
            false => Action::Exit,
        };
        self.push(None, action, 0);
        for (place, braces, label) in std::mem::take(&mut self.branches) {
            let to = self.find(braces, label)?;
            self.instructions[place].action = Action::Branch { to };
        }
        Ok(())
    }

    /// Returns the instruction of a label that is visible in this block.
    fn find(&self, mut braces: usize, label: Token<'a>) -> Result<usize, String> {
        loop {
            if let Some(place) = self.labels.get(&(braces, label.text)) {
                return Ok(*place);
            }
            if braces == 0 {
                return Err(error_at(label, &format!("no label `{}`", label.text)));
            }
            braces = self.parents[braces];
        }
    }

    fn push(&mut self, guard: Option<(usize, bool)>, action: Action, line: u32) {
        self.instructions.push(Instruction {
            guard,
            action,
            line,
        });
    }

    /// Parses a block after its opening brace.
    fn block(&mut self, scope: &mut Scope, braces: usize) -> Result<(), String> {
        loop {
            let token = self.words.expect_any()?;
            match token.text {
                "}" => return Ok(()),
                "{" => {
                    let names = scope.names.clone();
                    let inner = self.parents.len();
                    self.parents.push(braces);
                    self.block(scope, inner)?;
                    scope.names = names;
                }
                ".reg" => self.registers(scope)?,
                ".shared" => super::shared(self.words, scope)?,
                ".local" | ".param" => {
                    self.local(scope)?;
                    self.words.expect(";")?;
                }
                ".loc" | ".pragma" => self.words.skip_line(token.line),
                word if word.starts_with('.') => {
                    return Err(error_at(
                        token,
                        &format!("unsupported directive `{word}` in a kernel"),
                    ));
                }
                word if self.words.accept(":") => {
                    let place = self.instructions.len();
                    self.labels.insert((braces, word), place);
                }
                _ => self.statement(scope, token, braces)?,
            }
        }
    }

    /// Parses register names after `.reg`.
    fn registers(&mut self, scope: &mut Scope) -> Result<(), String> {
        self.words.aligned_type()?;
        loop {
            let name = self.words.expect_any()?.text;
            if self.words.accept("<") {
                let count = self.words.number()?;
                self.words.expect(">")?;
                (0..count).for_each(|number| scope.add_register(format!("{name}{number}")));
            } else {
                scope.add_register(name.to_owned());
            }
            if self.words.accept(";") {
                return Ok(());
            }
            self.words.expect(",")?;
        }
    }

    /// Parses an instruction after its first token.
    fn statement(&mut self, scope: &Scope, first: Token<'a>, braces: usize) -> Result<(), String> {
        let mut opcode = first;
        let mut guard = None;
        if first.text == "@" {
            let value = !self.words.accept("!");
            let name = self.words.expect_any()?;
            let register = scope
                .register(name.text)
                .map_err(|message| error_at(name, &message))?;
            guard = Some((register, value));
            opcode = self.words.expect_any()?;
        }
        let operands = self.words.until(&[";"])?;
        self.words.expect(";")?;
        let place = self.instructions.len();
        let texts: Vec<_> = operands.iter().map(|token| token.text).collect();
        let error = |message: String| error_at(opcode, &format!("`{}`: {message}", opcode.text));
        let action = match (opcode.text, &operands[..]) {
            ("bra" | "bra.uni", [label]) => {
                self.branches.push((place, braces, *label));
                Action::Branch { to: 0 }
            }
            ("call" | "call.uni", _) => {
                return self.call(scope, guard, opcode.line, &texts).map_err(error);
            }
            (name, _) => decode(scope, name, &texts).map_err(error)?,
        };
        self.push(guard, action, first.line);
        Ok(())
    }

    /// Parses `(results), name, (parameters)`: copies the parameters, calls, copies the results.
    fn call(
        &mut self,
        scope: &Scope,
        guard: Option<(usize, bool)>,
        line: u32,
        words: &[&str],
    ) -> Result<(), String> {
        let (mut results, mut parameters, mut name) = (Vec::new(), Vec::new(), None);
        for part in split_operands(words) {
            match part {
                ["(", within @ .., ")"] => {
                    let list = if name.is_some() {
                        &mut parameters
                    } else {
                        &mut results
                    };
                    for one in within.iter().filter(|word| **word != ",") {
                        match scope.memory(one) {
                            Some(Symbol::Local(start, bytes)) => {
                                list.push((start as usize, bytes));
                            }
                            _ => return Err(format!("`{one}` is not a `.param` variable")),
                        }
                    }
                }
                [word] if name.is_none() => name = Some(*word),
                _ => return Err("indirect calls are not supported".to_owned()),
            }
        }
        let name = name.ok_or("the name of the function is missing")?;
        let function = self.functions.get(name);
        let function = function.ok_or_else(|| format!("no function `{name}`"))?;
        let number = function.number;
        self.calls.push(number);
        // `link` completes the copies when all functions are parsed.
        let copies_of = |list: &[(usize, usize)]| {
            let list = list.iter().map(|(start, bytes)| (*start, number, *bytes));
            Action::CopyLocal(list.collect())
        };
        let (before, after) = (copies_of(&parameters), copies_of(&results));
        self.push(guard, before, line);
        self.push(guard, Action::Call { to: number }, line);
        self.push(guard, after, line);
        Ok(())
    }
}

/// Resolves calls to the instructions of their functions.
pub(super) fn link(
    instructions: &mut [Instruction],
    functions: &HashMap<String, Function>,
) -> Result<(), String> {
    let mut by_number: Vec<(&str, &Function)> = Vec::new();
    by_number.extend(functions.iter().map(|(name, of)| (name.as_str(), of)));
    by_number.sort_by_key(|(_, of)| of.number);
    for (number, (name, _)) in by_number.iter().enumerate() {
        if reaches(
            &by_number,
            number,
            number,
            &mut vec![false; by_number.len()],
        ) {
            return Err(format!(
                "the function `{name}` calls itself; recursion is not supported"
            ));
        }
    }
    for place in 0..instructions.len() {
        let Action::Call { to } = instructions[place].action else {
            continue;
        };
        let line = instructions[place].line;
        let (name, function) = by_number[to];
        let start = function
            .start
            .ok_or_else(|| format!("line {line}: the function `{name}` is not defined"))?;
        instructions[place].action = Action::Call { to: start };
        for (beside, formals, inwards) in [
            (place - 1, &function.parameters, true),
            (place + 1, &function.results, false),
        ] {
            let Action::CopyLocal(given) = &instructions[beside].action else {
                continue;
            };
            let bytes =
                |list: &[(usize, usize)]| list.iter().map(|part| part.1).collect::<Vec<_>>();
            let given: Vec<_> = given
                .iter()
                .map(|(start, _, bytes)| (*start, *bytes))
                .collect();
            if bytes(&given) != bytes(formals) {
                return Err(format!(
                    "line {line}: the parameters or results of the call differ from those of `{name}`"
                ));
            }
            let pairs = given.iter().zip(formals);
            let copies = pairs.map(|((given, bytes), (formal, _))| match inwards {
                true => (*given, *formal, *bytes),
                false => (*formal, *given, *bytes),
            });
            instructions[beside].action = Action::CopyLocal(copies.collect());
        }
    }
    Ok(())
}

/// Returns `true` if `from` calls `to`, directly or indirectly.
fn reaches(functions: &[(&str, &Function)], from: usize, to: usize, seen: &mut Vec<bool>) -> bool {
    functions[from].1.calls.iter().any(|next| {
        *next == to
            || (!std::mem::replace(&mut seen[*next], true) && reaches(functions, *next, to, seen))
    })
}
