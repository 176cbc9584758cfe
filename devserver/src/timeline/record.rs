//! A record in a file: events and marks as JSON.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::mark::Mark;
use crate::events::Event;

/// The events and marks of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// Events that the server saw.
    pub events: Vec<Event>,
    /// Events outside of the server.
    pub marks: Vec<Mark>,
}

/// Why a text is no record.
#[derive(Debug)]
pub struct RecordError(String);

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RecordError {}

/// The fields that distinguish an answer of `/dev/events` and a mark from an event.
#[derive(Deserialize)]
struct EntryShape<'a> {
    #[serde(borrow)]
    events: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    mark: Option<&'a RawValue>,
}

impl Record {
    /// Reads JSON values one after another, with or without line breaks between them: an event or a
    /// mark, an array of them, or an answer of `/dev/events`.
    ///
    /// # Errors
    ///
    /// A value is none of these; the message says which, and names the mistake.
    pub fn read(text: &str) -> Result<Self, RecordError> {
        let mut record = Self::default();
        let mut entries = 0;
        for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
            let value = value.map_err(|error| {
                RecordError(format!(
                    "after entry {entries} comes something that is not JSON: {error}; a record is what --save writes, or \
                     what GET /dev/events answers"
                ))
            })?;
            record.add(value, &mut entries)?;
        }
        Ok(record)
    }

    fn add(&mut self, value: &RawValue, entries: &mut usize) -> Result<(), RecordError> {
        let text = value.get();
        if text.starts_with('[') {
            let values: Vec<&RawValue> = parse(text, *entries)?;
            return values.into_iter().try_for_each(|value| self.add_entry(value, entries));
        }
        match serde_json::from_str::<EntryShape<'_>>(text) {
            Ok(EntryShape {
                events: Some(values), ..
            }) => values.into_iter().try_for_each(|value| self.add_entry(value, entries)),
            Ok(EntryShape { events: None, .. }) | Err(_) => self.add_entry(value, entries),
        }
    }

    fn add_entry(&mut self, value: &RawValue, entries: &mut usize) -> Result<(), RecordError> {
        *entries += 1;
        let text = value.get();
        let is_mark = serde_json::from_str::<EntryShape<'_>>(text).is_ok_and(|shape| shape.mark.is_some());
        if is_mark {
            self.marks.push(parse(text, *entries)?);
        } else {
            self.events.push(parse(text, *entries)?);
        }
        Ok(())
    }

    /// The text of the record: one line of JSON for each event, then one for each mark.
    #[must_use]
    pub fn write(&self) -> String {
        let events = self.events.iter().map(crate::json::raw);
        let marks = self.marks.iter().map(crate::json::raw);
        events.chain(marks).map(|line| format!("{line}\n")).collect()
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str, entry: usize) -> Result<T, RecordError> {
    serde_json::from_str(text).map_err(|error| {
        RecordError(format!(
            "entry {entry} is neither an event nor a mark ({{\"mark\": TEXT, \"ms\": NUMBER}}): {error}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"number":1,"ms":2.5,"operation":"ack","status":200}"#;
    const MARK: &str = r#"{"mark":"SIGTERM","ms":1234.5}"#;

    #[test]
    fn lines_an_array_and_an_answer_of_the_server_are_read_alike() {
        let lines = Record::read(&format!("{EVENT}\n\n{MARK}\n")).unwrap();
        assert_eq!(lines.marks, [Mark::new(1234.5, "SIGTERM")]);
        assert_eq!((lines.events.len(), lines.events[0].ms), (1, 2.5));
        assert_eq!(Record::read(&format!(" [{EVENT}, {MARK}]")).unwrap(), lines);
        let answer = format!(r#"{{"events":[{EVENT}],"last":1,"now_ms":7.5}}"#);
        assert_eq!(Record::read(&format!("{answer}\n{MARK}")).unwrap(), lines);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let record = Record::read(&format!("{EVENT}{MARK}")).unwrap();
        assert_eq!(Record::read(&record.write()).unwrap(), record);
        assert_eq!(record.write().lines().count(), 2);
        assert_eq!(Record::read("").unwrap(), Record::default());
    }

    #[test]
    fn what_is_no_record_is_told_by_its_number() {
        for (text, parts) in [
            (format!("{EVENT}\n{{\"mark\":1,\"ms\":2}}"), ["entry 2", "string"]),
            (format!("[{EVENT},{EVENT},7]"), ["entry 3", "neither"]),
            (format!("{EVENT}\nhello"), ["after entry 1", "--save"]),
            (EVENT.replace("ack", "sneeze"), ["entry 1", "'sneeze'"]),
        ] {
            let error = Record::read(&text).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
        }
    }
}
