//! What is not searched: tests, and code that is not compiled for this machine.

use std::env::consts::{ARCH, OS};

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Lit, Meta, Token};

/// Returns whether attributes say that what they belong to is a test or is not compiled here.
pub fn attributes(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let is_test = path.segments.last().is_some_and(|last| last.ident == "test");
        let excluded = path.is_ident("cfg")
            && attribute.parse_args::<Meta>().is_ok_and(|predicate| holds(&predicate) == Some(false));
        is_test || excluded
    })
}

/// Returns whether a predicate of `cfg` holds, or `None` where that can't be told. Features count as chosen.
fn holds(predicate: &Meta) -> Option<bool> {
    let path = predicate.path();
    match predicate {
        Meta::Path(_) if path.is_ident("test") || path.is_ident("windows") || path.is_ident("miri") => {
            Some(false)
        }
        Meta::Path(_) if path.is_ident("unix") => Some(true),
        Meta::Path(_) => None,
        Meta::NameValue(pair) => {
            let Expr::Lit(value) = &pair.value else { return None };
            let Lit::Str(value) = &value.lit else { return None };
            let value = value.value();
            match path.get_ident()?.to_string().as_str() {
                "target_os" => Some(value == OS),
                "target_arch" => Some(value == ARCH),
                "target_pointer_width" => Some(value == usize::BITS.to_string()),
                "feature" => Some(true),
                _ => None,
            }
        }
        Meta::List(list) => {
            let inner = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
            let inner: Vec<_> = inner.iter().map(holds).collect();
            // One value decides; the other one is the result only if all have it.
            let decided_by = |decisive: bool| match inner.contains(&Some(decisive)) {
                true => Some(decisive),
                false => inner.iter().all(Option::is_some).then_some(!decisive),
            };
            match path.get_ident()?.to_string().as_str() {
                "not" => inner.first()?.map(|holds| !holds),
                "all" => decided_by(false),
                "any" => decided_by(true),
                _ => None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(attribute: Attribute) -> bool {
        attributes(&[attribute])
    }

    #[test]
    fn tests_are_skipped() {
        assert!(skipped(syn::parse_quote!(#[test])));
        assert!(skipped(syn::parse_quote!(#[cfg(test)])));
        assert!(skipped(syn::parse_quote!(#[cfg(all(test, feature = "std"))])));
        assert!(!skipped(syn::parse_quote!(#[cfg(not(test))])));
        assert!(!skipped(syn::parse_quote!(#[cfg(any(test, feature = "std"))])));
    }

    #[test]
    fn other_machines_are_skipped() {
        assert!(skipped(syn::parse_quote!(#[cfg(windows)])));
        assert!(skipped(syn::parse_quote!(#[cfg(not(target_pointer_width = "64"))])));
        assert!(!skipped(syn::parse_quote!(#[cfg(unix)])));
        assert!(!skipped(syn::parse_quote!(#[cfg(some_flag)])), "nothing is known of it");
        assert!(!skipped(syn::parse_quote!(#[cfg(all(some_flag, unix))])));
        assert!(skipped(syn::parse_quote!(#[cfg(all(some_flag, windows))])));
    }
}
