//! Where settings and credentials are found, and which of them counts.

use atrest_cloud::CloudError;
use atrest_cloud::google::Settings;
use atrest_testkit::Scratch;

use super::service::{Service, answer};
use super::{Pairs, open};

const GRANTED: &str = "{\"access_token\":\"hidden\",\"expires_in\":3600,\"token_type\":\"Bearer\"}";
/// Nobody listens there.
const NOBODY: (&str, &str) = ("GCE_METADATA_HOST", "127.0.0.1:1");

fn opened(pairs: Pairs<'_>) -> Result<String, CloudError> {
    open(pairs, "gs://disks/v").map(|store| format!("{store:?}"))
}

/// A user's file, whose tokens are had at a URL.
fn user(url: &str) -> String {
    format!(
        "{{\"type\":\"authorized_user\",\"client_id\":\"me\",\"client_secret\":\"hidden\",\"refresh_token\":\"hidden\",\
          \"token_uri\":\"{url}/token\",\"universe_domain\":\"googleapis.com\",\"quota_project_id\":\"x\"}}"
    )
}

#[test]
fn an_emulator_is_asked_as_nobody() {
    let at =
        |host: &str| opened(&[("STORAGE_EMULATOR_HOST", host), ("GOOGLE_APPLICATION_CREDENTIALS", "/none")]);
    let plain = at("127.0.0.1:4443").expect("a store");
    assert!(
        plain.contains("host: \"127.0.0.1:4443\", bucket: \"disks\", prefix: \"v/\", current: None"),
        "{plain}"
    );
    assert!(at("http://[::1]:9/").expect("a store").contains("host: \"[::1]:9\""));
    for bad in ["ftp://a", "http://", "a:0", "http://a:b", "http://a/path", "u@a", "a b"] {
        assert_eq!(at(bad), Err(CloudError::Setting { name: "STORAGE_EMULATOR_HOST" }), "{bad}");
    }
}

#[test]
fn a_token_is_sent_to_google_or_to_another_endpoint_by_tls_alone() {
    let tokens = Service::new(|_, _| answer("200 OK", GRANTED));
    let scratch = Scratch::new();
    let file = scratch.file("file", user(&tokens.url)).display().to_string();
    let at = |url: &str| {
        opened(&[
            ("GOOGLE_APPLICATION_CREDENTIALS", file.as_str()),
            ("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE", url),
        ])
    };
    let google = opened(&[("GOOGLE_APPLICATION_CREDENTIALS", file.as_str())]).expect("a store");
    assert!(google.contains("host: \"storage.googleapis.com\""), "{google}");
    assert!(google.contains("current: Some(Current(user))") && !google.contains("hidden"), "{google}");
    for url in ["https://storage-a.p.googleapis.com/", "https://storage-a.p.googleapis.com/storage/v1/"] {
        assert!(at(url).expect("a store").contains("host: \"storage-a.p.googleapis.com\""), "{url}");
    }
    assert!(at("http://localhost:9").is_ok());
    for bad in ["http://storage-a.p.googleapis.com/", "http://10.0.0.1", "storage", "https://a/b/"] {
        let name = "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE";
        assert_eq!(at(bad), Err(CloudError::Setting { name }), "{bad}");
    }
}

#[test]
fn the_file_that_is_named_goes_before_that_of_the_tools_and_that_before_a_machine() {
    let tokens = Service::new(|_, _| answer("200 OK", GRANTED));
    let metadata = Service::new(|_, _| answer("200 OK", GRANTED));
    let machine = ("GCE_METADATA_HOST", metadata.url.strip_prefix("http://").expect("a URL"));
    let scratch = Scratch::new();
    let home = scratch.as_path().display().to_string();
    let with = |more: Pairs<'_>| opened(&[&[("HOME", home.as_str()), machine], more].concat());
    assert!(with(&[]).expect("a store").contains("Current(machine)"));
    let asked = metadata.asked();
    assert_eq!(
        asked[0].line,
        "GET /computeMetadata/v1/instance/service-accounts/default/token\
         ?scopes=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fdevstorage.read_write"
    );
    assert!(asked[0].head.contains("\r\nmetadata-flavor: google"), "{asked:?}");
    assert_eq!(with(&[("NO_GCE_CHECK", "true")]), Err(CloudError::NoGoogleCredentials));

    std::fs::create_dir_all(scratch.path(".config/gcloud")).expect("a directory");
    let known = ".config/gcloud/application_default_credentials.json";
    scratch.file(known, user(&tokens.url));
    assert!(with(&[]).expect("a store").contains("Current(user)"));
    let other = scratch.directory("other");
    let config = other.display().to_string();
    assert!(with(&[("CLOUDSDK_CONFIG", &config)]).expect("a store").contains("Current(machine)"));
    scratch.file("other/application_default_credentials.json", user(&tokens.url));
    assert!(with(&[("CLOUDSDK_CONFIG", &config)]).expect("a store").contains("Current(user)"));

    let named = scratch.path("named");
    let name = named.display().to_string();
    let unusable = Err(CloudError::File { path: named });
    // One that is named and is not there is a mistake.
    assert_eq!(with(&[("GOOGLE_APPLICATION_CREDENTIALS", &name)]), unusable);
    scratch.file("named", user(&tokens.url));
    assert!(with(&[("GOOGLE_APPLICATION_CREDENTIALS", &name)]).expect("a store").contains("Current(user)"));
}

#[test]
fn a_machine_without_an_account_has_no_credentials() {
    assert_eq!(opened(&[NOBODY]), Err(CloudError::NoGoogleCredentials));
    let of = |status: &'static str, body: &'static str| {
        let metadata = Service::new(move |_, _| answer(status, body));
        opened(&[("GCE_METADATA_HOST", &metadata.url["http://".len()..])])
    };
    for (status, body) in [
        ("404 Not Found", "no such account"),
        ("200 OK", "<html></html>"),
        ("200 OK", "{\"access_token\":\"a\\nb\",\"expires_in\":9}"),
        ("200 OK", "{\"access_token\":\"a\",\"expires_in\":18446744073709551615}"),
        ("302 Found", GRANTED),
    ] {
        assert_eq!(of(status, body), Err(CloudError::NoGoogleCredentials), "{status} {body}");
    }
    assert!(of("200 OK", GRANTED).is_ok());
    let bad = [("GCE_METADATA_HOST", "http://a")];
    assert_eq!(opened(&bad), Err(CloudError::Setting { name: "GCE_METADATA_HOST" }));
}

#[test]
fn files_that_are_not_for_us_are_refused_by_name() {
    let scratch = Scratch::new();
    let of = |text: &str| {
        let path = scratch.file("file", text);
        opened(&[("GOOGLE_APPLICATION_CREDENTIALS", &path.display().to_string()), NOBODY])
    };
    for name in [
        "external_account",
        "external_account_authorized_user",
        "gdch_service_account",
        "impersonated_service_account",
    ] {
        let text = format!("{{\"type\":\"{name}\",\"audience\":{{}}}}");
        assert_eq!(of(&text), Err(CloudError::GoogleUnsupported { name }));
    }
    let elsewhere = user("https://oauth2.example.org").replace("googleapis.com", "example.org");
    assert_eq!(of(&elsewhere), Err(CloudError::GoogleUnsupported { name: "universe_domain" }));
    let unusable = Err(CloudError::File { path: scratch.path("file") });
    let long = format!("{}{}", user("https://oauth2.example.org"), " ".repeat(64 << 10));
    for bad in [
        "",
        "text",
        "{}",
        "{\"type\":\"other\"}",
        "{\"type\":\"authorized_user\",\"client_id\":\"a\",\"client_secret\":\"b\"}",
        "{\"type\":\"service_account\",\"client_email\":\"a\",\"private_key\":\"b\"}",
        // A secret goes nowhere in the clear but to this machine.
        &user("http://oauth2.example.org"),
        &user("http://127.0.0.1.example.org"),
        &user("ftp://127.0.0.1"),
        &user("oauth2.example.org"),
        &user("https://oauth2.example.org/a b"),
        &long,
    ] {
        assert_eq!(of(bad), unusable, "{bad:.100}");
    }
}

#[test]
fn nothing_that_is_printed_has_the_secret() {
    let tokens = Service::new(|_, _| answer("200 OK", GRANTED));
    let scratch = Scratch::new();
    let file = scratch.file("file", user(&tokens.url)).display().to_string();
    let settings = Settings::read(&|name| (name == "GOOGLE_APPLICATION_CREDENTIALS").then(|| file.clone()));
    let shown = format!("{:?}", settings.expect("settings"));
    assert!(shown.contains("Current(user)") && !shown.contains("hidden"), "{shown}");
}
