//! The connection string of a storage account: settings with a semicolon between ("Configure Azure Storage connection strings").

/// The account of every emulator, whose key is published ("Use the Azurite emulator").
const EMULATED: Connection<'static> = Connection {
    account: Some("devstoreaccount1"),
    key: Some("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="),
    signature: None,
    endpoint: Some("http://127.0.0.1:10000/devstoreaccount1"),
    protocol: None,
    suffix: None,
};

/// What it says.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Connection<'a> {
    pub(crate) account: Option<&'a str>,
    /// In base64.
    pub(crate) key: Option<&'a str>,
    /// A shared access signature.
    pub(crate) signature: Option<&'a str>,
    /// The URL of the Blob service.
    pub(crate) endpoint: Option<&'a str>,
    protocol: Option<&'a str>,
    suffix: Option<&'a str>,
}

impl<'a> Connection<'a> {
    /// Reads one. `None` if it is none. What is for other services is left out.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let mut found = Self::default();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=')?;
            let place = match name.to_ascii_lowercase().as_str() {
                "usedevelopmentstorage" if value == "true" => return Some(EMULATED),
                "accountname" => &mut found.account,
                "accountkey" => &mut found.key,
                "sharedaccesssignature" => &mut found.signature,
                "blobendpoint" => &mut found.endpoint,
                "defaultendpointsprotocol" => &mut found.protocol,
                "endpointsuffix" => &mut found.suffix,
                _ => continue,
            };
            *place = Some(value);
        }
        (found != Self::default()).then_some(found)
    }

    /// The URL of the Blob service, if it says which account it is of.
    pub(crate) fn server(&self) -> Option<String> {
        let of_account = |account| {
            let protocol = self.protocol.unwrap_or("https"); // intended: the default.
            let suffix = self.suffix.unwrap_or("core.windows.net"); // intended: the public cloud.
            format!("{protocol}://{account}.blob.{suffix}")
        };
        self.endpoint.map(str::to_owned).or_else(|| self.account.map(of_account))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_names_an_account_and_its_server() {
        let text = "DefaultEndpointsProtocol=https;AccountName=disks;AccountKey=a+b/c==;EndpointSuffix=core.chinacloudapi.cn";
        let full = Connection::parse(text).expect("it is one");
        assert_eq!((full.account, full.key, full.signature), (Some("disks"), Some("a+b/c=="), None));
        assert_eq!(full.server().as_deref(), Some("https://disks.blob.core.chinacloudapi.cn"));
        let text = "BlobEndpoint=https://b.example.org/;QueueEndpoint=https://q;sharedaccesssignature=sv=2022-11-02&sig=x;";
        let shared = Connection::parse(text).expect("it is one");
        assert_eq!((shared.account, shared.signature), (None, Some("sv=2022-11-02&sig=x")));
        assert_eq!(shared.server().as_deref(), Some("https://b.example.org/"));
        let emulated = Connection::parse("UseDevelopmentStorage=true").expect("it is one");
        assert_eq!(emulated.server().as_deref(), Some("http://127.0.0.1:10000/devstoreaccount1"));
        assert_eq!(
            Connection::parse("AccountName=a").expect("it is one").server().as_deref(),
            Some("https://a.blob.core.windows.net")
        );
        for bad in ["", ";", "disks", "AccountName=a;b", "UseDevelopmentStorage=false"] {
            assert!(Connection::parse(bad).is_none(), "{bad}");
        }
    }
}
