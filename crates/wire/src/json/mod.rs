//! JSON of other programs, read field by field. A value stays text until a reader needs it.
//!
//! Nothing here recurses, so no depth of nesting overflows a stack. Start with `object`, which
//! splits an object.

pub(super) mod object;
pub(super) mod values;
