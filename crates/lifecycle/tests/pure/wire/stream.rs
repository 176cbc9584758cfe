//! Frames out of streams that are cut anywhere.

use ojs_wire::frame::{Frame, FrameReader};
use ojs_wire::worker::{decode, too_long};
use proptest::prelude::*;

use super::vectors::{self, From};

/// A line, or that it was too long.
type Line = Option<Vec<u8>>;

/// All frames that a reader returns for one read.
fn read(reader: &mut FrameReader, mut input: &[u8]) -> Vec<Line> {
    let mut found = Vec::new();
    while let Some(frame) = reader.next_frame(&mut input) {
        found.push(match frame {
            Frame::Line(line) => Some(line.to_vec()),
            Frame::TooLong(_) => None,
        });
    }
    assert!(input.is_empty(), "something of a read was left");
    found
}

/// The slow and obvious way: the whole stream at once.
fn expected(stream: &[u8], max_bytes: usize) -> (Vec<Line>, Option<Vec<u8>>) {
    let mut lines: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    let last = lines.pop().unwrap();
    let within = |line: &[u8]| (line.len() <= max_bytes).then(|| line.to_vec());
    let mut frames: Vec<Line> = lines.into_iter().map(within).collect();
    if last.len() > max_bytes {
        frames.push(None);
    }
    (frames, within(last).filter(|last| !last.is_empty()))
}

fn every_line_of_the_vectors() -> Vec<u8> {
    let lines = vectors::from(From::Worker).into_iter().map(|vector| vector.line + "\n");
    lines.collect::<String>().into_bytes()
}

#[test]
fn a_stream_that_is_split_at_every_byte_means_the_same() {
    for vector in vectors::from(From::Worker) {
        let stream = format!("{}\n{}\n", vector.line, r#"{"type":"pong","id":1}"#).into_bytes();
        let whole = decode(vector.line.as_bytes());
        for cut in 0..=stream.len() {
            let mut reader = FrameReader::new(4096);
            let (first, second) = stream.split_at(cut);
            let mut lines = read(&mut reader, first);
            lines.extend(read(&mut reader, second));
            let said: Vec<_> = lines.into_iter().flatten().map(|line| decode(&line)).collect();
            assert_eq!(said.len(), 2);
            assert_eq!(said[0], whole, "{} cut at {cut}", vector.name);
        }
    }
}

#[test]
fn connections_that_come_in_byte_by_byte_and_in_turn_do_not_mix() {
    let stream = every_line_of_the_vectors();
    let backwards: Vec<u8> = stream
        .split_inclusive(|byte| *byte == b'\n')
        .rev()
        .flatten()
        .copied()
        .collect();
    let mut readers = [FrameReader::new(4096), FrameReader::new(4096), FrameReader::new(50)];
    let streams = [&stream, &backwards, &stream];
    let mut found = [Vec::new(), Vec::new(), Vec::new()];
    for position in 0..stream.len() {
        for ((reader, stream), found) in readers.iter_mut().zip(streams).zip(&mut found) {
            found.extend(read(reader, &stream[position..=position]));
        }
    }
    assert_eq!(found[0], expected(&stream, 4096).0);
    assert_eq!(found[1], expected(&backwards, 4096).0);
    assert_eq!(found[2], expected(&stream, 50).0);
}

#[test]
fn a_frame_without_its_line_feed_is_no_frame_but_is_not_forgotten() {
    let cut = br#"{"type":"ack","job_id":"job-1","result":1"#;
    let whole = br#"{"type":"ack","job_id":"job-1","result":1}"#;
    for last in [&cut[..], whole] {
        let mut reader = FrameReader::new(4096);
        assert_eq!(read(&mut reader, b"first\n"), [Some(b"first".to_vec())]);
        assert_eq!(read(&mut reader, last), []);
        assert_eq!(reader.unfinished(), Some(last));
    }
}

#[test]
fn after_a_frame_that_is_too_long_the_next_one_is_read() {
    let mut reader = FrameReader::new(100);
    let mut stream = vec![b'['; 1_000_000];
    stream.extend_from_slice(b"\n{\"type\":\"pong\",\"id\":1}\n");
    let mut said = Vec::new();
    for part in stream.chunks(4096) {
        for line in read(&mut reader, part) {
            said.push(line.map_or_else(|| too_long(&[b'x'; 100]), |line| decode(&line)));
        }
        assert!(reader.held() <= 100);
    }
    assert_eq!(said, [too_long(&[b'x'; 100]), decode(br#"{"type":"pong","id":1}"#)]);
}

#[test]
fn a_million_lines_in_one_read_and_a_long_line_in_a_million_reads_take_no_time() {
    let mut reader = FrameReader::new(4 << 20);
    assert_eq!(read(&mut reader, &b"{}\n".repeat(1_000_000)).len(), 1_000_000);
    let mut reader = FrameReader::new(4 << 20);
    let mut found = 0;
    for byte in [b'x'; 1 << 20].iter().chain(b"\n") {
        found += read(&mut reader, &[*byte]).len();
    }
    assert_eq!(found, 1);
}

/// Reads of any sizes with line feeds here and there.
fn reads() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let byte = prop_oneof![3 => Just(b'\n'), 10 => Just(b'x'), 1 => any::<u8>()];
    proptest::collection::vec(proptest::collection::vec(byte, 0..40), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn however_a_stream_is_cut_the_same_lines_come_out_of_bounded_memory(reads in reads(), max_bytes in 0_usize..30) {
        let mut reader = FrameReader::new(max_bytes);
        let mut found = Vec::new();
        for part in &reads {
            found.extend(read(&mut reader, part));
            prop_assert!(reader.held() <= max_bytes, "{} bytes held", reader.held());
        }
        let (frames, unfinished) = expected(&reads.concat(), max_bytes);
        prop_assert_eq!(found, frames);
        prop_assert_eq!(reader.unfinished().map(<[u8]>::to_vec), unfinished);
    }
}
