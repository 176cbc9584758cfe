//! JSON that others wrote: read field by field.

pub(super) mod fields;
pub(super) mod lenient;
