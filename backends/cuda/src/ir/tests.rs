//! The text of printed functions.

use super::*;

#[test]
fn any_name_becomes_a_c_identifier() {
    assert_eq!(entry_name("a+b * \u{e9}"), "ms_a_b____");
    assert_eq!(entry_name(""), "ms_");
}

/// Returns the lines of a function of 64 threads, after the prelude.
fn printed(head: &str, body: &str, is_exclusive: bool) -> Vec<String> {
    let text = format!("kernel k threads 64 1 1{head} {{ {body} }}");
    let function = millstream_ir::ssa::parse(&text).expect("the text is a function");
    function.check().expect("the function is valid");
    let mut text = String::new();
    print::print(&mut text, "k", &function, is_exclusive).expect("a string has room");
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// Floats have the operators of C, which the compiler contracts. All else stays.
#[test]
fn only_functions_that_may_contract_have_operators_that_the_compiler_contracts() {
    let arithmetic = |contract: &str| {
        let head = format!("{contract}  update x: f32  update y: f64  update z: i32");
        let body = "%0: f32 = load x  %1: f32 = mul %0 %0  %2: f32 = add %1 %0  store x = %2
            %3: f64 = load y  %4: f64 = mul %3 %3  %5: f64 = sub %4 %3  store y = %5
            %6: i32 = load z  %7: i32 = mul %6 %6  %8: i32 = add %7 %6  store z = %8
            %9: f32 = div %0 %2  store x = %9";
        let mut lines = printed(&head, body, false);
        let signs = ["mul", "add", "sub", " * ", " + ", " - "];
        lines.retain(|line| signs.iter().any(|sign| line.contains(sign)));
        lines
    };
    let of_integers = [
        "const i32 v7 = ms::mul(v6, v6);",
        "const i32 v8 = ms::add(v7, v6);",
    ];
    let exact = [
        "const f32 v1 = ms::mul(v0, v0);",
        "const f32 v2 = ms::add(v1, v0);",
        "const f64 v4 = ms::mul(v3, v3);",
        "const f64 v5 = ms::sub(v4, v3);",
    ];
    assert_eq!(arithmetic(""), [&exact[..], &of_integers].concat());
    let contracted = [
        "const f32 v1 = v0 * v0;",
        "const f32 v2 = v1 + v0;",
        "const f64 v4 = v3 * v3;",
        "const f64 v5 = v4 - v3;",
    ];
    let expected = [&contracted[..], &of_integers].concat();
    assert_eq!(arithmetic(" contract"), expected);
}

#[test]
fn a_loop_counts_in_a_type_of_32_bits_that_has_both_ends() {
    let cases = [
        ("u32", "%1: i64 = const 0", "u32"),
        ("u8", "%1: i64 = const 0", "i32"),
        ("i32", "%1: i64 = const -3", "i32"),
        ("u32", "%1: i64 = const -3", "i64"),
        ("i32", "%1: i64 = const 2147483648", "i64"),
        ("u32", "%1: i64 = cube x", "i64"),
        ("u64", "%1: i64 = const 0", "i64"),
        // Infinity saturates.
        ("f16", "%1: i64 = const 0", "i64"),
    ];
    for (end, start, expected) in cases {
        let head = format!("  update x: i64  scalar n: {end}");
        let body = format!(
            "%0: {end} = scalar n  {start}  %2: i64 = cast %0  %3: i64 = const 1
             for %4 in %1 .. %2 step %3 {{ store x = %4 }}"
        );
        let lines = printed(&head, &body, false);
        let expected = match expected {
            "i64" => "for (i64 v4 = v1; v4 < v2; v4 += v3) {".to_owned(),
            of => format!("for ({of} tv4 = v1, nv4 = v2; tv4 < nv4; tv4 += 1) {{"),
        };
        assert!(lines.contains(&expected), "{end}, {start}: {lines:#?}");
    }
}

/// The last index is below the end, so adding the step of 64 does not overflow up to the first of these ends.
#[test]
fn a_step_that_cannot_exceed_the_type_is_added() {
    let cases = [
        ("9223372036854775744", "v6 += v3"),
        ("9223372036854775745", "v6 = ms::next(v6, v3, v5)"),
    ];
    for (most, next) in cases {
        let body = format!(
            "%0: i64 = scalar n  %1: i64 = scalar m  %2: i64 = threads x  %7: i64 = const 1
             %3: i64 = mul %2 %7  %4: i64 = const {most}  %5: i64 = min %1 %4
             for %6 in %0 .. %5 step %3 {{ store x = %6 }}"
        );
        let head = "  update x: i64  scalar n: i64  scalar m: i64";
        let lines = printed(head, &body, false);
        let expected = format!("for (i64 v6 = v0; v6 < v5; {next}) {{");
        assert!(lines.contains(&expected), "{lines:#?}");
    }
}

/// Threads may communicate through the others.
#[test]
fn only_buffers_that_are_read_are_known_not_to_change() {
    for (is_exclusive, restrict) in [(true, " __restrict__"), (false, "")] {
        let head = "  read x: f32  write y: f32  update z: f32";
        let lines = printed(head, "", is_exclusive);
        let expected = format!("k(const f32*{restrict} p0, f32* p1, f32* p2) {{");
        assert!(
            lines.iter().any(|line| line.ends_with(&expected)),
            "{lines:#?}"
        );
    }
}

#[test]
fn a_swap_whose_result_is_not_used_is_a_store() {
    let body = "%0: i64 = thread x  %1: u32 = const 7
        %2: u32 = atomic swap x[%0] %1  %3: u32 = atomic swap x[%0] %2";
    let lines = printed("  update x: u32", body, false);
    assert!(lines.contains(&"const u32 v2 = ms::atomic_swap(&p0[v0], v1);".to_owned()));
    assert!(
        lines.contains(&"ms::atomic_store(&p0[v0], v2);".to_owned()),
        "{lines:#?}"
    );
}
