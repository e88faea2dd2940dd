//! What the engine asks of a store, against a real server of S3.

use atrest_cloud::s3::{S3Location, S3Store, Settings};
use atrest_sealedvolume::format::names;
use atrest_sealedvolume::store::{ObjectStore, Put, StoreError};
use atrest_testkit::{Pki, S3Server};

use crate::questions;

/// The store below a prefix, with settings that are others or more.
fn store_with(server: &S3Server, prefix: &str, others: &[(&str, &str)]) -> S3Store {
    let environment = server.environment();
    let settings = Settings::read(&|name| match others.iter().find(|(other, _)| *other == name) {
        Some((_, value)) => Some((*value).to_owned()),
        None => environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()),
    });
    let at = S3Location::parse(&format!("s3://{}/{prefix}", S3Server::BUCKET)).expect("a URL");
    S3Store::open(&at, settings.expect("settings")).expect("a store")
}

fn store(server: &S3Server, prefix: &str) -> S3Store {
    store_with(server, prefix, &[])
}

#[test]
fn objects_are_kept_listed_and_taken_away() {
    let server = S3Server::new();
    questions::objects_are_kept_listed_and_taken_away(&store(&server, "a volume/of+mine"));
    assert!(server.bucket().join("a volume/of+mine/l").join(&names::log(3)[2..]).exists());
}

#[test]
fn a_long_list_comes_in_parts_and_others_names_are_left_out() {
    let server = S3Server::new();
    let directory = server.bucket().join("v/l");
    std::fs::create_dir_all(&directory).expect("a directory");
    // Before ours there are more of others than come at once.
    for number in 0..1100 {
        std::fs::write(directory.join(format!("{number:08}")), b"").expect("a file");
    }
    for number in 0..1500_u64 {
        std::fs::write(directory.join(&names::log(number)[2..]), b"").expect("a file");
    }
    questions::a_long_list_comes_in_parts_and_others_names_are_left_out(&store(&server, "v"));
}

#[test]
fn of_those_who_make_an_object_at_once_one_is_told_that_it_did() {
    let server = S3Server::new();
    questions::of_those_who_make_an_object_at_once_one_is_told_that_it_did(&store(&server, "v"));
}

#[test]
fn a_server_that_ignores_conditions_is_found_out() {
    let server = S3Server::without_conditions();
    let store = store(&server, "v");
    assert_eq!(store.put_new(&names::log(1), b"first"), Ok(Put::Stored));
    assert_eq!(store.put_new(&names::log(1), b"other"), Ok(Put::Stored));
    assert_eq!(store.probe(), Err(StoreError::Unconditional));
}

#[test]
fn who_is_not_known_or_asks_for_no_bucket_is_refused_and_not_told_that_nothing_is_there() {
    let server = S3Server::new();
    let wrong = store_with(&server, "v", &[("AWS_SECRET_ACCESS_KEY", "wrong")]);
    questions::who_is_not_known_is_refused(&wrong);
    std::fs::remove_dir_all(server.bucket()).expect("it goes");
    questions::who_asks_for_no_bucket_is_refused(&store(&server, "v"));
}

#[test]
fn a_server_that_was_killed_is_silent_and_then_there_again_with_all_objects() {
    let mut server = S3Server::new();
    let store = store(&server, "v");
    questions::a_server_that_was_away_is_silent_and_then_there_again_with_all_objects(&store, |is_silent| {
        server.kill();
        is_silent();
        server.restart();
    });
}

#[test]
fn by_tls_it_is_asked_if_an_authority_that_is_trusted_vouches_for_it() {
    let (ours, others) = (Pki::new(), Pki::new());
    let server = S3Server::with_tls(ours.server());
    let with = |pki: &Pki| {
        let bundle = pki.nobody().join("ca-cert.pem").display().to_string();
        store_with(&server, "v", &[("AWS_CA_BUNDLE", &bundle)])
    };
    questions::it_is_asked_if_an_authority_that_is_trusted_vouches_for_it(&with(&ours), &with(&others));
    // In the clear it is no server of S3 for us, and nothing there is absent.
    let clear = format!("http://127.0.0.1:{}", server.port());
    assert!(store_with(&server, "v", &[("AWS_ENDPOINT_URL_S3", &clear)]).get(&names::log(2), 1).is_err());
}

#[test]
fn a_volume_lives_on_it() {
    let server = S3Server::new();
    questions::a_volume_lives_on_it(store(&server, "v"));
}
