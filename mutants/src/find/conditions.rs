//! Conditions that are always true or always false.

use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprBinary};

use super::changes::holds_let;
use super::search::Search;
use crate::mutant::Class;

/// The condition of an `if`.
pub(super) fn of_if(search: &mut Search, condition: &Expr) {
    never(search, Class::Condition, "if condition", condition);
    always(search, Class::Condition, "if condition", condition);
}

/// The condition of a `while`. Always true, it would only be a loop without an end.
pub(super) fn of_while(search: &mut Search, condition: &Expr) {
    never(search, Class::Condition, "while condition", condition);
}

/// The guard of a match arm.
pub(super) fn of_guard(search: &mut Search, guard: &Expr) {
    never(search, Class::Guard, "match guard", guard);
    always(search, Class::Guard, "match guard", guard);
}

fn never(search: &mut Search, class: Class, word: &str, condition: &Expr) {
    let change = format!("replace {word} {} with false", search.text(condition));
    let range = condition.span().byte_range();
    let text = match holds_let(condition) {
        // Such a chain can't stand in parentheses.
        true => ["!::atrest_mutant::on(@) && ".into(), String::new()],
        false => ["(!::atrest_mutant::on(@) && (".into(), "))".into()],
    };
    search.add(class, condition.span().start(), change, range, text);
}

/// What binds something can't be left out; each other part of the chain can.
fn always(search: &mut Search, class: Class, word: &str, condition: &Expr) {
    match condition {
        Expr::Let(_) => {}
        Expr::Binary(ExprBinary { left, op: BinOp::And(_), right, .. }) if holds_let(condition) => {
            always(search, class, word, left);
            always(search, class, word, right);
        }
        _ => {
            let change = format!("replace {word} {} with true", search.text(condition));
            let text = ["(::atrest_mutant::on(@) || (".into(), "))".into()];
            search.add(class, condition.span().start(), change, condition.span().byte_range(), text);
        }
    }
}
