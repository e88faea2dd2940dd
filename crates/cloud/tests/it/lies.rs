//! Servers that do not do what S3 does.

use std::io::Write;
use std::net::TcpListener;
use std::thread;

use atrest_cloud::s3::{S3Location, S3Store, Settings};
use atrest_sealedvolume::format::{Kind, names};
use atrest_sealedvolume::store::{ObjectStore, Put, StoreError};

use crate::requests;

/// A store whose server gives these answers, one on each connection.
fn scripted(answers: &'static [&'static str]) -> S3Store {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept() else { return };
            if requests::head(&mut stream).is_none() {
                return;
            }
            // Who asked may have gone.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let settings = Settings::read(&|name| match name {
        "AWS_ENDPOINT_URL" => Some(format!("http://127.0.0.1:{port}/")),
        "AWS_ACCESS_KEY_ID" => Some("id".into()),
        "AWS_SECRET_ACCESS_KEY" => Some("secret".into()),
        _ => None,
    });
    S3Store::open(&S3Location::parse("s3://disks/v").expect("a URL"), settings.expect("settings"))
        .expect("a store")
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn one_that_ignores_the_condition_is_found_out() {
    assert_eq!(scripted(&[OK, OK]).probe(), Err(StoreError::Unconditional));
    const THERE: &str = "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(scripted(&[OK, THERE]).probe(), Ok(()));
    assert_eq!(scripted(&[THERE]).probe(), Ok(()));
    const NO: &str = "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(scripted(&[NO]).probe(), Err(StoreError::Refused { status: 501 }));
    // Where nothing was asked to be new, the answer says nothing of that.
    assert_eq!(scripted(&[THERE]).put(&names::log(1), b"x"), Err(StoreError::Refused { status: 412 }));
    assert_eq!(scripted(&[THERE]).put_new(&names::log(1), b"x"), Ok(Put::Exists));
}

#[test]
fn what_is_not_s3_is_never_told_as_absent() {
    let get = |answer| scripted(answer).get(&names::log(1), 100);
    let not_found = "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: ";
    assert_eq!(
        get(Box::leak(Box::new([&*format!("{not_found}9\r\n\r\nnot found").leak()]))),
        Err(StoreError::Refused { status: 404 })
    );
    let code = |code: &str| {
        let body = format!("<Error><Code>{code}</Code></Error>");
        get(Box::leak(Box::new([&*format!("{not_found}{}\r\n\r\n{body}", body.len()).leak()])))
    };
    assert_eq!(code("NoSuchBucket"), Err(StoreError::Refused { status: 404 }));
    assert_eq!(code("NoSuchKey"), Ok(None));
    assert_eq!(get(&["SSH-2.0-OpenSSH\r\n\r\n"]), Err(StoreError::Malformed));
    assert_eq!(get(&["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"]), Err(StoreError::Silent));
    assert_eq!(
        get(&["HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"]),
        Err(StoreError::Refused { status: 302 })
    );
    // Nobody answers: after the last answer the listener is gone.
    assert!(scripted(&[]).get(&names::log(1), 1).is_err());
}

#[test]
fn a_range_is_no_longer_than_what_was_asked_for() {
    let range = |answer| scripted(answer).get_range(&names::log(1), 2, 3);
    assert_eq!(
        range(&["HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\n\r\nabcd"]),
        Err(StoreError::Malformed)
    );
    assert_eq!(
        range(&["HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\n\r\ncde"]),
        Ok(Some(b"cde".to_vec()))
    );
    // A server without ranges sends all.
    assert_eq!(range(&["HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nabcdefg"]), Ok(Some(b"cde".to_vec())));
    assert_eq!(range(&["HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"]), Ok(Some(Vec::new())));
}

#[test]
fn a_list_out_of_order_or_without_an_end_is_refused() {
    fn list(body: &str) -> Result<Vec<String>, StoreError> {
        let answer =
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        scripted(Box::leak(Box::new([&*answer.clone().leak(), &*answer.leak()]))).list_after(Kind::Log, None)
    }
    let keys = |keys: &[u64], more| {
        let keys: String = keys
            .iter()
            .map(|key| format!("<Contents><Key>v/{}</Key></Contents>", names::log(*key)))
            .collect();
        list(&format!("<ListBucketResult><IsTruncated>{more}</IsTruncated>{keys}</ListBucketResult>"))
    };
    assert_eq!(keys(&[1, 2], false), Ok(vec![names::log(1), names::log(2)]));
    assert_eq!(keys(&[2, 1], false), Err(StoreError::Malformed));
    assert_eq!(keys(&[1, 1], false), Err(StoreError::Malformed));
    assert_eq!(keys(&[], true), Err(StoreError::Malformed));
    assert_eq!(keys(&[], false), Ok(vec![]));
    assert_eq!(list("<html></html>"), Err(StoreError::Malformed));
    // Names outside the volume are none of it.
    let other =
        format!("<ListBucketResult><Contents><Key>{}</Key></Contents></ListBucketResult>", names::log(1));
    assert_eq!(list(&other), Ok(vec![]));
}

#[test]
fn a_body_whose_end_nobody_has_announced_is_not_taken_for_whole() {
    const CUT: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of";
    assert_eq!(scripted(&[CUT]).get(&names::log(1), 100), Err(StoreError::Malformed));
    assert_eq!(scripted(&[CUT]).get_range(&names::log(1), 0, 4), Err(StoreError::Malformed));
    const CHUNKS: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    assert!(scripted(&[CHUNKS]).get(&names::log(1), 100).is_err());
    // It is another thing to be refused so: nothing rests on what that says beside its status.
    const NO: &str = "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\nno";
    assert_eq!(scripted(&[NO]).get(&names::log(1), 100), Err(StoreError::Refused { status: 403 }));
    assert!(StoreError::Malformed.may_pass(), "it is asked for again");
}

#[test]
fn a_server_that_hangs_is_waited_for_no_longer_than_was_said() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let settings = Settings::read(&|name| match name {
        "AWS_ENDPOINT_URL" => Some(format!("http://{}/", listener.local_addr().expect("an address"))),
        "AWS_ACCESS_KEY_ID" => Some("id".into()),
        "AWS_SECRET_ACCESS_KEY" => Some("secret".into()),
        _ => None,
    });
    let at = S3Location::parse("s3://disks/v").expect("a URL");
    let store = S3Store::open(&at, settings.expect("settings")).expect("a store");
    store.wait_at_most(std::time::Duration::from_millis(200));
    let begun = std::time::Instant::now();
    assert_eq!(store.get(&names::log(1), 1), Err(StoreError::Silent));
    let took = begun.elapsed();
    assert!(
        took >= std::time::Duration::from_millis(150) && took < std::time::Duration::from_secs(15),
        "{took:?}"
    );
}

#[test]
fn a_list_that_says_that_it_ends_is_not_asked_for_once_more() {
    let some = |more: bool| {
        let key = format!("<Contents><Key>v/{}</Key><Size>1</Size></Contents>", names::log(1));
        let body = format!("<ListBucketResult><IsTruncated>{more}</IsTruncated>{key}</ListBucketResult>");
        let answer =
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        scripted(Box::leak(Box::new([&*answer.leak()]))).list_some(Kind::Log, None).expect("a list")
    };
    assert_eq!((some(false).names, some(false).more, some(true).more), (vec![names::log(1)], false, true));
}
