//! A server of S3 and two ways to it, for `bench/sealed-s3`: one that answers at once, and one that answers so many milliseconds later as
//! the argument says. It prints a line of JSON with the ports and the environment, and for each line that it reads one with what went
//! through since. It ends with its input.

use std::io::BufRead;
use std::time::Duration;

use atrest_testkit::{Counts, S3Proxy, S3Server};
use serde_json::{Value, json};

fn main() {
    let delay = std::env::args().nth(1).and_then(|word| word.parse().ok()).expect("milliseconds");
    let server = S3Server::new();
    let ways = [0, delay].map(|delay| S3Proxy::new(server.port(), Duration::from_millis(delay)));
    let environment: Value =
        server.environment().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let ports: Vec<u16> = ways.iter().map(S3Proxy::port).collect();
    println!("{}", json!({ "ports": ports, "environment": environment, "bucket": S3Server::BUCKET }));
    for line in std::io::stdin().lock().lines() {
        line.expect("input is read");
        let told = |Counts { requests, sent, received }| json!({ "requests": requests, "sent": sent, "received": received });
        println!("{}", json!(ways.each_ref().map(|way| told(way.counts()))));
    }
}
