//! How tokens are asked for, sent and renewed, as a server sees it. What a service account signs is verified by OpenSSL.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atrest_cloud::CloudError;
use atrest_cloud::google::GoogleStore;
use atrest_sealedvolume::format::names;
use atrest_sealedvolume::store::{ObjectStore, Put, StoreError};
use atrest_testkit::Scratch;

use super::open;
use super::service::{Asked, Service, answer};

/// What a server of tokens says that gives `token` for some seconds.
fn granted(token: &str, seconds: u64) -> String {
    let body = format!("{{\"access_token\":\"{token}\",\"expires_in\":{seconds},\"token_type\":\"Bearer\"}}");
    answer("200 OK", &body)
}

/// The user's file that names a server of tokens, and a store that sends what that gives.
fn store(scratch: &Scratch, tokens: &Service, google: &Service) -> Result<GoogleStore, CloudError> {
    let file = format!(
        "{{\"type\":\"authorized_user\",\"client_id\":\"a b\",\"client_secret\":\"c&d\",\"refresh_token\":\"1//e=f\",\
          \"token_uri\":\"{}/v1/token?x=y\"}}",
        tokens.url
    );
    with_file(scratch, &file, google)
}

fn with_file(scratch: &Scratch, file: &str, google: &Service) -> Result<GoogleStore, CloudError> {
    let path = scratch.file("file", file).display().to_string();
    let environment = [
        ("GOOGLE_APPLICATION_CREDENTIALS", path.as_str()),
        ("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE", &google.url),
    ];
    open(&environment, "gs://disks/v")
}

/// A server that stores whatever comes with one of these tokens.
fn google(tokens: &'static [&'static str]) -> Service {
    Service::new(move |_, asked| {
        let is_known =
            tokens.iter().any(|token| asked.head.contains(&format!("authorization: bearer {token}")));
        answer(if is_known { "200 OK" } else { "401 Unauthorized" }, "")
    })
}

#[test]
fn a_user_is_asked_for_by_the_token_in_his_file() {
    let (scratch, google) = (Scratch::new(), google(&["one"]));
    let tokens = Service::new(|_, _| granted("one", 3600));
    let store = store(&scratch, &tokens, &google).expect("a store");
    assert_eq!(store.put_new(&names::log(1), b"x"), Ok(Put::Stored));
    assert_eq!(store.put_new(&names::log(2), b"x"), Ok(Put::Stored));
    let asked = tokens.asked();
    // One token for all.
    assert_eq!((asked.len(), google.asked().len()), (1, 2));
    assert_eq!(asked[0].line, "POST /v1/token?x=y");
    assert!(asked[0].head.contains("\r\ncontent-type: application/x-www-form-urlencoded"), "{asked:?}");
    assert_eq!(
        asked[0].body,
        "grant_type=refresh_token&client_id=a%20b&client_secret=c%26d&refresh_token=1%2F%2Fe%3Df"
    );
}

#[test]
fn a_token_is_renewed_before_it_expires() {
    let (scratch, google) = (Scratch::new(), google(&["t0", "t1"]));
    // Tools of Google ask 225 seconds before the end.
    let tokens = Service::new(|number, _| granted(&format!("t{number}"), [229, 3600][number.min(1)]));
    let store = store(&scratch, &tokens, &google).expect("a store");
    assert_eq!(store.put_new(&names::log(1), b"x"), Ok(Put::Stored));
    assert_eq!(tokens.asked().len(), 1);
    thread::sleep(Duration::from_millis(4100));
    for number in 2..5 {
        assert_eq!(store.put_new(&names::log(number), b"x"), Ok(Put::Stored));
    }
    assert_eq!(tokens.asked().len(), 2);
    let sent: Vec<_> = google.asked().iter().map(|asked| asked.head.contains("bearer t1")).collect();
    assert_eq!(sent, [false, true, true, true]);
}

#[test]
fn a_token_that_holds_is_used_while_no_other_one_comes() {
    let (scratch, google) = (Scratch::new(), google(&["t0"]));
    let tokens = Service::new(|number, _| match number {
        0 => granted("t0", 60),
        _ => answer("503 Service Unavailable", ""),
    });
    let store = store(&scratch, &tokens, &google).expect("a store");
    for number in 0..4 {
        assert_eq!(store.put_new(&names::log(number), b"x"), Ok(Put::Stored));
    }
    // Nobody asks each time.
    assert_eq!(tokens.asked().len(), 2);
}

#[test]
fn a_token_that_has_expired_is_not_sent() {
    let (scratch, google) = (Scratch::new(), google(&["t0"]));
    let tokens = Service::new(|number, _| match number {
        0 => granted("t0", 1),
        1 => answer("503 Service Unavailable", ""),
        _ => answer("400 Bad Request", "{\"error\":\"invalid_grant\"}"),
    });
    let store = store(&scratch, &tokens, &google).expect("a store");
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(store.put_new(&names::log(1), b"x"), Err(StoreError::Silent));
    // Those who have waited with the first do not ask one after the other.
    assert_eq!(store.get(&names::log(1), 1), Err(StoreError::Silent));
    assert_eq!(tokens.asked().len(), 2);
    assert!(StoreError::Silent.may_pass(), "it is asked for again");
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(store.put_new(&names::log(1), b"x"), Err(StoreError::Refused { status: 401 }));
    assert_eq!(google.asked().len(), 0);
}

#[test]
fn one_that_the_store_refuses_is_renewed_once() {
    let (scratch, google) = (Scratch::new(), google(&["t1"]));
    let tokens = Service::new(|number, _| granted(&format!("t{number}"), 3600));
    let store = store(&scratch, &tokens, &google).expect("a store");
    assert_eq!(store.put_new(&names::log(1), b"x"), Ok(Put::Stored));
    assert_eq!(store.put_new(&names::log(2), b"x"), Ok(Put::Stored));
    assert_eq!((tokens.asked().len(), google.asked().len()), (2, 3));
    let nobody = self::google(&[]);
    let store = self::store(&scratch, &tokens, &nobody).expect("a store");
    assert_eq!(store.put_new(&names::log(1), b"x"), Err(StoreError::Refused { status: 401 }));
    assert_eq!(nobody.asked().len(), 2);
}

#[test]
fn credentials_that_are_refused_are_told_and_a_server_that_is_away_is_waited_for() {
    let (scratch, google) = (Scratch::new(), google(&["one"]));
    let opened = |answer: String| {
        let tokens = Service::new(move |_, _| answer.clone());
        store(&scratch, &tokens, &google).map(|store| store.put_new(&names::log(1), b"x"))
    };
    let refused = |status| Err(CloudError::GoogleRefused { status });
    assert_eq!(opened(answer("400 Bad Request", "{\"error\":\"invalid_grant\"}")), refused(400));
    assert_eq!(opened(answer("401 Unauthorized", "{\"error\":\"invalid_client\"}")), refused(401));
    for away in [
        answer("500 Internal Server Error", ""),
        answer("429 Too Many Requests", ""),
        answer("302 Found", &granted("one", 3600)),
        answer("200 OK", "<html></html>"),
        answer("200 OK", "{\"access_token\":\"a\\r\\nx: y\",\"expires_in\":3600}"),
        answer("200 OK", &format!("{{\"access_token\":\"one\",\"expires_in\":{}}}", u64::MAX)),
        // It may have been cut off.
        "HTTP/1.1 200 OK\r\n\r\n{\"access_token\":\"one\",\"expires_in\":3600}".into(),
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", u64::MAX),
        "SSH-2.0-OpenSSH\r\n\r\n".into(),
        String::new(),
    ] {
        assert_eq!(opened(away.clone()), Ok(Err(StoreError::Silent)), "{away}");
    }
    assert_eq!(google.asked().len(), 0);
}

/// The bytes that are base64url, by what OpenSSL knows of base64.
fn decoded(scratch: &Scratch, text: &str) -> Vec<u8> {
    let padded = text.replace('-', "+").replace('_', "/") + &"="[..usize::from(text.len() % 4 == 3)];
    let padded = if text.len() % 4 == 2 { padded + "==" } else { padded };
    scratch.file("text", padded);
    scratch.tool("openssl").words("base64 -d -A -in text -out bytes").ok();
    scratch.read("bytes")
}

#[test]
fn what_a_service_account_signs_is_verified_by_openssl() {
    let (scratch, google) = (Scratch::new(), google(&["one"]));
    let tokens = Service::new(|_, _| granted("one", 3600));
    let url = format!("{}/token", tokens.url);
    let openssl = |words: &str| scratch.tool("openssl").words(words).ok();
    openssl("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out key.pem");
    openssl("pkey -in key.pem -pubout -out public.pem");
    openssl("pkey -in key.pem -traditional -out old.pem");
    for pem in ["key.pem", "old.pem"] {
        let key = String::from_utf8(scratch.read(pem)).expect("text");
        let file = serde_json::json!({
            "type": "service_account", "project_id": "p", "private_key_id": "0123ab", "private_key": key,
            "client_email": "disks@p.iam.gserviceaccount.com", "token_uri": url, "universe_domain": "googleapis.com",
        });
        let store = with_file(&scratch, &file.to_string(), &google).expect("a store");
        assert!(format!("{store:?}").contains("Current(service account)"));
        assert_eq!(store.put_new(&names::log(1), b"x"), Ok(Put::Stored));
        let asked: Asked = tokens.asked().pop().expect("a request");
        assert_eq!(asked.line, "POST /token");
        assert_eq!(asked.field("grant_type"), Some("urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"));
        let assertion = asked.field("assertion").expect("what is signed");
        let (said, signature) = assertion.rsplit_once('.').expect("parts");
        let (header, claims) = said.split_once('.').expect("parts");
        let json = |part: &str| -> serde_json::Value {
            serde_json::from_slice(&decoded(&scratch, part)).expect("JSON")
        };
        assert_eq!(json(header), serde_json::json!({"alg": "RS256", "typ": "JWT", "kid": "0123ab"}));
        let claims = json(claims);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
        let issued = claims["iat"].as_u64().expect("a time");
        assert!((now - 60..=now).contains(&issued), "{claims}");
        assert_eq!(
            claims,
            serde_json::json!({
                "iss": "disks@p.iam.gserviceaccount.com", "aud": url, "iat": issued, "exp": issued + 3600,
                "scope": "https://www.googleapis.com/auth/devstorage.read_write",
            })
        );
        let signature = decoded(&scratch, signature);
        let verified = |said: &str| {
            scratch.file("said", said);
            scratch.file("signature", &signature);
            let words = "dgst -sha256 -verify public.pem -signature signature said";
            scratch.tool("openssl").words(words).run().is_ok()
        };
        assert!(verified(said), "{pem}");
        assert!(!verified(&said.replacen('e', "f", 1)), "{pem}");
    }
    // A key of another kind signs nothing.
    openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec.pem");
    let key = String::from_utf8(scratch.read("ec.pem")).expect("text");
    let file = serde_json::json!({
        "type": "service_account", "private_key": key, "client_email": "a", "token_uri": url,
    });
    let path = scratch.path("file");
    assert_eq!(with_file(&scratch, &file.to_string(), &google).err(), Some(CloudError::File { path }));
}
