//! Every command that opens a volume or its header. `$O` says how the volume is opened, `$K` how its keyslots are, `$C` is
//! a cheap key derivation.

/// A command on the medium `m`.
pub struct Verb {
    pub line: &'static str,
    pub works: Works,
}

/// What a command works on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Works {
    /// The data: the header must stay as it is.
    OnData {
        /// It may write data. Otherwise it must change nothing at all.
        writes: bool,
    },
    /// The header.
    OnTheHeader,
}

const fn reads(line: &'static str) -> Verb {
    Verb { line, works: Works::OnData { writes: false } }
}

const fn writes(line: &'static str) -> Verb {
    Verb { line, works: Works::OnData { writes: true } }
}

const fn header(line: &'static str) -> Verb {
    Verb { line, works: Works::OnTheHeader }
}

pub const VERBS: &[Verb] = &[
    reads("open m --nbd ./sock $O --read-only --run true"),
    reads("open m --fuse dir $O --read-only --run true"),
    reads("mount m dir $O --read-only --run true"),
    reads("ls -l $O m /"),
    reads("cat $O m /f"),
    reads("cp -r $O m:/ copied"),
    reads("df $O m"),
    reads("decrypt $O m plain"),
    writes("open m --nbd ./sock $O --run true"),
    writes(
        "open m --fuse dir $O --run sh -c 'dd if=src of=$ATREST_PATH bs=4096 conv=notrunc 2>/dev/null; true'",
    ),
    writes("mount m dir $O --run sh -c 'cp src dir/ 2>/dev/null; true'"),
    writes("encrypt $O src m"),
    writes("cp $O src m:/g"),
    writes("mkdir $O m /d"),
    writes("rm -r $O m /f"),
    header("info m"),
    header("info --json m"),
    header("key list m"),
    header("key test $K m"),
    header("key add $K --new-key-file new $C m"),
    header("key add $K --new-key-file new --kdf pbkdf2 --pbkdf-force-iterations 1000 m"),
    header("key change $K --new-key-file new $C m"),
    header("key remove --yes $K m"),
    header("key kill --yes m 0"),
    header("key export --yes $K m vk"),
    header("key priority m 0 prefer"),
    header("token list m"),
    header("token import m token"),
    header("header backup m backup"),
    header("header restore --yes m good"),
    header("header restore --yes good-volume m"),
    header("header restore --yes good-volume m --replace-other-volume"),
    header("header set m --label x"),
    header("repair --yes m"),
    header("erase --yes m"),
    header("reencrypt $K $C m"),
    header("reencrypt --resume $K m"),
    header("encrypt --in-place --resume --reduce-device-size 2M $K m"),
    header("encrypt --in-place --reduce-device-size 2M $K $C m"),
    header("format $K $C m"),
];
