//! Servers that do not do what Azure does.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use atrest_cloud::azure::{AzureLocation, AzureStore, Settings};
use atrest_sealedvolume::format::{Kind, names};
use atrest_sealedvolume::store::{ObjectStore, Put, StoreError};

use crate::requests;

fn store(port: u16) -> AzureStore {
    let settings = Settings::read(&|name| match name {
        "AZURE_STORAGE_SERVICE_ENDPOINT" => Some(format!("http://127.0.0.1:{port}/")),
        "AZURE_STORAGE_ACCOUNT" => Some("disks".into()),
        "AZURE_STORAGE_KEY" => Some("c2VjcmV0".into()),
        _ => None,
    });
    let at = AzureLocation::parse("az://disks/v").expect("a URL");
    AzureStore::open(&at, settings.expect("settings")).expect("a store")
}

/// Reads a request's head, and gives its first line.
fn line(stream: &mut TcpStream) -> Option<String> {
    Some(requests::head(stream)?.lines().next()?.to_owned())
}

/// A store whose server answers as a function of the first line of each request says; and what those lines were.
fn answering(
    answer: impl Fn(&str, usize) -> String + Send + 'static,
) -> (AzureStore, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let told = lines.clone();
    thread::spawn(move || {
        for number in 0.. {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let Some(line) = line(&mut stream) else { continue };
            let text = answer(&line, number);
            told.lock().expect("no panic").push(line);
            // Who asked may have gone.
            let _ = stream.write_all(text.as_bytes());
        }
    });
    (store(port), lines)
}

/// A store whose server always gives this answer.
fn saying(answer: &str) -> AzureStore {
    let answer = answer.to_owned();
    answering(move |_, _| answer.clone()).0
}

fn with_body(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn with_code(status: &str, code: &str) -> String {
    with_body(
        status,
        &format!("\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code></Error>"),
    )
}

/// A page of a list.
fn page(keys: &[String], marker: &str) -> String {
    let blobs: String = keys.iter().map(|key| format!("<Blob><Name>{key}</Name></Blob>")).collect();
    with_body(
        "200 OK",
        &format!(
            "<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
        ),
    )
}

fn logs(numbers: &[u64]) -> Vec<String> {
    numbers.iter().map(|number| format!("v/{}", names::log(*number))).collect()
}

#[test]
fn one_that_ignores_the_condition_is_found_out() {
    let made = with_body("201 Created", "");
    assert_eq!(saying(&made).probe(), Err(StoreError::Unconditional));
    for there in [
        with_code("409 Conflict", "BlobAlreadyExists"),
        with_code("412 Precondition Failed", "ConditionNotMet"),
    ] {
        assert_eq!(saying(&there).probe(), Ok(()));
        assert_eq!(saying(&there).put_new(&names::log(1), b"x"), Ok(Put::Exists));
        // Where nothing was asked to be new, the answer says nothing of that.
        assert!(saying(&there).put(&names::log(1), b"x").is_err());
    }
    // What was sent is not stored only because there was an answer.
    for odd in ["200 OK", "202 Accepted", "204 No Content"] {
        assert!(saying(&with_body(odd, "")).put_new(&names::log(1), b"x").is_err(), "{odd}");
    }
}

#[test]
fn a_conflict_of_another_kind_is_not_taken_for_a_blob_that_is_there() {
    for (status, answer) in [
        (409, with_code("409 Conflict", "ContainerBeingDeleted")),
        (409, with_code("409 Conflict", "InvalidBlobType")),
        (409, with_body("409 Conflict", "")),
        (409, with_code("409 Conflict", "ConditionNotMet")),
        (412, with_code("412 Precondition Failed", "LeaseIdMissing")),
        (412, with_body("412 Precondition Failed", "<html>BlobAlreadyExists</html>")),
    ] {
        let put = saying(&answer).put_new(&names::log(1), b"x");
        assert_eq!(put, Err(StoreError::Refused { status }), "{answer}");
    }
}

#[test]
fn what_is_not_azure_is_never_told_as_absent() {
    let get = |answer: &str| saying(answer).get(&names::log(1), 100);
    let refused = Err(StoreError::Refused { status: 404 });
    assert_eq!(get(&with_body("404 Not Found", "not found")), refused);
    assert_eq!(get(&with_code("404 Not Found", "ContainerNotFound")), refused);
    assert_eq!(get(&with_code("404 Not Found", "ResourceNotFound")), refused);
    assert_eq!(get(&with_code("404 Not Found", "BlobNotFound")), Ok(None));
    assert!(get(&with_code("403 No", "BlobNotFound")).is_err());
    assert_eq!(get("SSH-2.0-OpenSSH\r\n\r\n"), Err(StoreError::Malformed));
    assert_eq!(get("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"), Err(StoreError::Silent));
    let moved = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(get(moved), Err(StoreError::Refused { status: 302 }));
    let delete = |answer: &str| saying(answer).delete(&names::log(1));
    assert_eq!(delete(&with_code("404 Not Found", "BlobNotFound")), Ok(()));
    assert_eq!(
        delete(&with_code("404 Not Found", "ContainerNotFound")),
        refused.map(|_: Option<Vec<u8>>| ())
    );
    assert!(delete(&with_body("200 OK", "")).is_err());
}

#[test]
fn lengths_are_no_longer_than_what_was_asked_for() {
    let range = |answer: &str| saying(answer).get_range(&names::log(1), 2, 3);
    assert_eq!(range(&with_body("206 Partial Content", "abcd")), Err(StoreError::Malformed));
    assert_eq!(range(&with_body("206 Partial Content", "cde")), Ok(Some(b"cde".to_vec())));
    // A server without ranges sends all.
    assert_eq!(range(&with_body("200 OK", "abcdefg")), Ok(Some(b"cde".to_vec())));
    assert_eq!(range(&with_body("200 OK", "a")), Ok(Some(Vec::new())));
    let endless = "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n";
    assert_eq!(range(endless), Err(StoreError::TooLong));
    assert_eq!(saying(endless).get(&names::log(1), 100), Err(StoreError::TooLong));
    assert_eq!(saying(endless).list_after(Kind::Log, None), Err(StoreError::TooLong));
    let odd = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n";
    assert_eq!(saying(odd).len_of(&names::log(1)), Err(StoreError::Malformed));
    let cut = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of";
    assert_eq!(saying(cut).get(&names::log(1), 100), Err(StoreError::Malformed));
}

#[test]
fn a_list_out_of_order_or_without_an_end_is_refused() {
    let list = |answer: String| saying(&answer).list_after(Kind::Log, None);
    assert_eq!(list(page(&logs(&[1, 2]), "")), Ok(vec![names::log(1), names::log(2)]));
    for bad in [&[2, 1][..], &[1, 1], &[1, 3, 2]] {
        assert_eq!(list(page(&logs(bad), "")), Err(StoreError::Malformed), "{bad:?}");
    }
    assert_eq!(list(page(&[], "")), Ok(vec![]));
    assert_eq!(list(with_body("200 OK", "<html></html>")), Err(StoreError::Malformed));
    // Names outside the volume are none of it.
    assert_eq!(list(page(&[names::log(1), "v/l/x".into(), "u/l/0".into()], "")), Ok(vec![]));
    // The same page for ever, and for ever another one without any name of ours.
    assert_eq!(list(page(&[], "again")), Err(StoreError::Malformed));
    let (store, lines) = answering(|_, number| page(&["v/l/other".into()], &format!("m{number}")));
    assert_eq!(store.list_after(Kind::Log, None), Err(StoreError::Malformed));
    assert_eq!(lines.lock().expect("no panic").len(), 1000);
    // What is behind goes backwards.
    let (store, _) = answering(|line, _| match line.contains("marker=") {
        false => page(&logs(&[1, 2]), "more"),
        true => page(&logs(&[1]), ""),
    });
    assert_eq!(store.list_after(Kind::Log, Some(&names::log(2))), Err(StoreError::Malformed));
}

#[test]
fn a_list_is_begun_at_a_name_and_no_name_is_left_out_where_a_server_begins_before_it() {
    // As a server that does not know how to begin at a name.
    let (store, lines) =
        answering(|line, _| match (line.contains("marker=m1"), line.contains("marker=m2")) {
            (false, false) => page(&logs(&[1, 2]), "m1"),
            (true, _) => page(&logs(&[3]), "m2"),
            (_, true) => page(&logs(&[4, 5]), "m3"),
        });
    let some = store.list_some(Kind::Log, Some(&names::log(3))).expect("a list");
    assert_eq!((some.names, some.more), (vec![names::log(4), names::log(5)], true));
    let lines = lines.lock().expect("no panic").clone();
    let query =
        "comp=list&maxresults=1000&prefix=v%2Fl%2F&restype=container&startFrom=v%2Fl%2F0000000000000003";
    assert_eq!(lines[0], format!("GET /disks?{query} HTTP/1.1"));
    assert_eq!(lines[1], format!("GET /disks?{} HTTP/1.1", query.replace("&max", "&marker=m1&max")));
    assert_eq!(lines.len(), 3);
    // A page without a name, as a service that is partitioned gives one, is not the end.
    let (store, _) = answering(|line, _| match line.contains("marker=") {
        false => page(&[], "2!8!eHh4"),
        true => page(&logs(&[1]), ""),
    });
    let some = store.list_some(Kind::Log, None).expect("a list");
    assert_eq!((some.names, some.more), (vec![names::log(1)], false));
}

#[test]
fn a_server_that_hangs_is_waited_for_no_longer_than_was_said() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let store = store(listener.local_addr().expect("an address").port());
    store.wait_at_most(Duration::from_millis(200));
    let begun = Instant::now();
    assert_eq!(store.get(&names::log(1), 1), Err(StoreError::Silent));
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(150) && took < Duration::from_secs(15), "{took:?}");
}
