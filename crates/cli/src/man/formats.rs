//! A page of section 5 for each format: what it is, how to make and open it, and its limits. The texts lie in `man/`.

macro_rules! pages {
    ($($name:literal)*) => {
        /// Name of each format, and its page `atrest-NAME.5`.
        pub const PAGES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../man/atrest-", $name, ".5")))),*];
    };
}

pages!(
    "luks" "plain" "tcrypt" "bitlocker" "filevault" "ecryptfs" "fscrypt" "flash" "sealed" "sealed-volume" "verity"
    "integrity"
);
