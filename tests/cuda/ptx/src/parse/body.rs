//! Parses the bodies of functions and kernels.

use std::collections::{HashMap, HashSet};

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
    /// The first of its instructions, once they are parsed.
    start: Option<usize>,
    /// The functions that it calls.
    calls: Vec<String>,
}

/// A call that is not linked yet: the copies of its parameters, the call and the copies of its results are instructions
/// from `place` on.
pub(super) struct Call {
    place: usize,
    name: String,
    parameters: Slots,
    results: Slots,
}

/// All functions of a module, by name.
pub(super) type Functions = HashMap<String, Function>;

/// The body that is being parsed.
pub(super) struct Body<'w, 'a> {
    words: &'w mut TokenStream<'a>,
    instructions: &'w mut Vec<Instruction>,
    pub(super) calls: Vec<Call>,
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
        instructions: &'w mut Vec<Instruction>,
    ) -> Self {
        Self {
            words,
            instructions,
            calls: Vec::new(),
            labels: HashMap::new(),
            branches: Vec::new(),
            parents: vec![0],
        }
    }

    /// Parses a function or a declaration of one, after `.func`.
    pub(super) fn function(
        &mut self,
        scope: &mut Scope,
        functions: &mut Functions,
    ) -> Result<(), String> {
        let results = self.formals(scope)?;
        let name = self.words.expect_any()?.text.to_owned();
        let parameters = self.formals(scope)?;
        self.words.until(&["{", ";"])?;
        if self.words.accept(";") {
            functions.entry(name).or_default();
            return Ok(());
        }
        self.words.expect("{")?;
        let start = Some(self.instructions.len());
        self.run(scope)?;
        let function = Function {
            parameters,
            results,
            start,
            calls: self.calls.iter().map(|call| call.name.clone()).collect(),
        };
        functions.insert(name, function);
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
            self.instructions[place].action = Action::Branch(to);
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
                Action::Branch(0)
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
        let name = name
            .ok_or("the name of the function is missing")?
            .to_owned();
        self.calls.push(Call {
            place: self.instructions.len(),
            name,
            parameters,
            results,
        });
        // `link` completes them when all functions are parsed.
        let none = || Action::CopyLocal(Box::default());
        for action in [none(), Action::Call(0), none()] {
            self.push(guard, action, line);
        }
        Ok(())
    }
}

/// Resolves calls to the instructions of their functions.
pub(super) fn link(
    instructions: &mut [Instruction],
    calls: &[Call],
    functions: &Functions,
) -> Result<(), String> {
    for call in calls {
        let (name, line) = (&call.name, instructions[call.place].line);
        let error = |what: &str| Err(format!("line {line}: {what}"));
        let function = functions.get(name);
        let Some(Function {
            parameters,
            results,
            start: Some(start),
            ..
        }) = function
        else {
            return error(&format!("the function `{name}` is not defined"));
        };
        if reaches(functions, name, name, &mut HashSet::new()) {
            return error(&format!(
                "the function `{name}` calls itself; recursion is not supported"
            ));
        }
        let bytes = |slots: &Slots| slots.iter().map(|slot| slot.1).collect::<Vec<_>>();
        let given = [bytes(&call.parameters), bytes(&call.results)];
        if given != [bytes(parameters), bytes(results)] {
            return error(&format!(
                "the parameters or results of the call differ from those of `{name}`"
            ));
        }
        let copies = |from: &Slots, to: &Slots| {
            let pairs = from.iter().zip(to);
            Action::CopyLocal(
                pairs
                    .map(|((from, bytes), (to, _))| (*from, *to, *bytes))
                    .collect(),
            )
        };
        let actions = [
            copies(&call.parameters, parameters),
            Action::Call(*start),
            copies(results, &call.results),
        ];
        for (instruction, action) in instructions[call.place..].iter_mut().zip(actions) {
            instruction.action = action;
        }
    }
    Ok(())
}

/// Returns `true` if `from` calls `to`, directly or indirectly.
fn reaches<'a>(
    functions: &'a Functions,
    from: &'a str,
    to: &str,
    seen: &mut HashSet<&'a str>,
) -> bool {
    let calls = functions.get(from).map_or(&[][..], |of| &of.calls);
    calls.iter().any(|next| {
        next == to || (seen.insert(next.as_str()) && reaches(functions, next, to, seen))
    })
}
