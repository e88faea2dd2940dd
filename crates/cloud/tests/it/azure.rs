//! What the engine asks of a store, against a real server of Azure Blob Storage.

use atrest_cloud::CloudError;
use atrest_cloud::azure::{AzureLocation, AzureStore, Settings};
use atrest_sealedvolume::format::{Kind, names};
use atrest_sealedvolume::store::{ObjectStore, Put, StoreError};
use atrest_testkit::{Azurite, Pki};

use crate::environment::service;
use crate::questions;

type Pairs<'a> = &'a [(&'a str, String)];

fn open(prefix: &str, environment: Pairs<'_>) -> Result<AzureStore, CloudError> {
    let settings = Settings::read(&|name| {
        environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    });
    AzureStore::open(&AzureLocation::parse(&format!("az://{}/{prefix}", Azurite::CONTAINER))?, settings?)
}

/// The store below a prefix, with settings that are others or more.
fn store_with(server: &Azurite, prefix: &str, others: Pairs<'_>) -> AzureStore {
    open(prefix, &[others, &server.environment()].concat()).expect("a store")
}

fn store(server: &Azurite, prefix: &str) -> AzureStore {
    store_with(server, prefix, &[])
}

#[test]
fn blobs_are_kept_listed_and_taken_away() {
    let server = Azurite::new();
    for prefix in ["a volume/of+mine", "ü%20'(x)&=~", ""] {
        questions::objects_are_kept_listed_and_taken_away(&store(&server, prefix));
    }
}

#[test]
fn a_long_list_comes_in_parts_and_others_names_are_left_out() {
    let server = Azurite::new();
    let store = store(&server, "v");
    // Before ours and behind them there are more of others than come at once.
    let others = (0..1100).flat_map(|number| [format!("v/l/-{number}"), format!("v/l/x{number}")]);
    let ours = (0..1500).map(|number| format!("v/{}", names::log(number)));
    server.put_all(&others.chain(ours).collect::<Vec<_>>());
    questions::a_long_list_comes_in_parts_and_others_names_are_left_out(&store);
    // Whoever begins in the middle has what is behind it, also what came later.
    server.put_all(&[format!("v/{}", names::log(5000))]);
    let behind = store.list_after(Kind::Log, Some(&names::log(1234))).expect("a list");
    assert!(behind.into_iter().eq((1235..1500).chain([5000]).map(names::log)));
}

#[test]
fn of_those_who_make_a_blob_at_once_one_is_told_that_it_did() {
    let server = Azurite::new();
    questions::of_those_who_make_an_object_at_once_one_is_told_that_it_did(&store(&server, "v"));
}

#[test]
fn who_is_not_known_or_asks_for_no_container_is_refused_and_not_told_that_nothing_is_there() {
    let server = Azurite::new();
    let wrong = store_with(&server, "v", &[("AZURE_STORAGE_KEY", "d3Jvbmc=".into())]);
    questions::who_is_not_known_is_refused(&wrong);
    server.remove_container();
    questions::who_asks_for_no_bucket_is_refused(&store(&server, "v"));
}

#[test]
fn a_shared_access_signature_permits_what_it_says() {
    let server = Azurite::new();
    let with = |text: String| {
        let environment = [&server.place()[..], &[("AZURE_STORAGE_SAS_TOKEN", text)]].concat();
        open("a v", &environment).expect("a store")
    };
    let (all, reading) = (with(server.signature("rwdlc")), with(format!("?{}", server.signature("rl"))));
    let (name, refused) = (names::log(1), StoreError::Refused { status: 403 });
    assert_eq!(reading.put_new(&name, b"first"), Err(refused));
    assert_eq!(all.put_new(&name, b"first"), Ok(Put::Stored));
    assert_eq!(all.put_new(&name, b"other"), Ok(Put::Exists));
    assert_eq!(reading.get_range(&name, 1, 2), Ok(Some(b"ir".to_vec())));
    assert_eq!(reading.list_after(Kind::Log, None), Ok(vec![name.clone()]));
    assert_eq!(reading.list_after(Kind::Log, Some(&name)), Ok(vec![]));
    assert_eq!(reading.delete(&name), Err(refused));
    assert_eq!((all.delete(&name), reading.len_of(&name)), (Ok(()), Ok(None)));
    let forged = with(server.signature("rl").replace("sp=rl", "sp=rwdlc"));
    assert_eq!(forged.put_new(&name, b"first"), Err(refused));
}

#[test]
fn a_connection_string_has_all_that_is_needed() {
    let server = Azurite::new();
    let text = [("AZURE_STORAGE_CONNECTION_STRING", server.connection_string())];
    let store = open("v", &text).expect("a store");
    assert_eq!(store.put_new(&names::log(1), b"first"), Ok(Put::Stored));
    assert_eq!(store.get(&names::log(1), 5), Ok(Some(b"first".to_vec())));
}

#[test]
fn a_server_that_was_stopped_is_silent_and_then_there_again_with_all_blobs() {
    let mut server = Azurite::new();
    let store = store(&server, "v");
    questions::a_server_that_was_away_is_silent_and_then_there_again_with_all_objects(&store, |is_silent| {
        server.stop();
        is_silent();
        server.restart();
    });
}

/// A token that Azurite takes: it looks at what is said, and not at who has signed it.
fn token(audience: &str) -> String {
    use base64ct::{Base64UrlUnpadded, Encoding};
    let said = format!(
        "{{\"aud\":\"{audience}\",\"iss\":\"https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/\",\"nbf\":1500000000,\
         \"iat\":1500000000,\"exp\":32503680000,\"tid\":\"ab1f708d-50f6-404c-a006-d71b2ac7a606\"}}"
    );
    let part = |text: &str| Base64UrlUnpadded::encode_string(text.as_bytes());
    format!("{}.{}.{}", part("{\"alg\":\"HS256\",\"typ\":\"JWT\"}"), part(&said), part("signed by nobody"))
}

#[test]
fn by_tls_it_is_asked_if_an_authority_that_is_trusted_vouches_for_it() {
    let (ours, others) = (Pki::new(), Pki::new());
    let server = Azurite::with_tls(ours.server());
    let bundle = |pki: &Pki| ("REQUESTS_CA_BUNDLE", pki.nobody().join("ca-cert.pem").display().to_string());
    let trusted_by = |pki: &Pki| store_with(&server, "v", &[bundle(pki)]);
    let (trusting, doubting) = (trusted_by(&ours), trusted_by(&others));
    questions::it_is_asked_if_an_authority_that_is_trusted_vouches_for_it(&trusting, &doubting);
    // A machine is what its metadata service says.
    let identified = |audience: &str| {
        let metadata = service(vec![(
            "get /metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3a%2f%2fstorage.azure.com%2f ",
            "metadata: true\r\n",
            format!("{{\"access_token\":\"{}\",\"expires_in\":\"3599\"}}", token(audience)),
        )]);
        let more = [("AZURE_POD_IDENTITY_AUTHORITY_HOST", metadata), bundle(&ours)];
        open("v", &[&server.place()[..], &more].concat()).expect("a store")
    };
    let machine = identified("https://storage.azure.com");
    assert_eq!(machine.list_after(Kind::Log, None), Ok(vec![names::log(1)]));
    assert_eq!(machine.put_new(&names::log(2), b"x"), Ok(Put::Stored));
    assert_eq!(machine.list_after(Kind::Log, Some(&names::log(1))), Ok(vec![names::log(2)]));
    let elsewhere = identified("https://management.azure.com");
    assert!(matches!(elsewhere.list_after(Kind::Log, None), Err(StoreError::Refused { status: 401 | 403 })));
}

#[test]
fn a_volume_lives_on_it() {
    let server = Azurite::new();
    questions::a_volume_lives_on_it(store(&server, "v"));
}
