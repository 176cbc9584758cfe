//! The log: its filter, and its reports of lost records.

use std::path::Path;

use super::*;

/// A standard error on a disk that is full until space is made.
struct Disk {
    is_full: bool,
    written: String,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_full {
            return Err(io::Error::from_raw_os_error(Errno::ENOSPC as i32));
        }
        self.written += &String::from_utf8_lossy(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_part_with_a_level_of_its_own_writes_what_the_others_do_not() {
    let levels = LogLevels {
        level: Level::Info,
        parts: vec![("gateway", Level::Debug)],
    };
    let log = Sink::new(LogFormat::Text, &levels);
    let wants = |target: &str, level: Level| log.wants(&Metadata::builder().target(target).level(level).build());
    let gateway = concat!(env!("CARGO_CRATE_NAME"), "::daemon::gateway::link");
    let backend = concat!(env!("CARGO_CRATE_NAME"), "::daemon::backend::client");
    assert!(wants(gateway, Level::Debug) && !wants(gateway, Level::Trace));
    assert!(wants(backend, Level::Info) && !wants(backend, Level::Debug));
    assert!(!wants("rustls::client", Level::Info));
}

/// A part that is in the list and has no module would have no effect.
#[test]
fn every_part_of_the_log_is_a_module() {
    for (part, module) in LOG_PARTS {
        let path = format!("{}/src/{}", env!("CARGO_MANIFEST_DIR"), module.replace("::", "/"));
        let is_module = [format!("{path}.rs"), format!("{path}/mod.rs")]
            .iter()
            .any(|file| Path::new(file).exists());
        assert!(is_module, "{part}: {module}");
    }
}

#[test]
fn records_that_a_full_disk_did_not_take_are_counted_until_one_tells_of_them() {
    let log = Sink::new(LogFormat::Text, &LogLevels::all(Level::Info));
    let mut disk = Disk {
        is_full: true,
        written: String::new(),
    };
    let records = |count: usize| (0..count).map(|number| format!("record {number}\n")).collect();
    let unsaid = || std::mem::take(&mut log.lock().unsaid);
    log.write(records(3), Unsaid::default(), &mut disk);
    log.write(records(2), unsaid(), &mut disk);
    disk.is_full = false;
    log.write(records(1), unsaid(), &mut disk);
    let said = "5 log records dropped: standard error cannot be written: no space left on device\n";
    assert!(
        disk.written.starts_with("record 0\n") && disk.written.ends_with(said),
        "{}",
        disk.written
    );
    assert_eq!((unsaid(), log.lock().dropped), (Unsaid::default(), 5));
    log.lock().drop_one();
    log.write(records(0), unsaid(), &mut disk);
    assert!(
        disk.written
            .ends_with("1 log record dropped: standard error is too slow\n"),
        "{}",
        disk.written
    );
}

#[test]
fn no_level_lets_the_records_of_dependencies_through() {
    let log = Sink::new(LogFormat::Json, &LogLevels::all(Level::Trace));
    let is_written = |target, level| log.wants(&Metadata::builder().target(target).level(level).build());
    for target in ["ureq_proto::util", "ureq", "rustls::conn", "mio", "ojs_initial", ""] {
        assert!(
            !is_written(target, Level::Trace) && !is_written(target, Level::Error),
            "{target}"
        );
    }
    assert!(is_written("ojs_init::daemon::backend::http", Level::Trace) && is_written("ojs_init", Level::Trace));
}

#[test]
fn records_are_written_whole_and_together_as_far_as_a_pipe_takes_them_in_one_piece() {
    let record = |length: usize| "x".repeat(length);
    let records = VecDeque::from([record(4000), record(96), record(1), record(5000), record(1), record(1)]);
    let lengths: Vec<(usize, usize)> = batches(records)
        .iter()
        .map(|(batch, count)| (batch.len(), *count))
        .collect();
    assert_eq!(lengths, [(4096, 2), (1, 1), (5000, 1), (2, 2)]);
    assert_eq!(batches(VecDeque::new()), []);
}

#[test]
fn a_flood_is_told_of_once_a_second_and_with_its_sum() {
    let mut queue = Queue::default();
    let at = Duration::from_millis;
    assert_eq!(queue.until_loss(at(5000)), None);
    queue.drop_one();
    assert_eq!(queue.take_loss(at(5000)).records, 1);
    (0..3).for_each(|_| queue.drop_one());
    assert_eq!(queue.take_loss(at(5100)).records, 0);
    queue.drop_one();
    assert_eq!(queue.until_loss(at(5100)), Some(at(900)));
    assert_eq!(queue.take_loss(at(6000)).records, 4);
    queue.drop_one();
    assert_eq!(queue.take_loss(at(6100)).records, 0);
    queue.is_ending = true;
    assert_eq!(queue.take_loss(at(6100)).records, 1);
}

#[test]
fn what_went_wrong_has_room_when_what_went_well_has_none_left() {
    let mut queue = Queue::default();
    while queue.has_room_for(100, Level::Info) {
        queue.records.push_back(String::new());
        queue.bytes += 100;
    }
    assert_eq!(queue.records.len(), QUEUE_RECORDS - QUEUE_RECORDS / RESERVED_PART);
    assert!(queue.has_room_for(100, Level::Warn));
    let mut queue = Queue {
        bytes: QUEUE_BYTES - QUEUE_BYTES / RESERVED_PART,
        ..Queue::default()
    };
    assert!(queue.has_room_for(100, Level::Error) && !queue.has_room_for(100, Level::Debug));
    queue.bytes = QUEUE_BYTES;
    assert!(!queue.has_room_for(100, Level::Error));
}

#[test]
fn the_last_record_is_written_although_the_writer_runs_late() {
    let log: &'static Sink = Box::leak(Box::new(Sink::new(LogFormat::Text, &LogLevels::all(Level::Info))));
    log.lock().writer_started = true;
    log.add("the end\n".to_owned(), Level::Info);
    let writer = std::thread::spawn(|| {
        while !log.lock().is_ending {
            std::thread::yield_now();
        }
        // The kernel leaves it without CPU time.
        std::thread::park_timeout(FLUSH_LIMIT + FLUSH_LIMIT / 2);
        let mut disk = Disk {
            is_full: false,
            written: String::new(),
        };
        let (records, dropped) = log.take();
        log.write(records, dropped, &mut disk);
        log.lock().writing = false;
        log.written.notify_all();
        disk.written
    });
    LogHandle(log).flush(None);
    assert!(!log.lock().has_something_to_say());
    assert_eq!(writer.join().unwrap(), "the end\n");
}

#[test]
fn the_exit_waits_for_a_late_writer_and_never_up_to_the_sigkill() {
    let after = |left| late_limit(left).as_millis();
    assert_eq!(after(None), 500);
    assert_eq!(after(Some(Duration::from_secs(30))), 500);
    assert_eq!(after(Some(Duration::from_millis(494))), 247);
    assert_eq!(after(Some(Duration::ZERO)), 0);
}
