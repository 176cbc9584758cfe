#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ojs_fuzz::job_lines(data));
