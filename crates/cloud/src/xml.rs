//! The XML of S3's and Azure's answers: as much of it as a list of objects and an error have. It knows neither attributes nor namespaces.

/// Deepest nesting.
const DEPTH: usize = 8;

/// The code of an error.
pub(crate) fn error_code(xml: &[u8]) -> Option<String> {
    let mut code = None;
    walk(xml, |path, text| {
        if path == ["Error", "Code"] {
            code = Some(text);
        }
        Some(())
    })?;
    code
}

/// Tells each element when it ends: the names from the outermost one to it, and its own text.
pub(crate) fn walk(xml: &[u8], mut ended: impl FnMut(&[&str], String) -> Option<()>) -> Option<()> {
    let mut rest = core::str::from_utf8(xml).ok()?;
    let mut open: Vec<&str> = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        match texts.last_mut() {
            Some(own) => own.push_str(&decoded(text)?),
            None if text.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n']).is_empty() => {}
            None => return None,
        }
        if let Some(comment) = tag.strip_prefix("<!--") {
            rest = comment.split_once("-->")?.1;
            continue;
        }
        let (inner, after) = tag[1..].split_once('>')?; // It begins with '<'.
        rest = after;
        if inner.starts_with('?') {
            continue;
        }
        if let Some(name) = inner.strip_prefix('/') {
            let (own, text) = (open.last()?, texts.pop()?);
            if *own != name.trim_end() {
                return None;
            }
            ended(&open, text)?;
            open.pop();
            continue;
        }
        let is_empty = inner.ends_with('/');
        let name = inner.split([' ', '\t', '\r', '\n', '/']).next()?;
        if name.is_empty() || name.starts_with('!') || open.len() == DEPTH {
            return None;
        }
        open.push(name);
        if is_empty {
            ended(&open, String::new())?;
            open.pop();
        } else {
            texts.push(String::new());
        }
    }
    (open.is_empty() && rest.trim().is_empty()).then_some(())
}

/// Text with its references replaced.
fn decoded(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let (name, behind) = after.split_once(';')?;
        out.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => {
                let number = name.strip_prefix('#')?;
                let code = match number.strip_prefix('x') {
                    Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(code)?
            }
        });
        rest = behind;
    }
    out.push_str(rest);
    Some(out)
}
