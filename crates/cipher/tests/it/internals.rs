//! Runs the tests of what no caller of the crate sees: they are beside the code.

use atrest_cipher::{for_each_internal_test, internals};

macro_rules! run {
    ($($(#[$only:meta])* $test:ident in $($module:ident)::+,)+) => {$(
        $(#[$only])*
        #[test]
        fn $test() {
            internals::$test();
        }
    )+};
}
for_each_internal_test!(run);
