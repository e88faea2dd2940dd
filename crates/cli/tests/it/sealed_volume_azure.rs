//! Sealed volumes on a real server of Azure Blob Storage. Our server is killed in the middle of writes, and that of Azure is stopped: the
//! ext4 inside is the one of the last flush that was acknowledged. An older state of the container is refused.

use std::thread;
use std::time::Duration;

use atrest_testkit::Azurite;

use crate::common::{CHEAP, Scratch};
use crate::sealed_volume_kills::{found, images, killed};
use crate::sealed_volume_s3::with;

const OPTIONS: [&str; 4] = ["--key-file", "key", "--store", "store"];
/// Times that the volume's server is killed. In the first of them Azurite is stopped before.
const KILLS: usize = 2;

#[test]
fn the_file_system_on_azure_is_that_of_the_last_flush_and_an_older_one_is_refused() {
    let images = images();
    let mut server = Azurite::new();
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    scratch.file("first", &images[0]);
    let url = format!("az://{}/a volume/1", Azurite::CONTAINER);
    let environment = server.environment();
    let run = |words: &[&str]| with(&environment, &scratch, &[words, &OPTIONS].concat());
    run(&[&["format", &url, "--type", "sealed", "--size", "4M"], &CHEAP[..]].concat()).ok();
    run(&["encrypt", "first", &url, "--yes"]).ok();
    let name = format!("azure-{}", std::process::id());
    let mut state = 0;
    for kill in 0..KILLS {
        run(&["open", &url, "--nbd", "--daemon", "--name", &name]).ok();
        let acknowledged = state
            + killed(&scratch, &name, &images, state, |flushed| {
                flushed.wait_for(3);
                if kill == 0 {
                    server.stop();
                    thread::sleep(Duration::from_millis(300));
                    server.restart();
                    // Who writes has waited, and goes on. The one under way when it was stopped may be the first.
                    flushed.wait_for(flushed.count() + 2);
                }
            });
        run(&["decrypt", &url, "whole", "--yes"]).ok();
        state = found(&scratch, &images, acknowledged);
        if kill == 0 {
            server.stop();
            scratch.bash(&format!("cp -r '{}' older", server.data().display())).ok();
            server.restart();
        }
    }
    run(&["gc", &url]).ok();
    // The owner of the storage puts back what was there after the first kill.
    let put_back = |server: &mut Azurite, from: &str| {
        server.stop();
        let place = server.data().display().to_string();
        scratch.bash(&format!("rm -rf '{place}'/* && cp -r {from}/* '{place}'")).ok();
        server.restart();
    };
    server.stop();
    scratch.bash(&format!("cp -r '{}' newest", server.data().display())).ok();
    put_back(&mut server, "older");
    run(&["decrypt", &url, "whole", "--yes"]).fails(4, "older state");
    put_back(&mut server, "newest");
    run(&["decrypt", &url, "whole", "--yes"]).ok();
    assert_eq!(found(&scratch, &images, state), state);
}

#[test]
fn a_volume_on_azure_is_used_by_the_commands_that_a_directory_is_used_by() {
    let server = Azurite::new();
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    // All that is needed is in one string, as Azure's portal shows it.
    let environment = [("AZURE_STORAGE_CONNECTION_STRING", server.connection_string())];
    let url = format!("az://{}/v", Azurite::CONTAINER);
    let run = |words: &[&str]| with(&environment, &scratch, &[words, &OPTIONS].concat());
    let format = [&["format", &url, "--type", "sealed", "--size", "16M"], &CHEAP[..]].concat();
    run(&format).ok();
    run(&[&format[..], &["--yes"]].concat()).fails(5, "a volume is there already");
    scratch.bash("mkdir files && head -c 100000 /dev/urandom > files/noise").ok();
    scratch.bash("truncate -s 16M plain && mke2fs -q -t ext4 -d files plain").ok();
    run(&["encrypt", "plain", &url, "--yes"]).ok();
    assert!(run(&["cat", &url, "/noise"]).ok().raw == scratch.read("files/noise"));
    run(&["snapshot", "add", &url, "monday"]).ok();
    scratch.bash("truncate -s 16M empty && mke2fs -q -t ext4 empty").ok();
    run(&["encrypt", "empty", &url, "--yes"]).ok();
    assert!(!run(&["ls", &url]).ok().stdout.contains("noise"));
    assert!(run(&["ls", &url, "--snapshot", "monday"]).ok().stdout.contains("noise"));
    run(&["snapshot", "remove", &url, "monday"]).ok();
    run(&["gc", &url]).ok();
    run(&["scrub", &url]).ok();
    run(&["decrypt", &url, "whole"]).ok();
    assert!(scratch.read("whole") == scratch.read("empty"));
    let info = with(&environment, &scratch, &["info", "--json", &url]).ok().json();
    assert_eq!(info["stored"]["headers"]["objects"], 1, "{info}");
    assert!(info["stored"]["log_objects"]["bytes"].as_u64().expect("bytes") > 0, "{info}");
}

#[test]
fn an_account_that_is_not_known_not_there_or_without_credentials_is_refused_in_words_of_azure() {
    let server = Azurite::new();
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    let run = |environment: &[(&str, String)], url: &str| {
        let words = ["format", url, "--type", "sealed", "--size", "1M", "--key-file", "key"];
        let ran = with(environment, &scratch, &[&words[..], &CHEAP].concat());
        assert!(!ran.stderr.contains("AWS_") && !ran.stderr.contains("s3://"), "{}", ran.stderr);
        ran
    };
    let environment = server.environment();
    let url = format!("az://{}/v", Azurite::CONTAINER);
    run(&environment, "az://UPPER/v").fails(1, "no container can have this name");
    run(&environment, "az://disks/a//b").fails(1, "az://CONTAINER/PREFIX");
    run(&environment, "az://none/v").fails(4, "is there such a container?");
    let with_key = |key: &str| [&server.place()[..], &[("AZURE_STORAGE_KEY", key.into())]].concat();
    run(&with_key("YW5vdGhlcg=="), &url).fails(2, "credentials");
    run(&with_key("no base64"), &url).fails(1, "AZURE_STORAGE_KEY can't be used");
    let signature = [&server.place()[..], &[("AZURE_STORAGE_SAS_TOKEN", server.signature("rl"))]].concat();
    run(&signature, &url).fails(2, "AZURE_STORAGE_SAS_TOKEN), may they list, read, write, create and delete");
    let none = [("AZURE_CONFIG_DIR", "/nonexistent".to_owned())];
    run(&none, &url).fails(2, "AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY");
    let other = [&server.place()[..], &[("AZURE_FEDERATED_TOKEN_FILE", "/token".into())]].concat();
    run(&other, &url).fails(2, "AZURE_FEDERATED_TOKEN_FILE is set, which is not supported");
    with(&environment, &scratch, &["info", &url]).fails(4, "no sealed volume is there");
}
