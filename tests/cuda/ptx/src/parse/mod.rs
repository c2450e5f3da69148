//! Words into kernels: what is declared in a module, and where its functions are.

mod body;
mod words;

use std::collections::HashMap;

use crate::instruction::Instruction;
use crate::operands::{Name, Scope, Symbol, float_bits, whole};
use crate::{Kernel, Parameter, Variable};

use body::{Body, Function};
use words::{Words, at};

/// Where a function is described: its place among the words, just behind `.func` or `.entry`.
struct Found {
    at: usize,
    is_entry: bool,
}

/// All kernels of a text. `place` is asked for the address of each variable in global or constant memory.
///
/// # Errors
/// What is not known, with its line.
pub fn parse(
    text: &str,
    place: &mut dyn FnMut(Variable<'_>) -> Result<u64, String>,
) -> Result<Vec<Kernel>, String> {
    let mut words = Words::new(text)?;
    let mut module = Scope::default();
    let found = declarations(&mut words, &mut module, place)?;
    // Functions are before kernels, whatever the text has first, so that their registers and their code have the same
    // numbers in all kernels.
    let mut functions = HashMap::new();
    let mut shared = Vec::new();
    let mut scope = Scope {
        in_function: true,
        ..module.clone()
    };
    for found in found.iter().filter(|found| !found.is_entry) {
        words.at = found.at;
        let mut body = Body::new(&mut words, &mut functions, &mut shared);
        // What one function names no other sees.
        scope.names.clone_from(&module.names);
        body.function(&mut scope)?;
    }
    body::link(&mut shared, &functions)?;
    let mut kernels = Vec::new();
    for found in found.iter().filter(|found| found.is_entry) {
        words.at = found.at;
        let scope = Scope {
            names: module.names.clone(),
            in_function: false,
            ..scope.clone()
        };
        kernels.push(entry(&mut words, scope, &mut functions, &shared)?);
    }
    Ok(kernels)
}

/// What a module declares. Functions are passed over.
fn declarations(
    words: &mut Words<'_>,
    module: &mut Scope,
    place: &mut dyn FnMut(Variable<'_>) -> Result<u64, String>,
) -> Result<Vec<Found>, String> {
    let mut found = Vec::new();
    while let Some(token) = words.next() {
        match token.text {
            // Lines that say nothing that matters here.
            ".version" | ".target" | ".address_size" | ".file" | ".loc" | ".pragma" => {
                words.skip_line(token.line);
            }
            ".visible" | ".weak" | ".extern" | ".common" => {}
            // What a debugger reads.
            ".section" => {
                words.until(&["{"])?;
                words.skip_braces()?;
            }
            ".shared" => shared(words, module)?,
            ".global" | ".const" => variable(words, module, place)?,
            ".entry" | ".func" => {
                let is_entry = token.text == ".entry";
                found.push(Found {
                    at: words.at,
                    is_entry,
                });
                words.until(&["{", ";"])?;
                if !words.takes(";") {
                    words.skip_braces()?;
                }
            }
            other => return Err(at(token, &format!("`{other}` outside of a kernel"))),
        }
    }
    Ok(found)
}

/// `.shared` has been taken: the rest of the declaration.
fn shared(words: &mut Words<'_>, scope: &mut Scope) -> Result<(), String> {
    let (align, ty) = words.aligned_type()?;
    let name = words.must()?.text.to_owned();
    let symbol = match words.count()? {
        Some(count) => {
            let start = scope.shared_bytes.next_multiple_of(align.max(1));
            scope.shared_bytes = start + count * usize::from(ty.bytes());
            Symbol::Shared(start as u64)
        }
        None => Symbol::SharedDynamic,
    };
    scope.names.insert(name, Name::Memory(symbol));
    words.expect(";")
}

/// `.global` or `.const` has been taken: the rest of the declaration.
fn variable(
    words: &mut Words<'_>,
    module: &mut Scope,
    place: &mut dyn FnMut(Variable<'_>) -> Result<u64, String>,
) -> Result<(), String> {
    let (align, ty) = words.aligned_type()?;
    let name = words.must()?;
    let size = usize::from(ty.bytes());
    let count = words.count()?;
    let mut initial = Vec::new();
    if words.takes("=") {
        let mut negative = false;
        // Braces within braces are rows.
        for token in words.until(&[";"])? {
            if matches!(token.text, "{" | "}" | "," | "-") {
                negative = token.text == "-";
                continue;
            }
            let value = match ty.is_float() {
                true => float_bits(ty.bytes(), token.text),
                false if std::mem::take(&mut negative) => whole(token.text).map(u64::wrapping_neg),
                false => whole(token.text),
            };
            let value = value.filter(|_| !negative);
            let value = value
                .ok_or_else(|| at(token, &format!("`{}` as a value of {ty:?}", token.text)))?;
            initial.extend_from_slice(&value.to_le_bytes()[..size]);
        }
    }
    words.expect(";")?;
    let count = count.unwrap_or(initial.len() / size);
    let bytes = (count * size).max(initial.len());
    let address = place(Variable {
        name: name.text,
        align,
        bytes,
        initial: &initial,
    })
    .map_err(|said| at(name, &said))?;
    let symbol = Symbol::Global(address);
    module
        .names
        .insert(name.text.to_owned(), Name::Memory(symbol));
    Ok(())
}

/// `.entry` has been taken: a kernel.
fn entry(
    words: &mut Words<'_>,
    mut scope: Scope,
    functions: &mut HashMap<String, Function>,
    shared: &[Instruction],
) -> Result<Kernel, String> {
    let name = words.must()?.text.to_owned();
    let parameters = parameters(words, &mut scope)?;
    // `.maxntid` and its like promise what we have no use for.
    words.until(&["{"])?;
    words.expect("{")?;
    let mut instructions = shared.to_vec();
    let entry = instructions.len();
    let mut body = Body::new(words, functions, &mut instructions);
    body.run(&mut scope)?;
    let fences = body.fences || functions.values().any(|function| function.fences);
    let reached = &mut instructions[entry..];
    body::link(reached, functions)?;
    Ok(Kernel {
        name,
        parameters,
        shared_bytes: scope.shared_bytes,
        registers: scope.registers,
        local_bytes: scope.local_bytes,
        fences,
        entry,
        instructions,
    })
}

/// The parameters of a kernel, as C would lay them.
fn parameters(words: &mut Words<'_>, scope: &mut Scope) -> Result<Vec<Parameter>, String> {
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut end = 0_usize;
    if !words.takes("(") {
        return Ok(parameters);
    }
    while !words.takes(")") {
        words.expect(".param")?;
        let (align, ty) = words.aligned_type()?;
        // What a pointer points to.
        if words.takes(".ptr") {
            while [".global", ".shared", ".const", ".local"]
                .iter()
                .any(|space| words.takes(space))
            {}
            if words.takes(".align") {
                words.number()?;
            }
        }
        let token = words.must()?;
        let count = words.count()?;
        let count = count.ok_or_else(|| at(token, "a parameter of no size"))?;
        let offset = end.next_multiple_of(align.max(1));
        let bytes = usize::from(ty.bytes()) * count;
        end = offset + bytes;
        let symbol = Symbol::Parameter(offset as u64);
        scope
            .names
            .insert(token.text.to_owned(), Name::Memory(symbol));
        parameters.push(Parameter {
            name: token.text.to_owned(),
            offset,
            bytes,
        });
        words.takes(",");
    }
    Ok(parameters)
}
