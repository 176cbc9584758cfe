//! The body of an answer as it is sent: whole, or half of it before the connection fails.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use super::feed::RunningFeed;

/// How long the first half of an answer is left alone, so that it gets out before the connection is
/// closed.
const HALF_TIME: Duration = Duration::from_millis(20);

/// The error that makes hyper close the connection without an answer.
#[derive(Debug)]
pub(super) struct Unanswered;

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fault: no answer")
    }
}

impl Error for Unanswered {}

/// The body of an answer, as hyper asks for it.
pub(super) enum ReplyBody {
    /// The whole text.
    Whole(Option<Bytes>),
    /// Half of the announced length; then the body fails.
    Half {
        half: Option<Bytes>,
        announced: u64,
        wait: Option<Pin<Box<Sleep>>>,
    },
    /// Events, until the client disconnects.
    Stream(RunningFeed),
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Unanswered;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Whole(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Half { half, wait, .. } => match half.take() {
                Some(half) => Poll::Ready(Some(Ok(Frame::data(half)))),
                None => {
                    let wait = wait.get_or_insert_with(|| Box::pin(sleep(HALF_TIME)));
                    wait.as_mut().poll(context).map(|()| Some(Err(Unanswered)))
                }
            },
            Self::Stream(feed) => feed.poll(context).map(|text| text.map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(text) => text.is_none(),
            Self::Half { .. } | Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Self::Half { announced, .. } => SizeHint::with_exact(*announced),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
