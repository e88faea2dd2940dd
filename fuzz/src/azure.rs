//! What a server of Azure answers to List Blobs. The HTTP around it is that of `s3`.

use atrest_cloud::untrusted::azure_page;

/// The XML of a list.
pub fn azure(data: &[u8]) {
    if let Some(page) = azure_page(data) {
        let names = page.names.iter().map(|(name, _)| name.len()).sum::<usize>();
        let marker = page.marker.map_or(0, |marker| marker.len());
        assert!(names + marker <= data.len());
    }
}

/// Lists as servers send them.
pub fn azure_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let list = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://mine.blob.core.windows.net/\" \
                ContainerName=\"disks\"><Prefix>v/l/</Prefix><MaxResults>2</MaxResults><Blobs><Blob><Name>v/l/0000000000000001</Name>\
                <Properties><Content-Length>5</Content-Length><BlobType>BlockBlob</BlobType></Properties><OrMetadata /></Blob>\
                <Blob><Name>v/l/a&amp;&#xFC;</Name><Properties /></Blob></Blobs><NextMarker>2!8!eHh4</NextMarker></EnumerationResults>";
    let last = "<?xml version=\"1.0\"?>\n<EnumerationResults>\n  <Blobs>\n  </Blobs>\n  <NextMarker/>\n</EnumerationResults>\n";
    let error = "<?xml version=\"1.0\"?><Error><Code>ContainerNotFound</Code><Message>no</Message></Error>";
    vec![("list", list.into()), ("last", last.into()), ("error", error.into())]
}
