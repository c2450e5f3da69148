//! Prints the header of `millstream-capi`: `cargo run --manifest-path bindings/c/header/Cargo.toml`.
//!
//! cbindgen reads the sources as text and expands no macro, so it gets copies with the functions of `exports!` written out.

use std::error::Error;
use std::fs;
use std::path::Path;

use quote::{ToTokens, quote};

/// Not `lib.rs`, which would run `cargo metadata`: the files, in the order of the header.
const MODULES: &str = "status opening device client stream cancel buffer types argument metadata kernel native launch \
                       pending record replay profile submission_log vulkan vulkan_sharing cuda metrics log";

fn main() -> Result<(), Box<dyn Error>> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let copies = std::env::temp_dir().join(format!("millstream-header-{}", std::process::id()));
    fs::create_dir(&copies)?;
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml"))?;
    let mut builder = cbindgen::Builder::new().with_config(config);
    for module in MODULES.split(' ') {
        let source = fs::read_to_string(package.join(format!("src/{module}.rs")))?;
        let copy = copies.join(format!("{module}.rs"));
        fs::write(&copy, written_out(&source)?)?;
        builder = builder.with_src(copy);
    }
    let header = builder.generate();
    fs::remove_dir_all(copies)?;
    header?.write(std::io::stdout());
    Ok(())
}

/// Returns a module with the functions of `exports!` as the macro writes them, without their bodies.
fn written_out(source: &str) -> syn::Result<String> {
    let mut written = String::new();
    for item in syn::parse_file(source)?.items {
        let functions = match &item {
            syn::Item::Macro(call) if call.mac.path.is_ident("exports") => {
                call.mac.parse_body::<syn::File>()?.items
            }
            _ => {
                written += &item.to_token_stream().to_string();
                continue;
            }
        };
        for function in functions {
            let syn::Item::Fn(syn::ItemFn { attrs, sig, .. }) = function else {
                return Err(syn::Error::new_spanned(function, "not a function"));
            };
            let (name, inputs) = (sig.ident, sig.inputs);
            let export = quote! {
                #(#attrs)* #[unsafe(no_mangle)] pub unsafe extern "C" fn #name(#inputs) -> ms_status {}
            };
            written += &export.to_string();
        }
    }
    Ok(written)
}
