//! The XML of Azure's answers: a list of blobs ("List Blobs", reference of the REST API).

use crate::xml::walk;

/// Names in an answer, at most: Azure sends 5000.
const NAMES: usize = 10_000;
/// Longest marker.
const MARKER: usize = 4096;

/// Names in a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// With the bytes in each blob, in the order in which they came.
    pub names: Vec<(String, u64)>,
    /// What the next page is asked for by, if there is one. It means nothing to us.
    pub marker: Option<String>,
}

/// An answer to List Blobs; `None` if it is none.
pub fn page(xml: &[u8]) -> Option<Page> {
    let mut page = Page::default();
    let (mut is_list, mut name, mut len) = (false, None, 0);
    walk(xml, |path, text| {
        match path {
            ["EnumerationResults", "Blobs", "Blob", "Name"] => name = Some(text),
            ["EnumerationResults", "Blobs", "Blob", "Properties", "Content-Length"] => {
                len = text.trim().parse().ok()?;
            }
            ["EnumerationResults", "Blobs", "Blob"] => {
                if page.names.len() == NAMES {
                    return None;
                }
                page.names.push((name.take()?, std::mem::take(&mut len)));
            }
            ["EnumerationResults", "NextMarker"] if text.len() > MARKER => return None,
            ["EnumerationResults", "NextMarker"] => page.marker = Some(text).filter(|text| !text.is_empty()),
            ["EnumerationResults"] => is_list = true,
            _ => {}
        }
        Some(())
    })?;
    is_list.then_some(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_its_names_and_a_marker_if_there_are_more() {
        let xml = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://a.blob.core.windows.net/\" \
                   ContainerName=\"disks\"><Prefix>l/</Prefix><MaxResults>2</MaxResults><Blobs><Blob><Name>a&amp;b&#xFC;</Name><Properties>\
                   <Content-Length>3</Content-Length><Etag>0x8</Etag></Properties><OrMetadata /></Blob>\
                   <Blob><Name>l/1</Name><Properties /></Blob><BlobPrefix><Name>no</Name></BlobPrefix></Blobs>\
                   <NextMarker>2!8!bC8y</NextMarker></EnumerationResults>";
        let names = vec![("a&bü".into(), 3), ("l/1".into(), 0)];
        assert_eq!(page(xml.as_bytes()), Some(Page { names, marker: Some("2!8!bC8y".into()) }));
        let none = b"<EnumerationResults><Blobs/><NextMarker /></EnumerationResults>";
        assert_eq!(page(none), Some(Page::default()));
    }

    #[test]
    fn what_is_no_list_is_told() {
        let long =
            format!("<EnumerationResults><NextMarker>{}</NextMarker></EnumerationResults>", "a".repeat(4097));
        for bad in [
            "",
            "<html></html>",
            "<EnumerationResults>",
            "<ListBucketResult></ListBucketResult>",
            "<EnumerationResults><Blobs><Blob><Properties/></Blob></Blobs></EnumerationResults>",
            "<EnumerationResults><Blobs><Blob><Name>a</Name><Properties><Content-Length>-1</Content-Length></Properties></Blob></Blobs></EnumerationResults>",
            "<Error><Code>BlobNotFound</Code></Error>",
            &long,
        ] {
            assert_eq!(page(bad.as_bytes()), None, "{bad}");
        }
    }
}
