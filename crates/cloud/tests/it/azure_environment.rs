//! Where settings and credentials of Azure are found, and which of them counts.

use atrest_cloud::CloudError;
use atrest_cloud::azure::{AzureLocation, AzureStore, Settings};
use atrest_testkit::Scratch;

use crate::environment::service;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn read(pairs: Pairs<'_>) -> Result<Settings, CloudError> {
    Settings::read(&|name| {
        pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

fn open(pairs: Pairs<'_>) -> Result<String, CloudError> {
    AzureStore::open(&AzureLocation::parse("az://disks/v")?, read(pairs)?).map(|store| format!("{store:?}"))
}

const ACCOUNT: (&str, &str) = ("AZURE_STORAGE_ACCOUNT", "mine");
const KEY: (&str, &str) = ("AZURE_STORAGE_KEY", "aGlkZGVu");
const SIGNATURE: (&str, &str) = ("AZURE_STORAGE_SAS_TOKEN", "sv=2022-11-02&sig=hidden");
const STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";
const ENDPOINT: &str = "AZURE_STORAGE_SERVICE_ENDPOINT";

fn wrong<T>(name: &'static str) -> Result<T, CloudError> {
    Err(CloudError::Setting { name })
}

#[test]
fn an_account_is_in_the_name_of_the_host_or_in_an_endpoint() {
    let at = |more: Pairs<'_>| open(&[&[ACCOUNT, KEY], more].concat()).expect("a store");
    assert!(at(&[]).contains("host: \"mine.blob.core.windows.net\", base: \"/disks\", prefix: \"v/\""));
    let own = at(&[(ENDPOINT, "http://[::1]:10000/mine/")]);
    assert!(own.contains("host: \"[::1]:10000\", base: \"/mine/disks\""), "{own}");
    let china = (STRING, "AccountName=other;AccountKey=aGlkZGVu;EndpointSuffix=core.chinacloudapi.cn");
    // It goes before all others.
    let both = at(&[china, (ENDPOINT, "http://localhost:1")]);
    assert!(
        both.contains("other.blob.core.chinacloudapi.cn") && both.contains("account: \"other\""),
        "{both}"
    );
    let emulated = open(&[(STRING, "UseDevelopmentStorage=true")]).expect("a store");
    assert!(emulated.contains("host: \"127.0.0.1:10000\", base: \"/devstoreaccount1/disks\""), "{emulated}");
    for bad in [
        "ftp://a",
        "http://",
        "http://a:0",
        "a",
        "http://u@a",
        "http://a/b c",
        "http://a//b",
        "http://a/../b",
    ] {
        assert_eq!(open(&[ACCOUNT, KEY, (ENDPOINT, bad)]), wrong(ENDPOINT), "{bad}");
    }
    for bad in ["a", "with space", "Mine", "mine/../x", "mine.example.org"] {
        assert_eq!(open(&[("AZURE_STORAGE_ACCOUNT", bad), KEY]), wrong("AZURE_STORAGE_ACCOUNT"), "{bad}");
    }
    for bad in [
        "no",
        "AccountName=UPPER;AccountKey=aGlkZGVu",
        "AccountName=mine;AccountKey=?",
        "BlobEndpoint=x;AccountKey=aGlkZGVu",
    ] {
        assert_eq!(open(&[(STRING, bad)]), wrong(STRING), "{bad}");
    }
}

#[test]
fn a_key_is_base64_and_a_signature_is_a_part_of_a_query() {
    for bad in ["hidden!", "aGlkZGVu=", "=", &"a".repeat(2000)] {
        assert_eq!(open(&[ACCOUNT, ("AZURE_STORAGE_KEY", bad)]), wrong("AZURE_STORAGE_KEY"), "{bad}");
    }
    // A key is somebody's.
    assert_eq!(open(&[KEY, (ENDPOINT, "https://a.example.org")]), wrong("AZURE_STORAGE_ACCOUNT"));
    // A signature needs no account where the endpoint is said.
    assert!(open(&[SIGNATURE, (ENDPOINT, "https://a.example.org")]).is_ok());
    for bad in ["?", "sv=1", "sig=", "sig=a b", "sig=a\r\nx: y", "sig=a#b", "sig=ü"] {
        let name = "AZURE_STORAGE_SAS_TOKEN";
        assert_eq!(open(&[ACCOUNT, (name, bad)]), wrong(name), "{bad}");
    }
    // In the clear it is sent nowhere but to this machine. A key is not sent at all.
    let far = (ENDPOINT, "http://a.example.org");
    assert_eq!(open(&[ACCOUNT, SIGNATURE, far]), wrong(ENDPOINT));
    assert!(open(&[ACCOUNT, SIGNATURE, (ENDPOINT, "http://127.0.0.1:10000/mine")]).is_ok());
    assert!(open(&[ACCOUNT, KEY, far]).is_ok());
    let both = open(&[ACCOUNT, SIGNATURE, KEY]).expect("a store");
    assert!(both.contains("Key"), "{both}");
}

#[test]
fn the_file_of_the_tools_is_read_and_the_environment_goes_before_it() {
    let scratch = Scratch::new();
    let home = scratch.as_path().display().to_string();
    scratch.directory(".azure");
    scratch.file(
        ".azure/config",
        b"[defaults]\naccount = wrong\n[storage]\naccount = infile\nkey = aGlkZGVu\n[cloud]\nname = AzureCloud\n",
    );
    let with = |more: Pairs<'_>| open(&[&[("HOME", home.as_str())], more].concat());
    assert!(with(&[]).expect("a store").contains("host: \"infile.blob.core.windows.net\""));
    assert!(with(&[ACCOUNT]).expect("a store").contains("account: \"mine\""));
    let other = scratch.directory("other").display().to_string();
    scratch.file(
        "other/config",
        format!(
            "[storage]\nconnection_string = BlobEndpoint=https://b.example.org;SharedAccessSignature={}\n",
            SIGNATURE.1
        ),
    );
    let elsewhere = with(&[("AZURE_CONFIG_DIR", &other)]).expect("a store");
    assert!(elsewhere.contains("host: \"b.example.org\"") && elsewhere.contains("Signature"), "{elsewhere}");
    assert_eq!(open(&[]), Err(CloudError::NoAzureCredentials));
    assert_eq!(open(&[KEY]), Err(CloudError::NoAzureCredentials));
    scratch.file(".azure/config", vec![b'a'; (1 << 20) + 1]);
    assert_eq!(with(&[]), Err(CloudError::File { path: scratch.path(".azure/config") }));
}

#[test]
fn nothing_that_is_printed_has_the_secret() {
    for pair in [KEY, SIGNATURE] {
        for text in [
            format!("{:?}", read(&[ACCOUNT, pair]).expect("settings")),
            open(&[ACCOUNT, pair]).expect("a store"),
        ] {
            assert!(
                !text.contains("hidden") && !text.contains("aGlkZGVu") && !text.contains("104, 105"),
                "{text}"
            );
        }
    }
}

#[test]
fn a_machine_asks_its_metadata_for_a_token() {
    let machine = |answer: &str, more: Pairs<'_>| {
        let line = match more.is_empty() {
            true => {
                "get /metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3a%2f%2fstorage.azure.com%2f "
            }
            false => {
                "get /metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3a%2f%2fstorage.azure.com%2f&client_id=ab-1 "
            }
        };
        let url = service(vec![(line, "metadata: true\r\n", answer.into())]);
        open(&[&[ACCOUNT, ("AZURE_POD_IDENTITY_AUTHORITY_HOST", &url)], more].concat())
            .map(|text| text.contains("Identity"))
    };
    let given = "{\"access_token\":\"hidden\",\"expires_in\":\"3599\",\"token_type\":\"Bearer\"}";
    assert_eq!(machine(given, &[]), Ok(true));
    assert_eq!(machine(given, &[("AZURE_CLIENT_ID", "AB-1")]), Ok(true));
    assert_eq!(machine(&given.replace("\"3599\"", "3599"), &[]), Ok(true));
    let none = Err(CloudError::NoAzureCredentials);
    assert_eq!(machine("{\"error\":\"invalid_request\"}", &[]), none);
    assert_eq!(machine(&given.replace("3599", "soon"), &[]), none);
    assert_eq!(machine(&given.replace("hidden", "a\\r\\nb"), &[]), none);
    assert_eq!(machine(&given.replace("hidden", ""), &[]), none);
    // It is of this machine.
    let far = [ACCOUNT, ("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://example.org")];
    assert_eq!(open(&far), wrong("AZURE_POD_IDENTITY_AUTHORITY_HOST"));
    assert_eq!(open(&[ACCOUNT, ("AZURE_CLIENT_ID", "a&b")]), wrong("AZURE_CLIENT_ID"));
    // Who is to be somebody else is not taken for the machine.
    let name = "AZURE_FEDERATED_TOKEN_FILE";
    assert_eq!(open(&[ACCOUNT, (name, "/a")]), Err(CloudError::AzureUnsupported { name }));
    assert!(open(&[ACCOUNT, KEY, (name, "/a")]).is_ok());
}
