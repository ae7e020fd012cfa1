#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::qr_read::check(data));
