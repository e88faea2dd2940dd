//! The values by which the body of a function is replaced, for each type that it may return.
//!
//! The rules are those of cargo-mutants, so that the numbers can be compared.

use quote::ToTokens;
use syn::{GenericArgument, Path, PathArguments, ReturnType, Type, TypeParamBound};

const UNSIGNED: [&str; 6] = ["u8", "u16", "u32", "u64", "u128", "usize"];
const SIGNED: [&str; 6] = ["i8", "i16", "i32", "i64", "i128", "isize"];
const CONTAINERS: [&str; 6] = ["Box", "Cell", "RefCell", "Arc", "Rc", "Mutex"];
const COLLECTIONS: [&str; 5] = ["BinaryHeap", "BTreeSet", "HashSet", "LinkedList", "VecDeque"];

/// A tuple of many types has more values than anybody reads.
const MOST: usize = 16;

/// Returns values for what a function returns, as source text.
pub fn values(returned: &ReturnType) -> Vec<String> {
    let mut values = match returned {
        ReturnType::Default => vec!["()".into()],
        ReturnType::Type(_, kind) => of_type(kind),
    };
    values.truncate(MOST);
    values
}

fn of_type(kind: &Type) -> Vec<String> {
    match kind {
        Type::Path(kind) => of_path(&kind.path),
        Type::Array(array) => {
            let length = array.len.to_token_stream();
            each(of_type(&array.elem), |value| format!("[{value}; {length}]"))
        }
        Type::Slice(slice) => of_slice(&slice.elem),
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(kind) if kind.path.is_ident("str") => of_path(&kind.path),
            Type::Slice(slice) => of_slice(&slice.elem),
            other => each(of_type(other), |value| format!("Box::leak(Box::new({value}))")),
        },
        Type::Tuple(tuple) => of_tuple(tuple.elems.iter().map(of_type)),
        Type::ImplTrait(kind) => match kind.bounds.iter().find_map(item_of_iterator) {
            Some(item) => first(
                "::core::iter::empty()",
                each(of_type(item), |value| format!("::core::iter::once({value})")),
            ),
            None => Vec::new(),
        },
        Type::Never(_) => Vec::new(),
        Type::Paren(inner) => of_type(&inner.elem),
        _ => vec!["Default::default()".into()],
    }
}

fn of_path(path: &Path) -> Vec<String> {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
    let Some(last) = path.segments.last() else { return Vec::new() };
    let name = last.ident.to_string();
    let name = name.as_str();
    let alone = path.segments.len() == 1;
    let arguments = type_arguments(&last.arguments);
    match (name, arguments.as_slice()) {
        ("bool", []) if alone => texts(&["true", "false"]),
        ("String", []) if alone => texts(&["String::new()", "\"xyzzy\".into()"]),
        ("str", []) if alone => texts(&["\"\"", "\"xyzzy\""]),
        ("f32" | "f64", []) if alone => texts(&["0.0", "1.0", "-1.0"]),
        (name, []) if alone && UNSIGNED.contains(&name) => texts(&["0", "1"]),
        (name, []) if alone && SIGNED.contains(&name) => texts(&["0", "1", "-1"]),
        (name, _) if name.starts_with("NonZero") => {
            let one = "1.try_into().unwrap()";
            match name.starts_with("NonZeroI") {
                true => texts(&[one, "(-1).try_into().unwrap()"]),
                false => texts(&[one]),
            }
        }
        ("Result", []) => texts(&["Ok(Default::default())"]),
        ("Result", [ok, ..]) => each(of_type(ok), |value| format!("Ok({value})")),
        ("Option", [some]) => first("None", each(of_type(some), |value| format!("Some({value})"))),
        ("Vec", [element, ..]) => first("vec![]", each(of_type(element), |value| format!("vec![{value}]"))),
        ("Cow", [borrowed]) => of_type(borrowed)
            .into_iter()
            .flat_map(|value| [format!("Cow::Borrowed({value})"), format!("Cow::Owned({value}.to_owned())")])
            .collect(),
        (name, [inner]) if CONTAINERS.contains(&name) => {
            each(of_type(inner), |value| format!("{name}::new({value})"))
        }
        (name, [inner]) if COLLECTIONS.contains(&name) => {
            let empty = format!("{name}::new()");
            first(&empty, each(of_type(inner), |value| format!("{name}::from_iter([{value}])")))
        }
        ("BTreeMap" | "HashMap", [key, value]) => {
            let pairs = of_tuple([of_type(key), of_type(value)].into_iter());
            first(&format!("{name}::new()"), each(pairs, |pair| format!("{name}::from_iter([{pair}])")))
        }
        (name, [inner]) => {
            let made = of_type(inner).into_iter().flat_map(|value| {
                let from_iter = format!("{name}::from_iter([{value}])");
                [from_iter, format!("{name}::new({value})"), format!("{name}::from({value})")]
            });
            first(&format!("{name}::new()"), made.collect())
        }
        _ => texts(&["Default::default()"]),
    }
}

fn of_slice(element: &Type) -> Vec<String> {
    first("Vec::leak(Vec::new())", each(of_type(element), |value| format!("Vec::leak(vec![{value}])")))
}

fn of_tuple(parts: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let mut count = 0;
    let rows = parts.fold(vec![String::new()], |rows, part| {
        count += 1;
        let extended = rows.iter().flat_map(|row| {
            let comma = if count == 1 { "" } else { ", " };
            part.iter().map(move |value| format!("{row}{comma}{value}"))
        });
        extended.collect()
    });
    let end = if count == 1 { "," } else { "" };
    each(rows, |row| format!("({row}{end})"))
}

fn each(values: Vec<String>, wrap: impl Fn(&str) -> String) -> Vec<String> {
    values.iter().map(|value| wrap(value)).collect()
}

fn first(value: &str, mut others: Vec<String>) -> Vec<String> {
    others.insert(0, value.into());
    others
}

fn type_arguments(arguments: &PathArguments) -> Vec<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return Vec::new() };
    let kinds = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(kind) => Some(kind),
        _ => None,
    });
    kinds.collect()
}

fn item_of_iterator(bound: &TypeParamBound) -> Option<&Type> {
    let TypeParamBound::Trait(bound) = bound else { return None };
    let last = bound.path.segments.last().filter(|last| last.ident == "Iterator")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::AssocType(item) if item.ident == "Item" => Some(&item.ty),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(source: &str) -> Vec<String> {
        values(&syn::parse_str(source).expect("a return type"))
    }

    #[test]
    fn values_are_of_the_type() {
        assert_eq!(of(""), ["()"]);
        assert_eq!(of("-> ()"), ["()"]);
        assert_eq!(of("-> bool"), ["true", "false"]);
        assert_eq!(of("-> i8"), ["0", "1", "-1"]);
        assert_eq!(of("-> Result<Option<u8>, Error>"), ["Ok(None)", "Ok(Some(0))", "Ok(Some(1))"]);
        assert_eq!(of("-> fmt::Result"), ["Ok(Default::default())"]);
        assert_eq!(of("-> [u8; N]"), ["[0; N]", "[1; N]"]);
        assert_eq!(of("-> (bool, Thing)"), ["(true, Default::default())", "(false, Default::default())"]);
        assert_eq!(of("-> &[bool]").len(), 3);
        assert_eq!(of("-> impl Iterator<Item = bool> + '_").len(), 3);
        assert_eq!(of("-> impl Read"), [""; 0]);
        assert_eq!(of("-> !"), [""; 0]);
    }
}
