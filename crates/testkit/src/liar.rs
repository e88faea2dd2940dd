//! Servers on this machine that answer as a test says.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

/// What a hostile TPM does with each command.
pub type Answer = fn(&mut TcpStream);

/// Calls this for each connection, on a thread of its own; the address at which it listens.
pub fn listening(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A TPM that answers every command so: what `ATREST_TPM` says.
pub fn tpm(answer: Answer) -> String {
    let address = listening(move |mut connection| {
        let mut command = [0; 4096];
        while connection.read(&mut command).is_ok_and(|len| len > 0) {
            answer(&mut connection);
        }
    });
    format!("tcp:{address}")
}

/// What a hostile TPM answers, and what is said of it.
pub const TPM_LIES: &[(Answer, &str)] = &[
    // TPM_RC_FAILURE
    (|tpm| drop(tpm.write_all(&[0x80, 1, 0, 0, 0, 10, 0, 0, 1, 1])), "error 0x101"),
    // Bytes without end.
    (|tpm| while tpm.write_all(&[0x80; 4096]).is_ok() {}, "makes no sense"),
    // A length without end, and then nothing more.
    (|tpm| drop(tpm.write_all(&[0x80, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])), "makes no sense"),
    // It hangs up.
    (|tpm| drop(tpm.shutdown(Shutdown::Both)), "the TPM can't be reached"),
];
