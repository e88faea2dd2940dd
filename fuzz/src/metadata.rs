//! The records that google/fscrypt keeps in `.fscrypt`.

use atrest_tree::fscrypt::metadata::{ProtectorSource, parse_policy, parse_protector};

/// A policy or a protector: whichever it is, what is accepted keeps its promises.
pub fn fscrypt_metadata(data: &[u8]) {
    if let Ok(protector) = parse_protector(data)
        && let ProtectorSource::LoginPassphrase { hashing, .. } | ProtectorSource::CustomPassphrase(hashing) =
            protector.source
    {
        assert!(hashing.cost.check().is_ok(), "hostile costs are accepted");
    }
    if let Ok(policy) = parse_policy(data) {
        assert!([4, 8, 16, 32].contains(&policy.padding) && policy.contents != 0 && policy.filenames != 0);
        // Each slot takes more than a hundred bytes of the record.
        assert!(policy.keys.len() <= data.len() / 100);
    }
}
