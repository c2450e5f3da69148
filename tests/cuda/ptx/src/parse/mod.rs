//! Parses tokens to kernels: the declarations of a module and its functions.

mod body;
mod stream;

use crate::instruction::Instruction;
use crate::operands::{Name, Scope, Symbol, parse_float, parse_integer};
use crate::{Kernel, Parameter, Variable};

use body::{Body, Functions};
use stream::{TokenStream, error_at};

/// The position of a function, just after `.func` or `.entry`.
struct Found {
    at: usize,
    is_entry: bool,
}

/// Parses all kernels of a text. `place` returns the address of each variable in global or constant memory.
///
/// # Errors
/// The text is invalid or not supported; the message has the line.
pub fn parse(
    text: &str,
    place: &mut dyn FnMut(Variable<'_>) -> Result<u64, String>,
) -> Result<Vec<Kernel>, String> {
    let mut words = TokenStream::new(text)?;
    let mut module = Scope::default();
    let found = declarations(&mut words, &mut module, place)?;
    // Functions are parsed before kernels, in whatever order the text has them, so that their registers and
    // instructions have the same numbers in all kernels.
    let mut functions = Functions::new();
    let (mut shared, mut calls) = (Vec::new(), Vec::new());
    let mut scope = Scope {
        in_function: true,
        ..module.clone()
    };
    for found in found.iter().filter(|found| !found.is_entry) {
        words.at = found.at;
        let mut body = Body::new(&mut words, &mut shared);
        // The names of one function are not visible in others.
        scope.names.clone_from(&module.names);
        body.function(&mut scope, &mut functions)?;
        calls.append(&mut body.calls);
    }
    body::link(&mut shared, &calls, &functions)?;
    let mut kernels = Vec::new();
    for found in found.iter().filter(|found| found.is_entry) {
        words.at = found.at;
        let scope = Scope {
            names: module.names.clone(),
            in_function: false,
            ..scope.clone()
        };
        kernels.push(entry(&mut words, scope, &functions, &shared)?);
    }
    Ok(kernels)
}

/// Parses the declarations of a module, and skips the bodies of functions.
fn declarations(
    words: &mut TokenStream<'_>,
    module: &mut Scope,
    place: &mut dyn FnMut(Variable<'_>) -> Result<u64, String>,
) -> Result<Vec<Found>, String> {
    let mut found = Vec::new();
    while let Some(token) = words.next() {
        match token.text {
            // Directives without effect here.
            ".version" | ".target" | ".address_size" | ".file" | ".loc" | ".pragma" => {
                words.skip_line(token.line);
            }
            ".visible" | ".weak" | ".extern" | ".common" => {}
            // Debug information.
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
                if !words.accept(";") {
                    words.skip_braces()?;
                }
            }
            other => {
                return Err(error_at(
                    token,
                    &format!("unsupported directive `{other}` outside of a kernel"),
                ));
            }
        }
    }
    Ok(found)
}

/// Parses a declaration after `.shared`.
fn shared(words: &mut TokenStream<'_>, scope: &mut Scope) -> Result<(), String> {
    let (align, ty) = words.aligned_type()?;
    let name = words.expect_any()?.text.to_owned();
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

/// Parses a declaration after `.global` or `.const`.
fn variable(
    words: &mut TokenStream<'_>,
    module: &mut Scope,
    place: &mut dyn FnMut(Variable<'_>) -> Result<u64, String>,
) -> Result<(), String> {
    let (align, ty) = words.aligned_type()?;
    let name = words.expect_any()?;
    let size = usize::from(ty.bytes());
    let count = words.count()?;
    let mut initial = Vec::new();
    if words.accept("=") {
        let mut negative = false;
        // Nested braces are rows of an array.
        for token in words.until(&[";"])? {
            if matches!(token.text, "{" | "}" | "," | "-") {
                negative = token.text == "-";
                continue;
            }
            let value = match ty.is_float() {
                true => parse_float(ty.bytes(), token.text),
                false if std::mem::take(&mut negative) => {
                    parse_integer(token.text).map(u64::wrapping_neg)
                }
                false => parse_integer(token.text),
            };
            let value = value.filter(|_| !negative);
            let value = value.ok_or_else(|| {
                error_at(token, &format!("`{}` is not a value of {ty:?}", token.text))
            })?;
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
    .map_err(|message| error_at(name, &message))?;
    let symbol = Symbol::Global(address);
    module
        .names
        .insert(name.text.to_owned(), Name::Memory(symbol));
    Ok(())
}

/// Parses a kernel after `.entry`.
fn entry(
    words: &mut TokenStream<'_>,
    mut scope: Scope,
    functions: &Functions,
    shared: &[Instruction],
) -> Result<Kernel, String> {
    let name = words.expect_any()?.text.to_owned();
    let parameters = parameters(words, &mut scope)?;
    // Performance directives such as `.maxntid` have no effect here.
    words.until(&["{"])?;
    words.expect("{")?;
    let mut instructions = shared.to_vec();
    let entry = instructions.len();
    let mut body = Body::new(words, &mut instructions);
    body.run(&mut scope)?;
    let calls = body.calls;
    body::link(&mut instructions, &calls, functions)?;
    Ok(Kernel {
        name,
        parameters,
        shared_bytes: scope.shared_bytes,
        registers: scope.registers,
        local_bytes: scope.local_bytes,
        entry,
        instructions,
    })
}

/// Parses the parameters of a kernel, with the layout of a C struct.
fn parameters(words: &mut TokenStream<'_>, scope: &mut Scope) -> Result<Vec<Parameter>, String> {
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut end = 0_usize;
    if !words.accept("(") {
        return Ok(parameters);
    }
    while !words.accept(")") {
        words.expect(".param")?;
        let (align, ty) = words.aligned_type()?;
        // Attributes of a pointer.
        if words.accept(".ptr") {
            while [".global", ".shared", ".const", ".local"]
                .iter()
                .any(|space| words.accept(space))
            {}
            if words.accept(".align") {
                words.number()?;
            }
        }
        let token = words.expect_any()?;
        let count = words.count()?;
        let count = count.ok_or_else(|| error_at(token, "the parameter has no size"))?;
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
        words.accept(",");
    }
    Ok(parameters)
}
