//! Tests of what no caller sees. They are functions beside the code, and the program `tests/it` runs them.
//!
//! As unit tests they would cost a second compilation of the whole crate, which takes most of a minute. So they are part of
//! the library, under a feature that only this crate's own tests turn on.

#[cfg(target_arch = "x86_64")]
pub use crate::backend::{
    lanes::planted::encrypt_with_both as encrypt_with_a_branch_planted,
    portable::planted::encrypt_with_both as encrypt_with_a_table_planted,
};

use crate::mode::Mode;
use crate::spec::CipherSpec;

/// The modes that none of these specifications has: what a list for all modes has to hold besides. Of each the name, and
/// whether it is marked as constant-time.
pub fn modes_without(specs: &[&str]) -> impl Iterator<Item = (&'static str, bool)> {
    let is_missing = |mode: &Mode| {
        !specs.iter().any(|spec| spec.parse::<CipherSpec>().is_ok_and(|spec| spec.mode == *mode))
    };
    Mode::ALL.iter().copied().filter(is_missing).map(|mode| (mode.facts().name, mode.facts().constant_time))
}

/// Calls the macro `$each` with the name and the module of every test.
///
/// The library and the test program both take the list from here. A test that is missing in it is dead code, of which
/// the compiler warns.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_internal_test {
    ($each:ident) => {
        $each! {
            every_word_moves_rows_and_columns_as_it_says in backend::portable::word,
            plane_i_holds_bit_i in backend::portable::word,
            a_block_of_chacha20_is_that_of_rfc_8439 in chacha,
            hchacha20_is_that_of_the_xchacha_draft in chacha,
            padded_messages_give_the_published_digests in data_rule::lmk::md5,
            powers_of_x_agree_with_repeated_doubling in gf128,
            high_powers_of_x_agree_with_repeated_doubling in gf128,
            multiplication_is_commutative_and_agrees_with_powers_of_x in gf128,
            the_index_wraps_at_2_to_the_128 in mode::lrw,
            a_key_that_is_refused_is_an_error_and_not_a_unit_of_zeros in multi,
            a_tag_is_that_of_rfc_8439 in poly1305,
            sums_around_the_modulus_are_reduced_as_in_rfc_8439 in poly1305,
            polyval_agrees_with_rfc_8452 in backend::polyval,
            #[cfg(target_pointer_width = "64")]
            words_of_either_size_give_the_same_products in backend::polyval,
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            powers_multiply_as_the_key_does_many_times in backend::polyval,
            the_permutations_are_those_of_the_paper in twofish,
            any_number_of_blocks_comes_back in twofish,
        }
    };
}

macro_rules! public {
    ($($(#[$only:meta])* $test:ident in $($module:ident)::+,)+) => {$(
        $(#[$only])*
        pub fn $test() {
            crate::$($module)::+::tests::$test();
        }
    )+};
}
for_each_internal_test!(public);
