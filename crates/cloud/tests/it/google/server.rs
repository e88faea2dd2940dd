//! What the engine asks of a store, against a server that speaks Google's API.

use atrest_cloud::google::GoogleStore;
use atrest_sealedvolume::format::{Kind, names};
use atrest_sealedvolume::store::{ObjectStore, StoreError};
use atrest_testkit::{GcsServer, Pki, Scratch};

use super::open;
use crate::questions;

/// The store below a prefix.
fn store(server: &GcsServer, prefix: &str) -> GoogleStore {
    let url = format!("gs://{}/{prefix}", GcsServer::BUCKET);
    open(&[("STORAGE_EMULATOR_HOST", &server.url())], &url).expect("a store")
}

#[test]
fn objects_are_kept_listed_and_taken_away() {
    let server = GcsServer::new();
    questions::objects_are_kept_listed_and_taken_away(&store(&server, "a volume/of+mine"));
    let file = server.bucket().join("a volume/of+mine/l").join(&names::log(3)[2..]);
    let kept = std::fs::read(file).expect("it is there, under its own name");
    assert!(kept == questions::varied(9_000_000));
}

#[test]
fn a_long_list_comes_in_parts_and_others_names_are_left_out() {
    let server = GcsServer::new();
    // Before ours there are more of others than come at once: what another program has stored, by a URL of its own making.
    let scratch = Scratch::new();
    let others: Vec<_> = (0..1100).map(|number| format!("v/l/{number:08}")).collect();
    let ours: Vec<_> = (0..1500).map(|number| format!("v/{}", names::log(number))).collect();
    let lines: String = others
        .iter()
        .chain(&ours)
        .map(|name| {
            let name = name.replace('/', "%2F");
            format!(
                "url = \"{}/upload/storage/v1/b/disks/o?uploadType=media&name={name}\"\ndata = \"\"\noutput = \"/dev/null\"\n",
                server.url()
            )
        })
        .collect();
    scratch.file("requests", lines);
    scratch.tool("curl").words("--silent --fail --config requests").ok();
    questions::a_long_list_comes_in_parts_and_others_names_are_left_out(&store(&server, "v"));
}

#[test]
fn of_those_who_make_an_object_at_once_one_is_told_that_it_did() {
    let server = GcsServer::new();
    questions::of_those_who_make_an_object_at_once_one_is_told_that_it_did(&store(&server, "v"));
}

#[test]
fn who_asks_for_no_bucket_is_refused_and_not_told_that_nothing_is_there() {
    let server = GcsServer::new();
    let store = store(&server, "v");
    assert_eq!(store.get(&names::log(1), 1), Ok(None));
    std::fs::remove_dir_all(server.bucket()).expect("it goes");
    questions::who_asks_for_no_bucket_is_refused(&store);
    assert_eq!(store.len_of(&names::log(1)), Err(StoreError::Refused { status: 404 }));
}

#[test]
fn a_server_that_was_killed_is_silent_and_then_there_again_with_all_objects() {
    let mut server = GcsServer::new();
    let store = store(&server, "v");
    questions::a_server_that_was_away_is_silent_and_then_there_again_with_all_objects(&store, |is_silent| {
        server.kill();
        is_silent();
        // What it was writing then.
        std::fs::write(server.bucket().join("v/l/.cut"), b"").expect("a file");
        server.restart();
    });
    assert_eq!(store.list_after(Kind::Log, None), Ok(vec![names::log(1)]));
}

#[test]
fn by_tls_it_is_asked_if_an_authority_that_is_trusted_vouches_for_it() {
    let (ours, others) = (Pki::new(), Pki::new());
    let server = GcsServer::with_tls(ours.server());
    let with = |pki: &Pki, url: &str| {
        let bundle = pki.nobody().join("ca-cert.pem").display().to_string();
        let environment = [("STORAGE_EMULATOR_HOST", url), ("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", &bundle)];
        open(&environment, "gs://disks/v").expect("a store")
    };
    let (trusting, doubting) = (with(&ours, &server.url()), with(&others, &server.url()));
    questions::it_is_asked_if_an_authority_that_is_trusted_vouches_for_it(&trusting, &doubting);
    // In the clear it is no server of Google's API for us, and nothing there is absent.
    let clear = format!("127.0.0.1:{}", server.port());
    assert!(with(&ours, &clear).get(&names::log(2), 1).is_err());
}

#[test]
fn a_volume_lives_on_it() {
    let server = GcsServer::new();
    questions::a_volume_lives_on_it(store(&server, "v"));
}
