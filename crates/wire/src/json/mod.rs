//! JSON of other programs, read field by field. A value stays text until a reader needs it.
//!
//! Nothing here recurses, so no depth of nesting overflows a stack. Start with `fields`, which
//! splits an object. `lenient` adds the rule that a field of a wrong type is an absent one.

pub(super) mod fields;
pub(super) mod lenient;
