//! What the URLs of all clouds have: a place, and a prefix below it.

/// Longest prefix, so that every name of an object stays below the 1024 bytes or letters that each cloud takes.
const MAX_PREFIX: usize = 900;

/// The place and the prefix in what stands behind a scheme. The prefix is empty or ends with a slash, which may be left out. `None` if there is
/// no place, or if the prefix is longer than 900 bytes or has a part that is not `fine`.
pub(crate) fn parts(rest: &str, fine: impl Fn(&str) -> bool) -> Option<(&str, String)> {
    let (place, prefix) = rest.split_once('/').unwrap_or((rest, "")); // intended: no slash, no prefix.
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix); // intended: the slash may be left out.
    if place.is_empty() || prefix.len() > MAX_PREFIX {
        return None;
    }
    match prefix {
        "" => Some((place, String::new())),
        prefix => prefix.split('/').all(fine).then(|| (place, format!("{prefix}/"))),
    }
}

/// Whether S3 and Google take a part of a name.
pub(crate) fn is_part(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.chars().any(char::is_control)
}
