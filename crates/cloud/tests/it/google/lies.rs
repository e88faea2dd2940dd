//! Servers that do not do what Google's does.

use atrest_cloud::google::GoogleStore;
use atrest_sealedvolume::format::{Kind, names};
use atrest_sealedvolume::store::{ObjectStore, Put, StoreError};

use super::open;
use super::service::{Asked, Service, answer};

/// A store whose server answers as `answer` says to the number of a request and to it, and the server.
fn served(answer: impl Fn(usize, &Asked) -> String + Send + 'static) -> (GoogleStore, Service) {
    let service = Service::new(answer);
    let store = open(&[("STORAGE_EMULATOR_HOST", &service.url)], "gs://disks/v").expect("a store");
    (store, service)
}

/// A store whose server gives these answers. After the last one it gives none.
fn scripted(answers: &[&str]) -> GoogleStore {
    let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
    served(move |number, _| answers.get(number).cloned().unwrap_or_default()).0 // intended: no answer.
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A list of these names, which begin with the prefix of the volume, and what is said of the next page.
fn list(names: &[String], next: &str) -> String {
    let items: Vec<_> =
        names.iter().map(|name| format!("{{\"name\":\"v/{name}\",\"size\":\"1\"}}")).collect();
    let body = format!("{{\"kind\":\"storage#objects\",\"items\":[{}]{next}}}", items.join(","));
    answer("200 OK", &body)
}

fn logs(numbers: &[u64]) -> Vec<String> {
    numbers.iter().map(|number| names::log(*number)).collect()
}

#[test]
fn one_that_ignores_the_condition_is_found_out() {
    let probed = |answers: &[&str]| scripted(answers).probe();
    assert_eq!(probed(&[OK, OK]), Err(StoreError::Unconditional));
    const THERE: &str = "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(probed(&[OK, THERE]), Ok(()));
    assert_eq!(probed(&[THERE]), Ok(()));
    assert_eq!(probed(&[&answer("501 Not Implemented", "")]), Err(StoreError::Refused { status: 501 }));
    // Where nothing was asked to be new, the answer says nothing of that.
    assert_eq!(scripted(&[THERE]).put(&names::log(1), b"x"), Err(StoreError::Refused { status: 412 }));
    assert_eq!(scripted(&[THERE]).put_new(&names::log(1), b"x"), Ok(Put::Exists));
}

#[test]
fn a_condition_goes_with_what_is_to_be_new_and_with_nothing_else() {
    let (store, service) = served(|_, _| OK.into());
    store.put_new(&names::log(1), b"x").expect("stored");
    store.put(&names::log(1), b"").expect("stored");
    let path = format!("/upload/storage/v1/b/disks/o?uploadType=media&name=v%2Fl%2F{}", &names::log(1)[2..]);
    let asked = service.asked();
    let begins = |at: usize| asked[at].line.starts_with(&format!("POST {path}&"));
    assert!(begins(0) && begins(1), "{asked:?}");
    let conditions: Vec<_> = asked.iter().map(|asked| asked.line.contains("ifGenerationMatch=0")).collect();
    assert_eq!(conditions, [true, false]);
    assert_eq!((asked[0].body.as_str(), asked[1].body.as_str()), ("x", ""));
    assert!(asked.iter().all(|asked| !asked.head.contains("authorization")), "{asked:?}");
}

#[test]
fn what_is_not_googles_is_never_told_as_absent() {
    let not_found = answer("404 Not Found", "No such object: disks/v/l/1");
    let get = |answers: &[&str]| scripted(answers).get(&names::log(1), 100);
    let none = StoreError::Refused { status: 404 };
    // Whatever it says of the object: Google says that also where there is no bucket. The bucket's list counts.
    assert_eq!(get(&[&not_found, &answer("404 Not Found", "{\"error\":{\"code\":404}}")]), Err(none));
    assert_eq!(get(&[&not_found, &answer("200 OK", "{}")]), Err(StoreError::Malformed));
    assert_eq!(get(&[&not_found, &answer("200 OK", "<html></html>")]), Err(StoreError::Malformed));
    assert_eq!(get(&[&not_found, OK]), Err(StoreError::Malformed));
    assert!(get(&[&not_found]).is_err());
    let forbidden = StoreError::Refused { status: 403 };
    assert_eq!(get(&[&not_found, &answer("403 Forbidden", "")]), Err(forbidden));
    assert_eq!(get(&[&not_found, &list(&[], "")]), Ok(None));
    assert_eq!(get(&[&not_found, &list(&logs(&[2]), "")]), Ok(None));
    // It has the object: one of the two answers is wrong, or it came meanwhile.
    assert_eq!(get(&[&not_found, &list(&logs(&[1]), "")]), Err(StoreError::Malformed));
    let delete = |answers: &[&str]| scripted(answers).delete(&names::log(1));
    assert_eq!(delete(&[&not_found, &list(&[], "")]), Ok(()));
    assert_eq!(delete(&[&not_found, &list(&logs(&[1]), "")]), Err(StoreError::Malformed));
    assert_eq!(delete(&[&not_found, &not_found]), Err(none));

    assert_eq!(get(&["SSH-2.0-OpenSSH\r\n\r\n"]), Err(StoreError::Malformed));
    assert_eq!(get(&["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"]), Err(StoreError::Silent));
    assert_eq!(
        get(&["HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"]),
        Err(StoreError::Refused { status: 302 })
    );
    assert!(get(&[]).is_err());
}

#[test]
fn a_range_is_no_longer_than_what_was_asked_for() {
    let (store, service) =
        served(|_, _| "HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\n\r\nabcd".into());
    assert_eq!(store.get_range(&names::log(1), 2, 3), Err(StoreError::Malformed));
    assert!(service.asked()[0].head.contains("\r\nrange: bytes=2-4"));
    let range = |answer| scripted(&[answer]).get_range(&names::log(1), 2, 3);
    assert_eq!(
        range("HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\n\r\ncde"),
        Ok(Some(b"cde".to_vec()))
    );
    // A server without ranges sends all.
    assert_eq!(range("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nabcdefg"), Ok(Some(b"cde".to_vec())));
    assert_eq!(range("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"), Ok(Some(Vec::new())));
    assert_eq!(store.get_range(&names::log(1), u64::MAX, 2), Err(StoreError::TooLong));
}

#[test]
fn lengths_without_bounds_are_refused_before_they_take_room() {
    let get = |answer: &str| scripted(&[answer]).get(&names::log(1), 100);
    let long = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", u64::MAX);
    assert_eq!(get(&long), Err(StoreError::TooLong));
    assert_eq!(get("HTTP/1.1 404 Not Found\r\nContent-Length: 8000000000\r\n\r\n"), Err(StoreError::TooLong));
    let size = |body: &str| scripted(&[&answer("200 OK", body)]).len_of(&names::log(1));
    assert_eq!(size("{\"size\":\"18446744073709551615\"}"), Ok(Some(u64::MAX)));
    assert_eq!(size("{\"size\":\"18446744073709551616\"}"), Err(StoreError::Malformed));
    assert_eq!(size("{\"size\":\"-1\"}"), Err(StoreError::Malformed));
    assert_eq!(size("{}"), Err(StoreError::Malformed));
    assert_eq!(size("size"), Err(StoreError::Malformed));
}

#[test]
fn a_list_out_of_order_or_that_repeats_itself_is_refused() {
    let listed = |answer: String| scripted(&[&answer]).list_after(Kind::Log, None);
    assert_eq!(listed(list(&logs(&[1, 2]), "")), Ok(logs(&[1, 2])));
    assert_eq!(listed(list(&logs(&[2, 1]), "")), Err(StoreError::Malformed));
    assert_eq!(listed(list(&logs(&[1, 1]), "")), Err(StoreError::Malformed));
    assert_eq!(listed(list(&[], "")), Ok(vec![]));
    assert_eq!(listed(answer("200 OK", "<html></html>")), Err(StoreError::Malformed));
    assert_eq!(listed(answer("200 OK", "{}")), Err(StoreError::Malformed));
    assert_eq!(listed(answer("200 OK", "{\"kind\":\"storage#objects\"")), Err(StoreError::Malformed));
    // Names outside the volume are none of it.
    let outside = format!(
        "{{\"kind\":\"storage#objects\",\"items\":[{{\"name\":\"{}\",\"size\":\"1\"}}]}}",
        names::log(1)
    );
    assert_eq!(listed(answer("200 OK", &outside)), Ok(vec![]));
    // It begins with the name behind which names are asked for, and never before it.
    let after = |answer: String| scripted(&[&answer]).list_after(Kind::Log, Some(&names::log(5)));
    assert_eq!(after(list(&logs(&[5, 6]), "")), Ok(logs(&[6])));
    assert_eq!(after(list(&logs(&[6, 7]), "")), Ok(logs(&[6, 7])));
    assert_eq!(after(list(&logs(&[5]), "")), Ok(vec![]));
    assert_eq!(after(list(&logs(&[4, 6]), "")), Err(StoreError::Malformed));
    assert_eq!(after(list(&logs(&[5, 5, 6]), "")), Err(StoreError::Malformed));
    assert_eq!(after(list(&logs(&[6, 5]), "")), Err(StoreError::Malformed));
}

#[test]
fn a_list_goes_on_by_its_token_and_none_without_an_end_is_read_for_ever() {
    let next = |token: &str| format!(",\"nextPageToken\":\"{token}\"");
    let other = || vec!["l/other".to_owned()];
    // Others' names alone, then ours; the last page need not be asked for at once.
    let (store, service) = served(move |number, _| match number {
        0 => list(&[format!("{}x", names::log(1))], &next("one/+")),
        1 => list(&[], &next("two")),
        _ => list(&logs(&[3]), &next("three")),
    });
    let found = store.list_some(Kind::Log, Some(&names::log(0))).expect("a list");
    assert_eq!((found.names, found.more), (logs(&[3]), true));
    let asked = service.asked();
    let tokens: Vec<_> = asked.iter().map(|asked| asked.line.split_once("&pageToken=")).collect();
    assert_eq!(tokens[0], None);
    assert_eq!(tokens[1].map(|(_, token)| token), Some("one%2F%2B"));
    assert_eq!(tokens[2].map(|(_, token)| token), Some("two"));
    let start = format!("&startOffset=v%2Fl%2F{}", &names::log(0)[2..]);
    assert!(asked.iter().all(|asked| asked.line.contains(&start)), "{asked:?}");

    // One that says that there is the same page again.
    let (store, service) = served(move |_, _| list(&[], &next("again")));
    assert_eq!(store.list_after(Kind::Log, None), Err(StoreError::Malformed));
    assert_eq!(service.asked().len(), 2);
    // One that has others' names again, or goes back on the next page.
    let (store, _service) = served(move |number, _| list(&other(), &next(&number.to_string())));
    assert_eq!(store.list_after(Kind::Log, None), Err(StoreError::Malformed));
    // One that never ends.
    let (store, service) = served(move |number, _| list(&[], &next(&number.to_string())));
    assert_eq!(store.list_after(Kind::Log, None), Err(StoreError::Malformed));
    assert_eq!(service.asked().len(), 1000);
}

#[test]
fn a_list_that_says_that_it_ends_is_not_asked_for_once_more() {
    let some = |next: &str| scripted(&[&list(&logs(&[1]), next)]).list_some(Kind::Log, None).expect("a list");
    let (last, one) = (some(""), some(",\"nextPageToken\":\"x\""));
    assert_eq!((last.names, last.more, one.more), (logs(&[1]), false, true));
}

#[test]
fn a_body_whose_end_nobody_has_announced_is_not_taken_for_whole() {
    const CUT: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of";
    assert_eq!(scripted(&[CUT]).get(&names::log(1), 100), Err(StoreError::Malformed));
    assert_eq!(scripted(&[CUT]).get_range(&names::log(1), 0, 4), Err(StoreError::Malformed));
    assert_eq!(scripted(&[CUT]).put_new(&names::log(1), b"x"), Err(StoreError::Malformed));
    // It is another thing to be refused so: nothing rests on what that says beside its status.
    const NO: &str = "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\nno";
    assert_eq!(scripted(&[NO]).get(&names::log(1), 100), Err(StoreError::Refused { status: 403 }));
}
