//! The parameters of a route, and its result.

use super::reply::Reply;
use super::request::Request;
use crate::json::Object;
use crate::moment::Moment;
use crate::refusal::Refusal;
use crate::state::{Shared, State};

/// The answer to a request, or the refusal that becomes one.
pub(super) type Result = std::result::Result<Reply, Refusal>;

/// The parameters of a route.
pub(super) struct Call<'a> {
    pub shared: &'a Shared,
    pub state: &'a mut State,
    pub now: Moment,
    pub request: &'a Request,
    pub body: &'a [u8],
}

impl Call<'_> {
    /// The body as a JSON object.
    ///
    /// # Errors
    ///
    /// The body is no JSON object.
    pub fn object(&self) -> std::result::Result<Object, Refusal> {
        self.request.object(self.body)
    }
}
