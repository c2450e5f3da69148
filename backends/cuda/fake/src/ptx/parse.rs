//! Words into kernels.

use std::collections::HashMap;

use crate::ptx::decode::decode;
use crate::ptx::instruction::{Action, Instruction, Type};
use crate::ptx::operands::{Scope, Symbol};
use crate::ptx::tokens::{Token, tokens};
use crate::ptx::{Kernel, Parameter};

/// All kernels of a text.
///
/// # Errors
/// What is not known, with its line.
pub(crate) fn parse(text: &str) -> Result<Vec<Kernel>, String> {
    let mut words = Words {
        tokens: tokens(text)?,
        at: 0,
    };
    let mut module = Scope::default();
    let mut kernels = Vec::new();
    while let Some(token) = words.next() {
        match token.text {
            // Lines that say nothing that matters here.
            ".version" | ".target" | ".address_size" | ".file" | ".loc" => {
                words.skip_line(token.line);
            }
            ".visible" | ".weak" | ".extern" => {}
            ".shared" => words.shared(&mut module)?,
            ".entry" => kernels.push(words.entry(&module)?),
            other => return Err(at(token, &format!("`{other}` outside of a kernel"))),
        }
    }
    Ok(kernels)
}

fn at(token: Token<'_>, said: &str) -> String {
    format!("line {}: {said}", token.line)
}

struct Words<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    fn must(&mut self) -> Result<Token<'a>, String> {
        self.next()
            .ok_or_else(|| "the text ends within something".to_owned())
    }

    /// Is this next? Then it is taken.
    fn takes(&mut self, text: &str) -> bool {
        let is = self
            .tokens
            .get(self.at)
            .is_some_and(|token| token.text == text);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        let token = self.must()?;
        match token.text == text {
            true => Ok(()),
            false => Err(at(
                token,
                &format!("`{}` where `{text}` must be", token.text),
            )),
        }
    }

    fn number(&mut self) -> Result<usize, String> {
        let token = self.must()?;
        token
            .text
            .parse()
            .map_err(|_| at(token, &format!("`{}` is no number", token.text)))
    }

    fn skip_line(&mut self, line: u32) {
        while self
            .tokens
            .get(self.at)
            .is_some_and(|token| token.line == line)
        {
            self.at += 1;
        }
    }

    /// `.align 8`, if it is there, and the type: how it is aligned, and its bytes.
    fn aligned_type(&mut self) -> Result<(usize, usize), String> {
        let mut align = None;
        if self.takes(".align") {
            align = Some(self.number()?);
        }
        let token = self.must()?;
        let ty = token.text.strip_prefix('.').and_then(Type::named);
        let ty = ty.ok_or_else(|| at(token, &format!("the type `{}`", token.text)))?;
        let bytes = usize::from(ty.bytes());
        Ok((align.unwrap_or(bytes), bytes))
    }

    /// `[16]`, or nothing: how many; none for `[]`.
    fn count(&mut self) -> Result<Option<usize>, String> {
        if !self.takes("[") {
            return Ok(Some(1));
        }
        if self.takes("]") {
            return Ok(None);
        }
        let count = self.number()?;
        self.expect("]")?;
        Ok(Some(count))
    }

    /// `.shared` has been taken: the rest of the declaration.
    fn shared(&mut self, scope: &mut Scope) -> Result<(), String> {
        let (align, bytes) = self.aligned_type()?;
        let name = self.must()?.text.to_owned();
        let symbol = match self.count()? {
            Some(count) => {
                let start = scope.shared_bytes.next_multiple_of(align.max(1));
                scope.shared_bytes = start + count * bytes;
                Symbol::Shared(start as u64)
            }
            None => Symbol::SharedDynamic,
        };
        scope.symbols.insert(name, symbol);
        self.expect(";")
    }

    /// `.entry` has been taken: a kernel.
    fn entry(&mut self, module: &Scope) -> Result<Kernel, String> {
        let name = self.must()?.text.to_owned();
        let mut scope = module.clone();
        let parameters = self.parameters(&mut scope)?;
        // `.maxntid` and its like promise what we have no use for.
        while !self.takes("{") {
            self.must()?;
        }
        let instructions = self.body(&mut scope)?;
        Ok(Kernel {
            name,
            parameters,
            shared_bytes: scope.shared_bytes,
            registers: scope.registers.len(),
            instructions,
        })
    }

    fn parameters(&mut self, scope: &mut Scope) -> Result<Vec<Parameter>, String> {
        let mut parameters: Vec<Parameter> = Vec::new();
        let mut end = 0_usize;
        if !self.takes("(") {
            return Ok(parameters);
        }
        while !self.takes(")") {
            self.expect(".param")?;
            let (align, bytes) = self.aligned_type()?;
            // What a pointer points to.
            if self.takes(".ptr") {
                while [".global", ".shared", ".const", ".local"]
                    .iter()
                    .any(|space| self.takes(space))
                {}
                if self.takes(".align") {
                    self.number()?;
                }
            }
            let token = self.must()?;
            let count = self
                .count()?
                .ok_or_else(|| at(token, "a parameter of no size"))?;
            let offset = end.next_multiple_of(align.max(1));
            end = offset + bytes * count;
            scope
                .symbols
                .insert(token.text.to_owned(), Symbol::Parameter(offset as u64));
            parameters.push(Parameter {
                name: token.text.to_owned(),
                offset,
                bytes: bytes * count,
            });
            self.takes(",");
        }
        Ok(parameters)
    }

    fn body(&mut self, scope: &mut Scope) -> Result<Vec<Instruction>, String> {
        let mut instructions = Vec::new();
        let mut labels: HashMap<&str, usize> = HashMap::new();
        // Branches by their place, and where they go.
        let mut branches: Vec<(usize, Token<'a>)> = Vec::new();
        loop {
            let token = self.must()?;
            match token.text {
                "}" => break,
                ".reg" => self.registers(scope)?,
                ".shared" => self.shared(scope)?,
                ".loc" | ".pragma" => self.skip_line(token.line),
                word if word.starts_with('.') || word == "{" => {
                    return Err(at(token, &format!("`{word}` in a kernel")));
                }
                word if self.takes(":") => _ = labels.insert(word, instructions.len()),
                _ => {
                    self.at -= 1;
                    let (instruction, target) = self.statement(scope)?;
                    branches.extend(target.map(|target| (instructions.len(), target)));
                    instructions.push(instruction);
                }
            }
        }
        for (place, label) in branches {
            let known = labels.get(label.text);
            let to = *known.ok_or_else(|| at(label, &format!("no label `{}`", label.text)))?;
            instructions[place].action = Action::Branch { to };
        }
        Ok(instructions)
    }

    /// `.reg` has been taken: names of registers.
    fn registers(&mut self, scope: &mut Scope) -> Result<(), String> {
        self.aligned_type()?;
        loop {
            let name = self.must()?.text;
            if self.takes("<") {
                let count = self.number()?;
                self.expect(">")?;
                (0..count).for_each(|number| scope.add_register(format!("{name}{number}")));
            } else {
                scope.add_register(name.to_owned());
            }
            if self.takes(";") {
                return Ok(());
            }
            self.expect(",")?;
        }
    }

    /// An instruction, and, where it branches, the label.
    fn statement(&mut self, scope: &Scope) -> Result<(Instruction, Option<Token<'a>>), String> {
        let first = self.must()?;
        let mut opcode = first;
        let mut guard = None;
        if first.text == "@" {
            let value = !self.takes("!");
            let name = self.must()?;
            let register = scope.register(name.text).map_err(|said| at(name, &said))?;
            guard = Some((register, value));
            opcode = self.must()?;
        }
        let mut operands = Vec::new();
        loop {
            let token = self.must()?;
            match token.text {
                ";" => break,
                _ => operands.push(token),
            }
        }
        let mut branch = None;
        let action = match (opcode.text, &operands[..]) {
            ("bra" | "bra.uni", [label]) => {
                branch = Some(*label);
                Action::Branch { to: 0 }
            }
            (name, _) => {
                let texts: Vec<_> = operands.iter().map(|token| token.text).collect();
                decode(scope, name, &texts)
                    .map_err(|said| at(opcode, &format!("`{name}`: {said}")))?
            }
        };
        let line = first.line;
        Ok((
            Instruction {
                guard,
                action,
                line,
            },
            branch,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(body: &str) -> Result<Vec<Kernel>, String> {
        parse(&format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u32 n)\n\
             {{\n.reg .pred %p;\n.reg .b32 %r<4>;\n.reg .f32 %f<3>;\n.reg .b64 %rd<4>;\n{body}\n}}"
        ))
    }

    #[test]
    fn parameters_lie_as_c_would_lay_them() {
        let read =
            parse(".entry k(.param .u32 a, .param .u64 b, .param .align 8 .b8 c[12]) { ret; }")
                .unwrap();
        let places: Vec<_> = read[0]
            .parameters
            .iter()
            .map(|of| (of.offset, of.bytes))
            .collect();
        assert_eq!(places, [(0, 4), (8, 8), (16, 12)]);
    }

    #[test]
    fn what_is_not_known_is_said_with_its_line() {
        for (body, said) in [
            ("frobnicate.s32 %r1, %r2;", "line 10: `frobnicate.s32`"),
            ("add.ftz.f32 %f1, %f2, %f2;", "ftz"),
            ("add.sat.s32 %r1, %r2, %r2;", "sat"),
            ("add.s32 %r1, %r9, %r2;", "%r9"),
            ("add.s32 %r1, %r2;", "operands"),
            ("cvt.rni.f16.f32 %f1, %f2;", "f16"),
            ("mov.u32 %r1, %clock;", "%clock"),
            ("bra NOWHERE;", "NOWHERE"),
            ("{ .reg .b32 t; }", "`{`"),
            ("call helper;", "call"),
            ("shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;", "shfl"),
        ] {
            let error = kernel(body).unwrap_err();
            assert!(error.contains(said), "{body}: {error}");
        }
    }

    #[test]
    fn what_is_known_is_read() {
        let read = kernel(
            "ld.param.u64 %rd1, [a];\ncvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, %tid.x;\n\
             setp.ge.u32 %p, %r1, 4;\n@%p bra DONE;\nmul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd3, %rd2, %rd3;\n\
             ld.global.nc.f32 %f1, [%rd3+8];\nfma.rn.f32 %f1, %f1, 0f40000000, %f1;\nst.global.f32 [%rd3], %f1;\n\
             DONE: ret;",
        )
        .unwrap();
        assert_eq!(read[0].instructions.len(), 11);
        assert!(matches!(
            read[0].instructions[4].action,
            Action::Branch { to: 10 }
        ));
    }
}
