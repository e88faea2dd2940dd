//! The XML of S3's lists.

use crate::xml::walk;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::error_code;

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
