//! Changes of expressions: operators, signs, match arms, fields.

use proc_macro2::Span;
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary, Pat, Token, UnOp};

use super::search::Search;
use crate::mutant::Class;

/// Returns the text that makes a function return at once.
pub(super) fn returning(value: &str) -> [String; 2] {
    let open = format!("if ::atrest_mutant::on(@) {{ use ::atrest_mutant::values::*; return {value}; }} ");
    [open, String::new()]
}

/// Returns the text that leaves a statement out.
pub(super) fn left_out() -> [String; 2] {
    ["if !::atrest_mutant::on(@) { ".into(), " }".into()]
}

/// Returns the text that makes of an expression another one. The original stands first, so that types are inferred from it.
fn instead(other: &str) -> [String; 2] {
    ["(if !::atrest_mutant::on(@) {(".into(), format!(")}} else {{{other}}})")]
}

/// Other binary operators. `<=` is not made of `==`: with unsigned numbers and zero that is the same.
pub(super) fn binary(search: &mut Search, expression: &ExprBinary) {
    if holds_let(&expression.left) || holds_let(&expression.right) {
        return;
    }
    let (left, right) = (expression.left.to_token_stream(), expression.right.to_token_stream());
    let range = joined(expression.left.span(), expression.right.span());
    let present = search.text(&expression.op);
    for other in others(&expression.op) {
        let change = format!("replace {present} with {other}");
        let text = instead(&format!("({left}) {other} ({right})"));
        search.add(Class::Operator, expression.op.span().start(), change, range.clone(), text);
    }
}

fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Lt(_) => &["==", ">", "<="],
        BinOp::Gt(_) => &["==", "<", ">="],
        BinOp::Le(_) => &[">"],
        BinOp::Ge(_) => &["<"],
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) | BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["%", "*"],
        BinOp::Rem(_) => &["/", "+"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::BitAnd(_) => &["|", "^"],
        BinOp::BitOr(_) => &["&", "^"],
        BinOp::BitXor(_) => &["|", "&"],
        BinOp::AddAssign(_) => &["-=", "*="],
        BinOp::SubAssign(_) | BinOp::MulAssign(_) => &["+=", "/="],
        BinOp::DivAssign(_) => &["%=", "*="],
        BinOp::RemAssign(_) => &["/=", "+="],
        BinOp::ShlAssign(_) => &[">>="],
        BinOp::ShrAssign(_) => &["<<="],
        BinOp::BitAndAssign(_) => &["|="],
        BinOp::BitOrAssign(_) => &["&="],
        BinOp::BitXorAssign(_) => &["|=", "&="],
        _ => &[],
    }
}

/// Operands without their `!` or `-`.
pub(super) fn unary(search: &mut Search, expression: &ExprUnary) {
    let present = match expression.op {
        UnOp::Not(_) => "!",
        UnOp::Neg(_) => "-",
        _ => return,
    };
    let range = joined(expression.op.span(), expression.expr.span());
    let text = instead(&format!("({})", expression.expr.to_token_stream()));
    search.add(Class::Unary, expression.op.span().start(), format!("delete {present}"), range, text);
}

/// Match arms that are never taken, where another arm takes every value. cargo-mutants knows of `_` only.
pub(super) fn arms(search: &mut Search, expression: &ExprMatch) {
    let open = expression.arms.iter().filter(|arm| arm.guard.is_none());
    let catches_all = |pattern: &Pat| match pattern {
        Pat::Wild(_) => true,
        Pat::Ident(name) => name.subpat.is_none() && name.ident.to_string().starts_with(char::is_lowercase),
        _ => false,
    };
    let has_wildcard = open.clone().any(|arm| matches!(arm.pat, Pat::Wild(_)));
    if !open.clone().any(|arm| catches_all(&arm.pat)) {
        return;
    }
    for arm in open.filter(|arm| !catches_all(&arm.pat)) {
        let change = format!("delete match arm {}", search.text(&arm.pat));
        let end = arm.pat.span().byte_range().end;
        let text = [" if !::atrest_mutant::on(@)".into(), String::new()];
        search.beyond_classic(!has_wildcard, |search| {
            search.add(Class::Arm, arm.pat.span().start(), change, end..end, text);
        });
    }
}

/// Structures without one of their fields, which then comes from the base.
pub(super) fn fields(search: &mut Search, expression: &ExprStruct) {
    if expression.rest.is_none() {
        return;
    }
    for (index, field) in expression.fields.iter().enumerate() {
        let others = expression.fields.iter().enumerate().filter(|(other, _)| *other != index);
        let mut others: Punctuated<_, Token![,]> = others.map(|(_, field)| field.clone()).collect();
        if !others.empty_or_trailing() {
            others.push_punct(Default::default());
        }
        let other = ExprStruct { attrs: Vec::new(), fields: others, ..expression.clone() };
        let (name, structure) = (field.member.to_token_stream(), search.text(&expression.path));
        let change = format!("delete field {name} from struct {structure} expression");
        let text = instead(&format!("({})", other.to_token_stream()));
        search.add(Class::Field, field.span().start(), change, expression.span().byte_range(), text);
    }
}

/// Returns whether a condition binds something with `let`.
pub(super) fn holds_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary { left, op: BinOp::And(_), right, .. }) => {
            holds_let(left) || holds_let(right)
        }
        _ => false,
    }
}

fn joined(first: Span, last: Span) -> std::ops::Range<usize> {
    first.byte_range().start..last.byte_range().end
}
