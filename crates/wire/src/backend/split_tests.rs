use proptest::prelude::*;

use super::*;
use crate::backend::delivery::fetched;

/// A body that was read in pieces of this size.
fn read(bytes: &[u8], piece: usize) -> JobsBody {
    let (mut reader, mut spare) = (JobsReader::default(), Spare::default());
    let mut read = 0;
    for piece in bytes.chunks(piece) {
        read += piece.len();
        reader.push(piece, bytes.len() - read, &mut spare);
        assert_eq!(reader.len(), read);
    }
    reader.into_body()
}

fn large(id: &str, more: &str) -> String {
    format!(r#"{{"id":"{id}","args":["{}"]{more}}}"#, "x".repeat(LARGE_JOB))
}

#[test]
fn large_jobs_are_taken_out_and_small_ones_stay() {
    let (a, c) = (large("a", r#","x":"\\\"]}""#), large("c", ",\"n\":[{}]"));
    let body = format!(r#"{{"jobs":[{a}, {{"id":"b"}},{c}],"job":null}}"#);
    for piece in [1, 7, 4096, usize::MAX] {
        let read = read(body.as_bytes(), piece);
        let texts: Vec<&str> = read.large.iter().map(|job| &*job.text).collect();
        assert_eq!(texts, [&a, &c], "in pieces of {piece}");
        let rest = r#"{"jobs":[{"":0}, {"id":"b"},{"":0}],"job":null}"#;
        assert_eq!(str::from_utf8(&read.rest).unwrap(), rest);
        assert_eq!(read.join(), body.as_bytes());
    }
}

#[test]
fn many_thousand_jobs_that_were_taken_out_are_put_back_with_one_copy_of_each_byte() {
    const JOBS: usize = 200_000;
    let at = |number: usize| 1 + number * (PLACEHOLDER.len() + 1);
    let rest = [b"[", &[PLACEHOLDER, b","].concat().repeat(JOBS)[..]].concat();
    let text = "x".repeat(PLACEHOLDER.len());
    let large = (0..JOBS).map(|number| LargeJob {
        at: at(number),
        text: text.clone(),
    });
    let body = JobsBody {
        rest,
        large: large.collect(),
    };
    let bytes = body.bytes();
    // If all bytes behind each job were moved, this would need minutes.
    let whole = body.join();
    assert_eq!(whole, format!("[{}", format!("{text},").repeat(JOBS)).into_bytes());
    assert_eq!((whole.len(), whole.capacity()), (bytes, bytes));
}

#[test]
fn a_large_job_keeps_the_memory_that_it_was_received_in() {
    let job = large("a", "");
    let body = read(format!(r#"{{"jobs":[{job}]}}"#).as_bytes(), 1000);
    let place = body.large[0].text.as_ptr();
    let delivery = fetched(body, usize::MAX).deliveries.remove(0);
    assert_eq!((delivery.envelope.as_ptr(), &*delivery.envelope), (place, &*job));
}

#[test]
fn the_memory_of_an_earlier_job_is_used_again() {
    let memory = Vec::with_capacity(2 * LARGE_JOB);
    let place = memory.as_ptr();
    let mut spare = Spare::default();
    spare.put(memory);
    let mut reader = JobsReader::default();
    reader.push(format!(r#"{{"jobs":[{}]}}"#, large("a", "")).as_bytes(), 0, &mut spare);
    let body = reader.into_body();
    assert_eq!(body.large[0].text.as_ptr(), place);
}

#[test]
fn memory_is_reserved_once_for_a_job_whose_length_is_known() {
    let body = format!(
        r#"{{"jobs":[{}]}}"#,
        large("a", &format!(r#","more":"{}""#, "y".repeat(1 << 20)))
    );
    let body = read(body.as_bytes(), 64 << 10);
    let text = &body.large[0].text;
    assert!(
        text.capacity() - text.len() < 100,
        "{} for {}",
        text.capacity(),
        text.len()
    );
}

#[test]
fn a_large_answer_means_the_same_wherever_it_breaks() {
    let whole = format!(
        r#"{{"jobs":[{},{{"id":"b"}},{}],"job":{{"id":"a"}}}}"#,
        large("a", ""),
        large("c", "\n")
    );
    let places = (0..60)
        .chain(LARGE_JOB..LARGE_JOB + 80)
        .chain(2 * LARGE_JOB..whole.len() + 1);
    for end in places.filter(|end| *end <= whole.len()) {
        let beginning = &whole.as_bytes()[..end];
        assert_eq!(
            fetched(read(beginning, 5000), usize::MAX),
            fetched(beginning.to_vec().into(), usize::MAX),
            "{end}"
        );
    }
    let at = whole.find("\"b\"").unwrap();
    for byte in [b'"', b'{', b'}', b']', b'\\', b'\n', 0xff, b'0'] {
        for at in [
            3,
            8,
            9,
            12,
            70,
            at - 8,
            at - 1,
            at + 3,
            at + 5,
            whole.len() - 14,
            whole.len() - 2,
        ] {
            let mut broken = whole.clone().into_bytes();
            broken[at] = byte;
            assert_eq!(
                fetched(read(&broken, 5000), usize::MAX),
                fetched(broken.clone().into(), usize::MAX),
                "{byte} at {at}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_means_the_same_in_pieces_and_as_a_whole(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(vec![
                    "{", "}", "[", "]", ",", ":", "\"", "\\", "\"id\":\"a\"", "\"jobs\":[", "\"job\":", "\n", "null", "{\"\":0}", "1",
                ]).prop_map(str::to_owned),
                Just(large("b", "")), Just(large("c", ",")), Just(large("d", ",\"x\":\"\\\"}\"").replace("}", "}\n")),
            ],
            0..8,
        ),
        piece in 1_usize..100_000,
        is_in_array in any::<bool>(),
    ) {
        let body = if is_in_array { format!("{{\"jobs\":[{}]}}", parts.concat()) } else { parts.concat() };
        let split = read(body.as_bytes(), piece);
        prop_assert_eq!(split.clone().join(), body.as_bytes());
        prop_assert_eq!(fetched(split, usize::MAX), fetched(body.into_bytes().into(), usize::MAX));
    }
}
