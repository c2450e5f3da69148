//! Writes the list of all tests, the macro `__list`: each `pub(crate)` function of a module of `suite`, with the needs
//! that its comment names.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

const HEAD: &str = "#[doc(hidden)] #[macro_export] macro_rules! __list {
    ($then:ident $context:tt) => { $crate::$then! { $context";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=src/suite");
    let mut list = HEAD.to_owned();
    let modules = fs::read_to_string("src/suite/mod.rs")?;
    let modules = modules.lines().filter_map(|line| {
        let module = line.strip_prefix("pub(crate) mod ")?;
        module.strip_suffix(';')
    });
    for module in modules {
        list += &format!("\n{module} {{");
        let mut needs = String::new();
        for line in fs::read_to_string(format!("src/suite/{module}.rs"))?.lines() {
            if let Some(named) = line.strip_prefix("/// Needs: ") {
                needs = format!(" [{}]", named.trim_end_matches('.'));
            } else if let Some(function) = line.strip_prefix("pub(crate) fn ") {
                let (test, _) = function.split_once('(').ok_or(function)?;
                list += &format!("\n{test}{needs};");
                needs.clear();
            }
        }
        list += "\n}";
    }
    list += "\n} }; }\n";
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    Ok(fs::write(folder.join("list.rs"), list)?)
}
