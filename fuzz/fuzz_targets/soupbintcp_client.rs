#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| damrak_fuzz::soupbintcp_client(bytes));
