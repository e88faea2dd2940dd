#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| atrest_fuzz::google(data));
