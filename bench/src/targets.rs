//! What has to be reached, on which kind of CPU, against whom; and whether it was.

use atrest_cipher::{BackendChoice, VectorChoice};

use crate::case::{Case, Cipher, Place};
use crate::ciphers::Column;
use crate::limit;
use crate::peers::{HCTR2_RS, IPSEC_MB, OPENSSL_3, OPENSSL_4};
use crate::report::Report;

/// What a speed is divided by.
#[derive(Clone, Copy)]
enum Against {
    BestPeer,
    Peer(&'static str),
    Authors,
    /// The rounds of AES alone, in registers.
    Rounds,
    /// An xor of all data in place.
    Xor,
}

use Against::{Authors, BestPeer, Peer, Rounds, Xor};

/// Records every target of a column. Those of better CPUs are left out: nothing here could reach them.
pub fn judge(column: &Column, report: &mut Report) {
    let case = &column.case;
    let mut targets: Vec<(Option<&str>, Against, f64)> = Vec::new();
    let vaes = BackendChoice::detected().any(|backend| backend.name() == "vaes-512");
    let wide_vectors = VectorChoice::best().name().starts_with("avx512");
    if vaes || wide_vectors && case.cipher.is_mostly_vectors() {
        targets.extend(best(case).iter().map(|(against, ratio)| (None, *against, *ratio)));
    }
    if matches!(case.cipher, Cipher::Aes256Xts | Cipher::Aes128Xts) && case.place == Place::Cache {
        for (backend, large) in [("vaes-256", 1.3), ("aes-ni", 1.05)] {
            let ratio = if case.unit == 512 { 1.8 } else { large };
            targets.push((Some(backend), Peer(OPENSSL_3), ratio));
        }
    }
    for (backend, against, target) in targets {
        let ours = match backend {
            Some(backend) => column.named(&format!("**atrest**, {backend}")),
            None => column.ours(),
        };
        let rounds = limit::rounds_name(BackendChoice::best().name());
        let other = match against {
            BestPeer => column.best_peer(),
            Peer(name) => column.named(name),
            Authors => column.authors(),
            Rounds => column.named(&rounds),
            Xor => column.named(limit::XOR),
        };
        if let (Some(ours), Some(other)) = (ours, other) {
            let name = ours.name.replace("**atrest**, ", "");
            let what = format!("{}, {}, {name}", case.cipher.title(), case.head());
            report.target(&what, &other.name, ours.gbs / other.gbs, target);
        }
    }
}

/// With AVX-512 and VAES (Adiantum and HPolyC: with AVX-512).
fn best(case: &Case) -> &'static [(Against, f64)] {
    match (case.cipher, case.encrypt, case.place, case.unit) {
        (Cipher::Aes256Xts, _, Place::Cache, 512) => &[(BestPeer, 1.6), (Rounds, 0.82)],
        (Cipher::Aes256Xts, _, Place::Cache, 4096) => &[(BestPeer, 1.05), (Rounds, 0.95)],
        (Cipher::Aes256Xts, _, Place::Memory, _) => &[(BestPeer, 1.5), (Xor, 0.8)],
        (Cipher::Aes128Xts, _, Place::Cache, 512) => &[(BestPeer, 1.5), (Rounds, 0.66)],
        (Cipher::Aes128Xts, _, Place::Cache, 4096) => &[(BestPeer, 1.05), (Rounds, 0.92)],
        (Cipher::Aes128Xts, _, Place::Memory, _) => &[(BestPeer, 1.5)],
        (Cipher::CbcEssiv, true, _, 512) => &[(Peer(IPSEC_MB), 1.7), (Peer(OPENSSL_4), 10.0)],
        (Cipher::CbcEssiv, true, _, 4096) => &[(Peer(IPSEC_MB), 0.95), (Peer(OPENSSL_4), 9.0)],
        (Cipher::CbcEssiv, false, _, 512) => &[(BestPeer, 1.35)],
        (Cipher::CbcEssiv, false, _, 4096) => &[(BestPeer, 1.04)],
        (Cipher::Adiantum12, _, Place::Cache, 512) => &[(Authors, 2.6)],
        (Cipher::Adiantum12, _, Place::Cache, 4096) => &[(Authors, 1.5)],
        (Cipher::Adiantum12, _, Place::Memory, _) => &[(Authors, 1.4)],
        (Cipher::Adiantum20, _, _, 512) => &[(Authors, 2.8)],
        (Cipher::Adiantum20, _, _, 4096) => &[(Authors, 1.6)],
        (Cipher::HPolyC12, _, _, 512) => &[(Authors, 5.0)],
        (Cipher::HPolyC12, _, _, 4096) => &[(Authors, 4.5)],
        (Cipher::Hctr2, _, _, 512) => &[(Authors, 2.0), (Peer(HCTR2_RS), 16.0)],
        (Cipher::Hctr2, _, _, 4096) => &[(Authors, 2.5)],
        _ => &[],
    }
}
