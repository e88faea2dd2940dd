//! Where settings and credentials are found, and which of them counts.

use std::io::Write;
use std::net::TcpListener;
use std::thread;

use atrest_cloud::CloudError;
use atrest_cloud::s3::{S3Location, S3Store, Settings};
use atrest_testkit::Scratch;

use crate::requests;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn read(pairs: Pairs<'_>) -> Result<Settings, CloudError> {
    Settings::read(&|name| {
        pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

fn open(pairs: Pairs<'_>, url: &str) -> Result<String, CloudError> {
    S3Store::open(&S3Location::parse(url)?, read(pairs)?).map(|store| format!("{store:?}"))
}

const KEY: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hidden")];

#[test]
fn a_bucket_is_in_the_name_of_the_host_or_in_the_path() {
    let at = |more: Pairs<'_>, url: &str| open(&[&KEY, more].concat(), url).expect("a store");
    let aws = at(&[("AWS_REGION", "eu-west-1")], "s3://disks/v");
    assert!(aws.contains("host: \"disks.s3.eu-west-1.amazonaws.com\", base: \"\", prefix: \"v/\""), "{aws}");
    // No certificate is for a name with a further dot.
    let dotted = at(&[], "s3://my.disks");
    assert!(
        dotted.contains("host: \"s3.us-east-1.amazonaws.com\", base: \"/my.disks\", prefix: \"\""),
        "{dotted}"
    );
    let own = at(&[("AWS_ENDPOINT_URL", "http://[::1]:9000")], "s3://disks");
    assert!(own.contains("host: \"[::1]:9000\", base: \"/disks\""), "{own}");
    let both = [("AWS_ENDPOINT_URL", "http://a"), ("AWS_ENDPOINT_URL_S3", "https://b:8443/")];
    assert!(at(&both, "s3://disks").contains("host: \"b:8443\""));
    for bad in
        ["ftp://a", "http://", "http://a:0", "http://a:b", "http://a/path", "http://u@a", "a", "http://a b"]
    {
        let wrong = Err(CloudError::Setting { name: "AWS_ENDPOINT_URL" });
        assert_eq!(open(&[&KEY[..], &[("AWS_ENDPOINT_URL", bad)]].concat(), "s3://disks"), wrong, "{bad}");
    }
    let region = open(&[&KEY[..], &[("AWS_REGION", "eu/../x")]].concat(), "s3://disks");
    assert_eq!(region, Err(CloudError::Setting { name: "AWS_REGION" }));
}

#[test]
fn the_files_of_the_tools_are_read_and_the_environment_goes_before_them() {
    let scratch = Scratch::new();
    let home = scratch.as_path().display().to_string();
    scratch.directory(".aws");
    scratch.file(
        ".aws/credentials",
        b"[default]\naws_access_key_id = one\naws_secret_access_key = 1\n[work]\naws_access_key_id=two\n",
    );
    scratch.file(
        ".aws/config",
        b"[profile work]\nregion = eu-north-1\nendpoint_url = http://127.0.0.1:9\ns3 =\n  addressing_style = virtual\n[profile sso]\nsso_session = x\n\
          [profile role]\nrole_arn = x\n",
    );
    let with = |more: Pairs<'_>| open(&[&[("HOME", home.as_str())], more].concat(), "s3://disks");
    assert!(with(&[]).expect("a store").contains("disks.s3.us-east-1.amazonaws.com"));
    // An access key without its secret is a mistake.
    assert_eq!(with(&[("AWS_PROFILE", "work")]), Err(CloudError::Setting { name: "aws_secret_access_key" }));
    let keyed = [&KEY[..], &[("AWS_PROFILE", "work")]].concat();
    // No bucket's name goes before an address.
    assert!(with(&keyed).expect("a store").contains("host: \"127.0.0.1:9\", base: \"/disks\""));
    assert_eq!(with(&[("AWS_PROFILE", "none")]), Err(CloudError::NoProfile { name: "none".into() }));
    assert_eq!(with(&[("AWS_PROFILE", "sso")]), Err(CloudError::Unsupported { name: "sso_session" }));
    assert_eq!(with(&[("AWS_PROFILE", "role")]), Err(CloudError::Unsupported { name: "role_arn" }));
    assert_eq!(open(&[("AWS_EC2_METADATA_DISABLED", "true")], "s3://disks"), Err(CloudError::NoCredentials));
    assert_eq!(
        open(&[("AWS_ACCESS_KEY_ID", "id")], "s3://disks"),
        Err(CloudError::Setting { name: "AWS_SECRET_ACCESS_KEY" })
    );
    let line = [("AWS_ACCESS_KEY_ID", "id\r\nx: y"), ("AWS_SECRET_ACCESS_KEY", "1")];
    assert_eq!(open(&line, "s3://disks"), Err(CloudError::Setting { name: "AWS_ACCESS_KEY_ID" }));
    scratch.file(".aws/config", vec![b'a'; (1 << 20) + 1]);
    assert_eq!(with(&[]), Err(CloudError::File { path: scratch.path(".aws/config") }));
}

#[test]
fn nothing_that_is_printed_has_the_secret() {
    let settings = read(&[&KEY[..], &[("AWS_SESSION_TOKEN", "hidden")]].concat()).expect("settings");
    assert!(!format!("{settings:?}").contains("hidden"));
    assert!(!open(&KEY, "s3://disks").expect("a store").contains("hidden"));
}

/// Answers requests, one on each connection, whose first line begins so; the answer's body is JSON or text.
pub fn service(script: Vec<(&'static str, &'static str, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for (line, header, body) in script {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let Some(head) = requests::head(&mut stream) else { return };
            let text = head.to_lowercase();
            let status = if text.starts_with(line) && text.contains(header) { "200 OK" } else { "403 No" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            // Who asked may have gone.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

const GIVEN: &str = "{\"Code\":\"Success\",\"AccessKeyId\":\"id\",\"SecretAccessKey\":\"hidden\",\"Token\":\"t\",\"Expiration\":\"2999-01-01T00:00:00Z\"}";

#[test]
fn a_machine_asks_its_metadata_and_a_container_its_agent() {
    let machine = |last: &str| {
        let path = "/latest/meta-data/iam/security-credentials/";
        let url = service(vec![
            ("put /latest/api/token ", "x-aws-ec2-metadata-token-ttl-seconds: 300\r\n", "a token".into()),
            (
                "get /latest/meta-data/iam/security-credentials/ ",
                "x-aws-ec2-metadata-token: a token\r\n",
                "my role\n".into(),
            ),
            (
                Box::leak(format!("get {path}my%20role ").into_boxed_str()),
                "x-aws-ec2-metadata-token: a token\r\n",
                last.into(),
            ),
        ]);
        open(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url)], "s3://disks").map(|_| ())
    };
    assert_eq!(machine(GIVEN), Ok(()));
    assert_eq!(machine("{\"Code\":\"Failed\"}"), Err(CloudError::NoCredentials));
    assert_eq!(machine(&GIVEN.replace("2999-01-01T", "soon")), Err(CloudError::NoCredentials));
    // They have expired.
    assert_eq!(machine(&GIVEN.replace("\"id\"", "\"a\\nb\"")), Err(CloudError::NoCredentials));

    let url = service(vec![("get /v1?a=b ", "authorization: bearer x\r\n", GIVEN.into())]);
    let full = format!("{url}/v1?a=b");
    let agent = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", full.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer x"),
    ];
    assert!(open(&agent, "s3://disks").is_ok());
    // In the clear no stranger is asked.
    let far = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/")];
    assert_eq!(
        open(&far, "s3://disks"),
        Err(CloudError::Setting { name: "AWS_CONTAINER_CREDENTIALS_FULL_URI" })
    );
}
