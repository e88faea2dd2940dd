//! What the slides state in words and numbers. Their charts' bars have no numbers, and none are read off them here.

/// Where the statements come from.
pub const SOURCE: &str = "the slides \"Linux Kernel Encryption Support for File system\" (LG Electronics, 2016; four cores of 0.6 to 1 GHz, AES in software)";

/// What is compared there: dm-crypt with aes-cbc-essiv:sha256, ext4's encryption with aes-xts, eCryptfs with aes-cbc.
/// Slide, what it is about, and the labels of its charts in the order in which its text has them.
pub const STATEMENTS: [(u32, &str, &str); 6] = [
    (4, "sequential write and read, encrypted against ext4, one core", "-40 %, -60 %"),
    (13, "sequential read with 1, 2 and 4 cores: how it scales", "x1, x2, x2"),
    (15, "sequential write with 1 and 2 cores: how it scales", "x2, x2, x1"),
    (18, "sequential read of ext4's encryption: what decryption costs", "-75 %"),
    (21, "sequential read of ext4's encryption: decryption on several threads", "+50 %"),
    (21, "random read of ext4's encryption: decryption on several threads", "-18 %"),
];

/// What its last slide concludes.
pub const CONCLUSIONS: [&str; 5] = [
    "sequential read drops significantly where the CPU encrypts",
    "what decryption costs: sequential read far more than random read",
    "sequential write falls slightly, but for eCryptfs",
    "eCryptfs scales less with the number of cores",
    "decryption on several threads improves sequential read",
];
