//! The bodies of functions and kernels.

use std::collections::HashMap;

use super::words::{Words, at};
use crate::decode::decode;
use crate::instruction::{Action, Instruction, Source};
use crate::operands::{Scope, Symbol, separated};
use crate::tokens::Token;

/// Parts of a thread's own memory that a function's parameters or results are: where, and how many bytes.
type Places = Vec<(usize, usize)>;

/// A function that is called. It has registers and memory of its own in every thread, so it must not call itself.
#[derive(Default)]
pub(super) struct Function {
    parameters: Places,
    results: Places,
    /// Its number, by which calls know it until they are linked.
    number: usize,
    /// Where its code begins, once that was read.
    start: Option<usize>,
    calls: Vec<usize>,
    /// Something in it orders memory.
    pub(super) fences: bool,
}

/// A body that is being read.
pub(super) struct Body<'w, 'a> {
    words: &'w mut Words<'a>,
    functions: &'w mut HashMap<String, Function>,
    instructions: &'w mut Vec<Instruction>,
    pub(super) fences: bool,
    calls: Vec<usize>,
    /// Labels by the braces that they are in.
    labels: HashMap<(usize, &'a str), usize>,
    /// Lists of labels for `brx.idx`.
    lists: HashMap<&'a str, Vec<Token<'a>>>,
    /// Branches by their place, the braces that they are in, and where they go.
    branches: Vec<(usize, usize, Goal<'a>)>,
    /// For each pair of braces the one around it.
    around: Vec<usize>,
}

enum Goal<'a> {
    Label(Token<'a>),
    List(Token<'a>),
}

impl<'w, 'a> Body<'w, 'a> {
    pub(super) fn new(
        words: &'w mut Words<'a>,
        functions: &'w mut HashMap<String, Function>,
        instructions: &'w mut Vec<Instruction>,
    ) -> Self {
        Self {
            words,
            functions,
            instructions,
            fences: false,
            calls: Vec::new(),
            labels: HashMap::new(),
            lists: HashMap::new(),
            branches: Vec::new(),
            around: vec![0],
        }
    }

    /// `.func` has been taken: a function, or that there is one.
    pub(super) fn function(&mut self, scope: &mut Scope) -> Result<(), String> {
        let results = self.formals(scope)?;
        let name = self.words.must()?;
        let parameters = self.formals(scope)?;
        self.words.until(&["{", ";"])?;
        let number = self.functions.len();
        let known = self.functions.entry(name.text.to_owned());
        let known = known.or_insert_with(|| Function {
            number,
            ..Function::default()
        });
        if self.words.takes(";") {
            return Ok(());
        }
        self.words.expect("{")?;
        known.parameters = parameters;
        known.results = results;
        known.start = Some(self.instructions.len());
        self.run(scope)?;
        let (fences, calls) = (self.fences, std::mem::take(&mut self.calls));
        if let Some(function) = self.functions.get_mut(name.text) {
            function.fences = fences;
            function.calls = calls;
        }
        Ok(())
    }

    /// Parameters or results in parentheses, if there are any.
    fn formals(&mut self, scope: &mut Scope) -> Result<Places, String> {
        let mut places = Places::new();
        if !self.words.takes("(") {
            return Ok(places);
        }
        while !self.words.takes(")") {
            self.words.expect(".param")?;
            places.push(self.local(scope)?);
            self.words.takes(",");
        }
        Ok(places)
    }

    /// `.param` or `.local` has been taken: memory of a thread's own.
    fn local(&mut self, scope: &mut Scope) -> Result<(usize, usize), String> {
        let (align, ty) = self.words.aligned_type()?;
        let name = self.words.must()?;
        let count = self.words.count()?;
        let count = count.ok_or_else(|| at(name, "a variable of no size"))?;
        let bytes = usize::from(ty.bytes()) * count;
        Ok((scope.add_local(name.text, align, bytes), bytes))
    }

    /// The first brace has been taken: the rest.
    pub(super) fn run(&mut self, scope: &mut Scope) -> Result<(), String> {
        self.block(scope, 0)?;
        // What falls off the end is at its end.
        let action = match scope.in_function {
            true => Action::Return,
            false => Action::Exit,
        };
        self.push(None, action, 0);
        for (place, braces, goal) in std::mem::take(&mut self.branches) {
            let action = match goal {
                Goal::Label(label) => Action::Branch {
                    to: self.find(braces, label)?,
                },
                Goal::List(list) => {
                    let labels = self.lists.get(list.text);
                    let labels = labels
                        .ok_or_else(|| at(list, &format!("no list `{}` of labels", list.text)))?;
                    let targets = labels.iter().map(|label| self.find(braces, *label));
                    let targets = targets.collect::<Result<_, _>>()?;
                    let Action::Switch { index, .. } = self.instructions[place].action else {
                        continue;
                    };
                    Action::Switch { index, targets }
                }
            };
            self.instructions[place].action = action;
        }
        Ok(())
    }

    /// Where a label is that can be seen from within these braces.
    fn find(&self, mut braces: usize, label: Token<'a>) -> Result<usize, String> {
        loop {
            if let Some(place) = self.labels.get(&(braces, label.text)) {
                return Ok(*place);
            }
            if braces == 0 {
                return Err(at(label, &format!("no label `{}`", label.text)));
            }
            braces = self.around[braces];
        }
    }

    fn push(&mut self, guard: Option<(usize, bool)>, action: Action, line: u32) {
        self.instructions.push(Instruction {
            guard,
            action,
            line,
        });
    }

    /// What is between braces, of which the first has been taken.
    fn block(&mut self, scope: &mut Scope, braces: usize) -> Result<(), String> {
        loop {
            let token = self.words.must()?;
            match token.text {
                "}" => return Ok(()),
                "{" => {
                    let names = scope.names.clone();
                    let inner = self.around.len();
                    self.around.push(braces);
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
                    return Err(at(token, &format!("`{word}` in a kernel")));
                }
                word if self.words.takes(":") => {
                    if self.words.takes(".branchtargets") {
                        let labels = self.words.until(&[";"])?;
                        let labels = labels.into_iter().filter(|label| label.text != ",");
                        self.lists.insert(word, labels.collect());
                        self.words.expect(";")?;
                    } else {
                        let place = self.instructions.len();
                        self.labels.insert((braces, word), place);
                    }
                }
                _ => self.statement(scope, token, braces)?,
            }
        }
    }

    /// `.reg` has been taken: names of registers.
    fn registers(&mut self, scope: &mut Scope) -> Result<(), String> {
        self.words.aligned_type()?;
        loop {
            let name = self.words.must()?.text;
            if self.words.takes("<") {
                let count = self.words.number()?;
                self.words.expect(">")?;
                (0..count).for_each(|number| scope.add_register(format!("{name}{number}")));
            } else {
                scope.add_register(name.to_owned());
            }
            if self.words.takes(";") {
                return Ok(());
            }
            self.words.expect(",")?;
        }
    }

    /// An instruction, of which the first word has been taken.
    fn statement(&mut self, scope: &Scope, first: Token<'a>, braces: usize) -> Result<(), String> {
        let mut opcode = first;
        let mut guard = None;
        if first.text == "@" {
            let value = !self.words.takes("!");
            let name = self.words.must()?;
            let register = scope.register(name.text).map_err(|said| at(name, &said))?;
            guard = Some((register, value));
            opcode = self.words.must()?;
        }
        let operands = self.words.until(&[";"])?;
        self.words.expect(";")?;
        let parts: Vec<&str> = opcode.text.split('.').collect();
        self.fences |= parts.iter().any(|part| {
            matches!(
                *part,
                "membar" | "fence" | "acquire" | "release" | "acq_rel"
            )
        });
        let place = self.instructions.len();
        let texts: Vec<_> = operands.iter().map(|token| token.text).collect();
        let said = |said: String| at(opcode, &format!("`{}`: {said}", opcode.text));
        let action = match (opcode.text, &operands[..]) {
            ("bra" | "bra.uni", [label]) => {
                self.branches.push((place, braces, Goal::Label(*label)));
                Action::Branch { to: 0 }
            }
            ("brx.idx" | "brx.idx.uni", [index, _, list]) => {
                let index = scope.register(index.text).map_err(said)?;
                self.branches.push((place, braces, Goal::List(*list)));
                Action::Switch {
                    index: Source::Register(index),
                    targets: Box::default(),
                }
            }
            ("call" | "call.uni", _) => {
                return self.call(scope, guard, opcode.line, &texts).map_err(said);
            }
            (name, _) => decode(scope, name, &texts).map_err(said)?,
        };
        self.push(guard, action, first.line);
        Ok(())
    }

    /// `(results), name, (parameters)`: copies of the parameters, the call, copies of the results.
    fn call(
        &mut self,
        scope: &Scope,
        guard: Option<(usize, bool)>,
        line: u32,
        words: &[&str],
    ) -> Result<(), String> {
        let (mut results, mut parameters, mut name) = (Vec::new(), Vec::new(), None);
        for part in separated(words) {
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
                            _ => return Err(format!("`{one}` is no `.param` variable")),
                        }
                    }
                }
                [word] if name.is_none() => name = Some(*word),
                _ => return Err("only functions that are named are called".to_owned()),
            }
        }
        let name = name.ok_or("the function is missing")?;
        let function = self.functions.get(name);
        let function = function.ok_or_else(|| format!("no function `{name}`"))?;
        let number = function.number;
        self.calls.push(number);
        // The lists of what is not read yet are filled in when all is.
        let carried = |list: &[(usize, usize)]| {
            let list = list.iter().map(|(start, bytes)| (*start, number, *bytes));
            Action::Carry(list.collect())
        };
        let (before, after) = (carried(&parameters), carried(&results));
        self.push(guard, before, line);
        self.push(guard, Action::Call { to: number }, line);
        self.push(guard, after, line);
        Ok(())
    }
}

/// Tells calls where their functions are.
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
                "the function `{name}` calls itself, which the fake does not know"
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
            .ok_or_else(|| format!("line {line}: the function `{name}` is nowhere"))?;
        instructions[place].action = Action::Call { to: start };
        for (beside, formals, inwards) in [
            (place - 1, &function.parameters, true),
            (place + 1, &function.results, false),
        ] {
            let Action::Carry(given) = &instructions[beside].action else {
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
                    "line {line}: the function `{name}` takes or gives something else"
                ));
            }
            let pairs = given.iter().zip(formals);
            let copies = pairs.map(|((given, bytes), (formal, _))| match inwards {
                true => (*given, *formal, *bytes),
                false => (*formal, *given, *bytes),
            });
            instructions[beside].action = Action::Carry(copies.collect());
        }
    }
    Ok(())
}

/// Does a function get, by what it calls, to another?
fn reaches(functions: &[(&str, &Function)], from: usize, to: usize, seen: &mut Vec<bool>) -> bool {
    functions[from].1.calls.iter().any(|next| {
        *next == to
            || (!std::mem::replace(&mut seen[*next], true) && reaches(functions, *next, to, seen))
    })
}
