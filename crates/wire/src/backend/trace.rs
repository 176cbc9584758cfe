//! The trace context of a job: `meta.traceparent` of its envelope, as the W3C recommendation *Trace
//! Context* spells it.

use ojs_lifecycle::api::Trace;

/// Length of `00-<32 digits>-<16 digits>-<2 digits>`. A later version may continue behind a dash.
const LENGTH: usize = 55;

/// The flag that the spans of the trace are recorded.
const SAMPLED: u128 = 1;

/// Reads it; `None` if the recommendation calls it invalid: another shape, capital letters, an id
/// with only zeroes, version `ff`, version `00` with text behind it.
pub fn read(text: &str) -> Option<Trace> {
    let mut fields = text.split('-');
    let version = number(fields.next()?, 2)?;
    let trace = number(fields.next()?, 32)?;
    let span = u64::try_from(number(fields.next()?, 16)?).ok()?;
    let flags = number(fields.next()?, 2)?;
    let is_known_shape = if version == 0 {
        text.len() == LENGTH
    } else {
        version != 0xff
    };
    let is_sampled = flags & SAMPLED != 0;
    (is_known_shape && trace != 0 && span != 0).then_some(Trace {
        trace,
        span,
        is_sampled,
    })
}

/// Writes it in version `00`.
pub fn write(context: &Trace) -> String {
    let Trace {
        trace,
        span,
        is_sampled,
    } = context;
    let flags = u8::from(*is_sampled);
    format!("00-{}-{}-0{flags}", hex(&trace.to_be_bytes()), hex(&span.to_be_bytes()))
}

/// The hexadecimal digits of an id. Each recorded job has some ids, and the formatter of the
/// standard library takes three times as long.
pub(crate) fn hex(id: &[u8]) -> String {
    let digits = id.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

fn number(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_read() {
        let trace = Trace {
            trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            span: 0x00f0_67aa_0ba9_02b7,
            is_sampled: true,
        };
        assert_eq!(read(GOOD), Some(trace));
        assert_eq!(read(&GOOD.replacen("00-", "01-", 1)), Some(trace));
        assert_eq!(read(&format!("{}-more", GOOD.replacen("00-", "cc-", 1))), Some(trace));
    }

    #[test]
    fn the_flag_sampled_is_the_last_bit_of_the_flags() {
        for (flags, is_sampled) in [("00", false), ("01", true), ("02", false), ("ff", true)] {
            let context = read(&format!("{}{flags}", &GOOD[..GOOD.len() - 2])).unwrap();
            assert_eq!(context.is_sampled, is_sampled, "{flags}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let context = read(GOOD).unwrap();
        assert_eq!(write(&context), GOOD);
        let small = Trace {
            trace: 1,
            span: 2,
            is_sampled: false,
        };
        assert_eq!(read(&write(&small)), Some(small));
    }

    #[test]
    fn what_the_recommendation_calls_invalid_is_none() {
        let more = format!("{GOOD}-more");
        let zero_trace = GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_span = GOOD.replace("00f067aa0ba902b7", &"0".repeat(16));
        let capitals = GOOD.to_uppercase();
        let forbidden = GOOD.replacen("00-", "ff-", 1);
        for text in [
            "",
            "-",
            &GOOD[..54],
            &GOOD[1..],
            &more,
            &zero_trace,
            &zero_span,
            &capitals,
            &forbidden,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
