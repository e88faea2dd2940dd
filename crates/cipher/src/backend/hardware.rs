//! The implementations of AES and the vector instructions that hardware brings: the one place that lists them. What is
//! added here, beside the module that implements it, is detected, has its name, and serves every mode.

use super::PortableAes;
use crate::mode::AnyMode;

/// Hands one of the lists, fastest first, to a macro, before what follows. An entry is a module, the proof in it, which
/// names variants as well, and the name that users see.
#[cfg(target_arch = "x86_64")]
macro_rules! listed {
    (aes, [$($to:tt)*] { $($rest:tt)* }) => { $crate::backend::hardware::listed_aes! { [$($to)*] { $($rest)* } } };
    (vectors, [$($to:tt)*] { $($rest:tt)* }) => {
        $($to)*! { [(lanes Avx512Ifma "avx512-ifma") (lanes Avx512 "avx512") (lanes Avx2 "avx2") (lanes Sse2 "sse2")] $($rest)* }
    };
}
#[cfg(all(target_arch = "x86_64", not(atrest_few_backends)))]
macro_rules! listed_aes {
    ([$($to:tt)*] { $($rest:tt)* }) => {
        $($to)*! {
            [(vaes Vaes512 "vaes-512") (vaes Vaes256 "vaes-256") (aesni AesNiAvx "aes-ni") (aesni AesNiSse "aes-ni-sse")]
            $($rest)*
        }
    };
}
/// A program with `--cfg atrest_few_backends` is 250 KB smaller: a CPU with AVX and without VAES runs what one without AVX runs.
#[cfg(all(target_arch = "x86_64", atrest_few_backends))]
macro_rules! listed_aes {
    ([$($to:tt)*] { $($rest:tt)* }) => {
        $($to)*! { [(vaes Vaes512 "vaes-512") (vaes Vaes256 "vaes-256") (aesni AesNiSse "aes-ni-sse")] $($rest)* }
    };
}
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
macro_rules! listed {
    (aes, [$($to:tt)*] { $($rest:tt)* }) => { $($to)*! { [(armv8 ArmCe "armv8-ce")] $($rest)* } };
    (vectors, [$($to:tt)*] { $($rest:tt)* }) => { $($to)*! { [(lanes Neon "neon")] $($rest)* } };
}
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
macro_rules! listed {
    ($list:ident, [$($to:tt)*] { $($rest:tt)* }) => { $($to)*! { [] $($rest)* } };
}

pub(crate) use listed;
#[cfg(target_arch = "x86_64")]
pub(crate) use listed_aes;

/// Defines a choice among a list: an enum of proofs.
macro_rules! choice {
    ([$(($module:ident $proof:ident $name:literal))*] $choice:ident) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $choice {
            Portable,
            $($proof(super::$module::$proof),)*
        }

        impl $choice {
            /// Everything this CPU can run, fastest first; asks the CPU no sooner than it is asked itself.
            pub(super) fn detected() -> impl Iterator<Item = Self> {
                let detections: &[fn() -> Option<Self>] =
                    &[$(|| super::$module::$proof::detect().map(Self::$proof),)* || Some(Self::Portable)];
                detections.iter().filter_map(|detect| detect())
            }

            pub(super) const fn name(self) -> &'static str {
                match self {
                    Self::Portable => "portable",
                    $(Self::$proof(_) => $name,)*
                }
            }
        }
    };
}

listed!(aes, [choice] { Kind });
listed!(vectors, [choice] { VectorKind });

/// What is made with AES keys: a type for each implementation of the cipher.
pub(crate) trait MadeOfAes {
    type With<C: AnyMode>;
}

macro_rules! any_aes {
    ([$(($module:ident $proof:ident $name:literal))*]) => {
        /// That with whichever AES was chosen at key set-up. Made by [`make_with_aes`], used by [`for_any_aes`].
        #[allow(clippy::large_enum_variant, reason = "there is no heap to put the large one on")]
        pub(crate) enum AnyAes<T: MadeOfAes> {
            Portable(T::With<PortableAes>),
            $($proof(T::With<super::Wide<super::$module::$proof>>),)*
        }

        impl<T: MadeOfAes> AnyAes<T> {
            /// Name of the implementation.
            pub(crate) fn name(&self) -> &'static str {
                match self {
                    Self::Portable(_) => "portable",
                    $(Self::$proof(_) => $name,)*
                }
            }
        }
    };
}

listed!(aes, [any_aes] {});

/// `make_with_aes!(choice, expand => made)`: an [`AnyAes`] with what is `made` where `expand` makes a key schedule, if AES
/// takes a key of that length.
macro_rules! make_with_aes {
    ($choice:expr, $expand:ident => $made:expr) => {
        $crate::backend::hardware::listed!(aes, [$crate::backend::hardware::make_with_one] { $choice, $expand, $made })
    };
}

macro_rules! make_with_one {
    ([$(($module:ident $proof:ident $name:literal))*] $choice:expr, $expand:ident, $made:expr) => {
        match $choice.kind() {
            $crate::backend::Kind::Portable => $crate::backend::AnyAes::Portable({
                let $expand = $crate::backend::PortableAes::new;
                $made
            }),
            $($crate::backend::Kind::$proof(cpu) => $crate::backend::AnyAes::$proof({
                let $expand = |key: &[u8]| $crate::backend::Wide::new(cpu, key);
                $made
            }),)*
        }
    };
}

/// `for_any_aes!(any, inside => call)`: the same call on whatever is inside.
macro_rules! for_any_aes {
    ($any:expr, $inside:ident => $call:expr) => {
        $crate::backend::hardware::listed!(aes, [$crate::backend::hardware::for_one_aes] { $any, $inside, $call })
    };
}

macro_rules! for_one_aes {
    ([$(($module:ident $proof:ident $name:literal))*] $any:expr, $inside:ident, $call:expr) => {
        match $any {
            $crate::backend::AnyAes::Portable($inside) => $call,
            $($crate::backend::AnyAes::$proof($inside) => $call,)*
        }
    };
}

/// `for_any_vectors!(choice, cpu => call, portable)`: a call with the proof, or without one what is portable.
macro_rules! for_any_vectors {
    ($choice:expr, $cpu:ident => $call:expr, $portable:expr) => {
        $crate::backend::hardware::listed!(vectors, [$crate::backend::hardware::for_one_set] {
            $choice, $cpu, $call, $portable
        })
    };
}

macro_rules! for_one_set {
    ([$(($module:ident $proof:ident $name:literal))*] $choice:expr, $cpu:ident, $call:expr, $portable:expr) => {
        match $choice.kind() {
            $crate::backend::VectorKind::Portable => $portable,
            $($crate::backend::VectorKind::$proof($cpu) => $call,)*
        }
    };
}

/// `for_any_kind!(choice, cpu => call, portable)`: a call with the proof of AES instructions, or without one what is portable.
macro_rules! for_any_kind {
    ($choice:expr, $cpu:ident => $call:expr, $portable:expr) => {
        $crate::backend::hardware::listed!(aes, [$crate::backend::hardware::for_one_kind] {
            $choice, $cpu, $call, $portable
        })
    };
}

macro_rules! for_one_kind {
    ([$(($module:ident $proof:ident $name:literal))*] $choice:expr, $cpu:ident, $call:expr, $portable:expr) => {
        match $choice.kind() {
            $crate::backend::Kind::Portable => $portable,
            $($crate::backend::Kind::$proof($cpu) => $call,)*
        }
    };
}

pub(crate) use {for_any_aes, for_any_vectors, for_one_aes, for_one_set, make_with_aes, make_with_one};
pub(crate) use {for_any_kind, for_one_kind};
