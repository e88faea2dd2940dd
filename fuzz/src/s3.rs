//! What a server of S3 answers: HTTP, and the XML in it.

use atrest_cloud::untrusted::{answer, page};

/// Bytes of a body that are asked for.
const MOST: usize = 4096;

/// A byte that says what is read, and what a server sends.
pub fn s3(data: &[u8]) {
    let Some((choice, mut data)) = data.split_first() else { return };
    match choice % 3 {
        0 | 1 => {
            let bodiless = choice % 3 == 1;
            if let Ok(answer) = answer(&mut data, bodiless, MOST) {
                assert!(answer.body.len() <= MOST && (100..600).contains(&answer.status));
                assert!(!bodiless || answer.body.is_empty());
            }
        }
        _ => {
            if let Some(page) = page(data) {
                assert!(page.names.iter().map(|(key, _)| key.len()).sum::<usize>() <= data.len());
            }
        }
    }
}

/// Answers as servers send them.
pub fn s3_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let list = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>disks</Name>\
                <Prefix>v/l/</Prefix><IsTruncated>false</IsTruncated><Contents><Key>v/l/0000000000000001</Key><Size>5</Size></Contents>\
                <Contents><Key>a&amp;&#xFC;</Key><Size>7</Size></Contents></ListBucketResult>";
    let with = |choice: u8, text: &str| [&[choice], text.as_bytes()].concat();
    vec![
        ("list", with(2, list)),
        ("error", with(2, "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>")),
        ("length", with(0, "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\nhello")),
        (
            "chunked",
            with(
                0,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
            ),
        ),
        ("interim", with(0, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\r\n\r\nno")),
        ("head", with(1, "HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\nConnection: close\r\n\r\n")),
    ]
}
