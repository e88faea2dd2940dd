#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| atrest_fuzz::luks2_json(data));

// Half of the changes keep the text JSON, so that they reach what looks at its meaning.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    match atrest_fuzz::mutate_json(&data[..size], u64::from(seed)) {
        Some(text) if seed % 2 == 0 && text.len() <= max_size => {
            data[..text.len()].copy_from_slice(&text);
            text.len()
        }
        _ => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
    }
});
