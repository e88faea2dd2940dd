//! The XML of S3's answers: as much of it as a list of objects and an error have. It knows neither attributes nor namespaces.

/// Deepest nesting.
const DEPTH: usize = 8;
/// Names in an answer, at most: S3 sends 1000.
const NAMES: usize = 10_000;

/// Names in a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// With the bytes in each object, in the order in which they came.
    pub names: Vec<(String, u64)>,
    /// Whether there are more behind them.
    pub more: bool,
}

/// An answer to ListObjectsV2; `None` if it is none.
pub fn page(xml: &[u8]) -> Option<Page> {
    let mut page = Page::default();
    let (mut is_list, mut key, mut len) = (false, None, 0);
    walk(xml, |path, text| {
        match path {
            ["ListBucketResult", "Contents", "Key"] => key = Some(text),
            ["ListBucketResult", "Contents", "Size"] => len = text.trim().parse().ok()?,
            ["ListBucketResult", "Contents"] => {
                if page.names.len() == NAMES {
                    return None;
                }
                page.names.push((key.take()?, std::mem::take(&mut len)));
            }
            ["ListBucketResult", "IsTruncated"] => {
                page.more = match text.trim() {
                    "true" => true,
                    "false" => false,
                    _ => return None,
                }
            }
            ["ListBucketResult"] => is_list = true,
            _ => {}
        }
        Some(())
    })?;
    is_list.then_some(page)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_its_names_and_whether_there_are_more() {
        let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                   <Name>b</Name><Prefix/><IsTruncated>true</IsTruncated><Contents><Key>a&amp;b&#xFC;&#33;</Key><Size>3</Size></Contents>\n\
                   <Contents><Key>l/1</Key><Owner><ID>x</ID></Owner></Contents><CommonPrefixes><Prefix>no</Prefix></CommonPrefixes></ListBucketResult>\n";
        assert_eq!(
            page(xml.as_bytes()),
            Some(Page { names: vec![("a&bü!".into(), 3), ("l/1".into(), 0)], more: true })
        );
        let none = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
        assert_eq!(page(none), Some(Page::default()));
    }

    #[test]
    fn what_is_no_list_is_told() {
        for bad in [
            "",
            "text",
            "<html></html>",
            "<ListBucketResult>",
            "<ListBucketResult></Other>",
            "<ListBucketResult></ListBucketResult>text",
            "<ListBucketResult></ListBucketResult",
            "<ListBucketResult><IsTruncated>yes</IsTruncated></ListBucketResult>",
            "<ListBucketResult><Contents><Key>&unknown;</Key></Contents></ListBucketResult>",
            "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
            "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
            "<!DOCTYPE a><ListBucketResult></ListBucketResult>",
            "<a><a><a><a><a><a><a><a><a></a></a></a></a></a></a></a></a></a>",
        ] {
            assert_eq!(page(bad.as_bytes()), None, "{bad}");
        }
        let error = b"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>The key</Message></Error>";
        assert_eq!(error_code(error).as_deref(), Some("NoSuchKey"));
        assert_eq!(page(error), None);
        assert_eq!(error_code(b"<Error></Error>"), None);
    }
}
