//! Source in, mutants out; and what is written into the source is still Rust.

use super::in_source;
use crate::instrument::instrument;
use crate::mutant::Class;

/// Returns the names of the mutants of a function `f` with this body, without those of its value.
fn of_body(body: &str) -> Vec<String> {
    let mutants =
        in_source("x.rs", &format!("fn f(mut a: u8, b: u8) -> Thing {{\n{body}\n}}\n")).expect("it parses");
    let inner = mutants.iter().filter(|mutant| mutant.class != Class::Value);
    inner.map(|mutant| mutant.change.clone()).collect()
}

fn names(source: &str) -> Vec<String> {
    let mutants = in_source("x.rs", source).expect("it parses");
    mutants.iter().map(crate::mutant::Mutant::name).collect()
}

#[test]
fn bodies_are_replaced() {
    let source = "impl<T> Foo<T> {\n    fn is_odd(&self) -> bool {\n        self.odd\n    }\n}\n";
    let expected =
        ["true", "false"].map(|value| format!("x.rs:3:9: replace Foo<T>::is_odd -> bool with {value}"));
    assert_eq!(names(source), expected);
    assert_eq!(
        names("mod m { impl A for B { fn f(&self) { g() } } }"),
        ["x.rs:1:38: replace m::<impl A for B>::f with ()"]
    );
    assert_eq!(
        names("fn yes() -> bool { true }"),
        ["x.rs:1:20: replace yes -> bool with false"],
        "true is no change"
    );
}

#[test]
fn operators_are_replaced() {
    assert_eq!(of_body("a + b"), ["replace + with -", "replace + with *"]);
    assert_eq!(of_body("a <= b"), ["replace <= with >"]);
    assert_eq!(of_body("a <<= b;"), ["replace <<= with >>="]);
    assert_eq!(of_body("f(!a)"), ["delete !"]);
    assert_eq!(of_body("a == -1"), ["replace == with !=", "delete -"]);
}

#[test]
fn conditions_are_fixed() {
    assert_eq!(
        of_body("if a.odd() { b }"),
        ["replace if condition a.odd() with false", "replace if condition a.odd() with true"]
    );
    assert_eq!(of_body("while a.odd() {}"), ["replace while condition a.odd() with false"]);
    assert_eq!(
        of_body("if let Some(c) = a && c.odd() {}"),
        [
            "replace if condition let Some(c) = a && c.odd() with false",
            "replace if condition c.odd() with true"
        ]
    );
}

#[test]
fn arms_and_guards_of_matches() {
    assert_eq!(
        of_body("match a { 1 if g() => 2, 3 | 4 => 5, _ => 6 }"),
        ["delete match arm 3 | 4", "replace match guard g() with false", "replace match guard g() with true"]
    );
    assert_eq!(of_body("match a { 1 => 2, other => other }"), ["delete match arm 1"]);
    assert_eq!(of_body("match a { Ok(_) => 2, Err(_) => 3, }"), [""; 0]);
    let classic =
        |body: &str| in_source("x.rs", &format!("fn f() {{ {body} }}")).expect("it parses")[1].classic;
    assert!(classic("match a { 1 => 2, _ => 3 }"));
    assert!(!classic("match a { 1 => 2, other => other }"), "cargo-mutants looks for `_` only");
}

#[test]
fn fields_come_from_the_base() {
    let source = "fn f() -> T { T { a: 1, b, ..base() } }";
    let mutants = in_source("x.rs", source).expect("it parses");
    assert_eq!(mutants[1].change, "delete field a from struct T expression");
    let text = instrument(source, &[&mutants[1]]).text;
    let on = "::atrest_mutant::on(0)";
    assert_eq!(
        text,
        format!(
            "fn f() -> T {{ (if !{on} {{(T {{ a: 1, b, ..base() }})}} else {{(T {{ b , .. base () }})}}) }}"
        )
    );
    assert_eq!(of_body("T { a, b: 2 }"), [""; 0]);
}

#[test]
fn statements_are_deleted() {
    assert_eq!(
        of_body("wipe(x)?; x.zeroize(); let _ = f(); _ = f(); r?; self.a = c; let y = f(); m!(); 3;"),
        [
            "delete statement wipe(x)?;",
            "delete statement x.zeroize();",
            "delete statement let _ = f();",
            "delete statement _ = f();",
            "delete statement r?;",
            "delete assignment self.a = c;"
        ]
    );
}

#[test]
fn constants_tests_and_texts_for_people_are_left_alone() {
    for source in [
        "const A: u8 = 1 + 2;",
        "static A: u8 = { f(); 1 + 2 };",
        "enum E { A = 1 + 2 }",
        "#[test] fn f() { g() }",
        "#[cfg(test)] mod m { fn f() { g() } }",
        "#[cfg(windows)] fn f() { g() }",
        "#![cfg(windows)] fn f() { g() }",
        "impl fmt::Debug for A { fn fmt(&self) -> bool { 1 < 2 } }",
        "fn f() {}",
    ] {
        assert_eq!(names(source), [""; 0], "{source}");
    }
    for body in
        ["[0; 1 + 2]", "const { 1 + 2 }", "f::<{ 1 + 2 }>(a)", "m!(1 + 2)", "let 1..2 = a else { b };"]
    {
        assert_eq!(of_body(body), [""; 0], "{body}");
    }
    assert!(
        in_source("x.rs", "impl A { fn new() -> A { A(1 + 2) } }")
            .is_ok_and(|found| { found.len() == 2 && found.iter().all(|mutant| !mutant.classic) })
    );
}

#[test]
fn the_source_with_all_mutants_is_rust() {
    let source = r#"
        impl A {
            #[inline]
            fn f(&mut self, x: Option<u8>, y: u8) -> Result<(), E> {
                // A comment.
                if let Some(z) = x && z < y && !self.odd(z) { self.wipe(); }
                while let Some(p @ 1..) = self.next() { self.sum += p * 2 - 1 }
                let c = match y { 1 if self.a || self.b => |n| n << 3, 2 | 3 => |n| -n, _ => |n| unsafe { g(n) } == 0 };
                self.left = c(y)?; // Another one.
                loop { break }
                -self.end as u8 == y
            }
        }
    "#;
    let mut mutants = in_source("x.rs", source).expect("it parses");
    (1..).zip(&mut mutants).for_each(|(id, mutant)| mutant.id = id);
    let instrumented = instrument(source, &mutants.iter().collect::<Vec<_>>());
    syn::parse_file(&instrumented.text).unwrap_or_else(|error| panic!("{error}:\n{}", instrumented.text));
    assert!(mutants.len() > 25, "{}", mutants.len());
    for (mutant, place) in mutants.iter().zip(&instrumented.places) {
        let own = &instrumented.text[place.open.clone()];
        let other = &instrumented.text[place.close.clone()];
        assert!(own.contains(&format!("::on({})", mutant.id)), "{own}");
        assert!(!other.contains("::on("), "{other}");
        assert!(instrumented.text[place.body.clone()].ends_with('}'));
        assert!(place.body.start < place.open.start && place.close.end <= place.body.end);
    }
}

#[test]
fn a_function_with_mutants_is_not_const() {
    let source = "pub const fn f() -> bool { 1 < A } const fn g() {}";
    let mutants = in_source("x.rs", source).expect("it parses");
    let text = instrument(source, &mutants.iter().collect::<Vec<_>>()).text;
    assert!(text.starts_with("pub       fn f()") && text.ends_with("const fn g() {}"), "{text}");
}

#[test]
fn the_inner_mutant_stands_inside_the_outer_one() {
    let source = "fn f() { if a < b { g(); } }";
    let mut mutants = in_source("x.rs", source).expect("it parses");
    mutants.retain(|mutant| matches!(mutant.class, Class::Condition | Class::Operator));
    mutants.truncate(3);
    (1..).zip(&mut mutants).for_each(|(id, mutant)| mutant.id = id);
    let text = instrument(source, &mutants.iter().collect::<Vec<_>>()).text;
    let on = "::atrest_mutant::on";
    let compared = format!("(if !{on}(3) {{(a < b)}} else {{(a) == (b)}})");
    assert_eq!(text, format!("fn f() {{ if (!{on}(1) && (({on}(2) || ({compared})))) {{ g(); }} }}"));
}
