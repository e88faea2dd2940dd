//! Walks through the syntax tree of a file and notes where a mutant can be.
//!
//! Constants, types, patterns and the insides of macros are left alone: the switch works at run time only, and macros
//! may do anything with their tokens. A `const fn` is searched, and is no longer `const` in the copy. Code of `Debug` and `Display` is for people, and no test should hold its words.

use std::ops::Range;

use proc_macro2::LineColumn;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Expr, Signature, Stmt};

use super::{changes, conditions, skip, values};
use crate::mutant::{Class, Edit, Mutant};

/// Names are shortened to this many characters of source.
const LONGEST: usize = 80;

/// Returns the mutants of a file that was parsed, in the order in which their edits are nested: outer ones first.
pub fn search(name: &str, source: &str, file: &syn::File) -> Vec<Mutant> {
    let mut search =
        Search { name, source, mutants: Vec::new(), names: Vec::new(), bodies: Vec::new(), classic: true };
    if !skip::attributes(&file.attrs) {
        search.visit_file(file);
    }
    search.mutants
}

/// The state of a walk through one file.
pub(super) struct Search<'s> {
    name: &'s str,
    source: &'s str,
    mutants: Vec<Mutant>,
    /// Modules, types and functions around the present place.
    names: Vec<String>,
    /// The bodies of the functions around it, each with the word `const` before the function.
    bodies: Vec<(Range<usize>, Option<Range<usize>>)>,
    /// Whether cargo-mutants looks here, too.
    classic: bool,
}

impl Search<'_> {
    /// Notes a mutant that is made by text before and behind `range`.
    pub(super) fn add(
        &mut self,
        class: Class,
        at: LineColumn,
        change: String,
        range: Range<usize>,
        text: [String; 2],
    ) {
        let Some((body, constant)) = self.bodies.last().cloned() else { return };
        let [open, close] = text;
        self.mutants.push(Mutant {
            id: 0,
            file: self.name.into(),
            line: at.line,
            column: at.column + 1,
            function: self.names.join("::"),
            class,
            classic: self.classic && class.is_classic(),
            change,
            source: self.source.lines().nth(at.line - 1).unwrap_or_default().trim().into(),
            edit: Edit { range, open, close },
            body,
            constant,
        });
    }

    /// Returns the source of a piece of the tree in one line, shortened.
    pub(super) fn text(&self, piece: &impl Spanned) -> String {
        let source = &self.source[piece.span().byte_range()];
        let line = source.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }

    /// Does something with the mutants that cargo-mutants would not make.
    pub(super) fn beyond_classic(&mut self, beyond: bool, then: impl FnOnce(&mut Self)) {
        let before = self.classic;
        self.classic &= !beyond;
        then(self);
        self.classic = before;
    }

    fn inside(&mut self, name: String, then: impl FnOnce(&mut Self)) {
        self.names.push(name);
        then(self);
        self.names.pop();
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, body: &Block, is_method: bool) {
        if skip::attributes(attributes) || body.stmts.is_empty() {
            return;
        }
        self.inside(signature.ident.to_string(), |search| {
            let constant = signature.constness.map(|word| word.span.byte_range());
            search.bodies.push((body.span().byte_range(), constant));
            let makes = is_method && signature.ident == "new";
            search.beyond_classic(makes || signature.unsafety.is_some(), |search| {
                if !makes {
                    search.returned_values(signature, body);
                }
                search.visit_block(body);
            });
            search.bodies.pop();
        });
    }

    fn returned_values(&mut self, signature: &Signature, body: &Block) {
        let Some(first) = body.stmts.first() else { return };
        let returned = match &signature.output {
            syn::ReturnType::Default => String::new(),
            output => format!(" {}", self.text(output)),
        };
        let present: String =
            body.stmts.iter().map(|statement| statement.to_token_stream().to_string()).collect();
        let at = first.span().byte_range().start;
        for value in values::values(&signature.output) {
            let same =
                value.parse().is_ok_and(|tokens: proc_macro2::TokenStream| tokens.to_string() == present);
            if !same {
                let change = format!("replace {}{returned} with {value}", self.names.join("::"));
                self.add(Class::Value, first.span().start(), change, at..at, changes::returning(&value));
            }
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        let (class, word) = match statement {
            Stmt::Expr(Expr::Assign(assign), Some(_)) if !matches!(*assign.left, Expr::Infer(_)) => {
                (Class::Assignment, "assignment")
            }
            Stmt::Expr(Expr::Assign(assign), Some(_)) if calls(&assign.right) => {
                (Class::Statement, "statement")
            }
            Stmt::Expr(expression, Some(_)) if calls(expression) => (Class::Statement, "statement"),
            Stmt::Local(local) if matches!(local.pat, syn::Pat::Wild(_)) => match &local.init {
                Some(init) if init.diverge.is_none() && calls(&init.expr) => (Class::Statement, "statement"),
                _ => return,
            },
            _ => return,
        };
        let change = format!("delete {word} {}", self.text(statement));
        self.add(class, statement.span().start(), change, statement.span().byte_range(), changes::left_out());
    }
}

/// Returns whether an expression does nothing but call something.
fn calls(expression: &Expr) -> bool {
    match expression {
        Expr::Call(_) | Expr::MethodCall(_) | Expr::Try(_) => true,
        Expr::Await(awaited) => calls(&awaited.base),
        Expr::Paren(inner) => calls(&inner.expr),
        _ => false,
    }
}

/// Returns the attributes of an expression that may be a statement.
fn attributes_of(expression: &Expr) -> &[Attribute] {
    match expression {
        Expr::Block(expression) => &expression.attrs,
        Expr::Unsafe(expression) => &expression.attrs,
        Expr::Call(expression) => &expression.attrs,
        Expr::MethodCall(expression) => &expression.attrs,
        Expr::If(expression) => &expression.attrs,
        Expr::Match(expression) => &expression.attrs,
        Expr::Return(expression) => &expression.attrs,
        Expr::Assign(expression) => &expression.attrs,
        Expr::Struct(expression) => &expression.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block, false);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block, true);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.attrs, &item.sig, body, true);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = self.text(&*item.self_ty);
        let named = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        let (name, last) = match (&item.trait_, named) {
            (Some((_, path, _)), Some(last)) => {
                (format!("<impl {} for {of}>", self.text(path)), last.ident.to_string())
            }
            _ => (of, String::new()),
        };
        if skip::attributes(&item.attrs) || ["Debug", "Display"].contains(&last.as_str()) {
            return;
        }
        self.inside(name, |search| {
            search.beyond_classic(last == "Default", |search| visit::visit_item_impl(search, item));
        });
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if !skip::attributes(&item.attrs) {
            self.inside(item.ident.to_string(), |search| visit::visit_item_trait(search, item));
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !skip::attributes(&item.attrs) {
            self.inside(item.ident.to_string(), |search| visit::visit_item_mod(search, item));
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Local(local) = statement
            && skip::attributes(&local.attrs)
        {
            return;
        }
        self.statement(statement);
        visit::visit_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        if !skip::attributes(attributes_of(expression)) {
            visit::visit_expr(self, expression);
        }
    }

    fn visit_expr_binary(&mut self, expression: &'ast syn::ExprBinary) {
        changes::binary(self, expression);
        visit::visit_expr_binary(self, expression);
    }

    fn visit_expr_unary(&mut self, expression: &'ast syn::ExprUnary) {
        changes::unary(self, expression);
        visit::visit_expr_unary(self, expression);
    }

    fn visit_expr_struct(&mut self, expression: &'ast syn::ExprStruct) {
        changes::fields(self, expression);
        visit::visit_expr_struct(self, expression);
    }

    fn visit_expr_if(&mut self, expression: &'ast syn::ExprIf) {
        conditions::of_if(self, &expression.cond);
        visit::visit_expr_if(self, expression);
    }

    fn visit_expr_while(&mut self, expression: &'ast syn::ExprWhile) {
        conditions::of_while(self, &expression.cond);
        visit::visit_expr_while(self, expression);
    }

    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        changes::arms(self, expression);
        visit::visit_expr_match(self, expression);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            conditions::of_guard(self, guard);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_repeat(&mut self, expression: &'ast syn::ExprRepeat) {
        // The length is a constant.
        self.visit_expr(&expression.expr);
    }

    // What is left alone.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
}
