//! Looks for numbers that JSON has no spelling for. serde_json writes null for them, and a null
//! that nobody meant is worse than an error.

use std::fmt;

use serde::ser::{self, Serialize, Serializer};

/// An error if there is a NaN or an infinity in the value.
pub(crate) fn find<T: Serialize + ?Sized>(value: &T) -> Result<(), Found> {
    value.serialize(Finder)
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Found(String);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Found {}

impl ser::Error for Found {
    fn custom<T: fmt::Display>(message: T) -> Found {
        Found(message.to_string())
    }
}

#[derive(Clone, Copy)]
struct Finder;

fn look_at(number: f64) -> Result<(), Found> {
    if number.is_finite() {
        return Ok(());
    }
    Err(Found(format!("a number in it is {number}")))
}

macro_rules! harmless {
    ($($method:ident: $type:ty),*) => {
        $(fn $method(self, _: $type) -> Result<(), Found> { Ok(()) })*
    };
}

impl Serializer for Finder {
    type Ok = ();
    type Error = Found;
    type SerializeSeq = Finder;
    type SerializeTuple = Finder;
    type SerializeTupleStruct = Finder;
    type SerializeTupleVariant = Finder;
    type SerializeMap = Finder;
    type SerializeStruct = Finder;
    type SerializeStructVariant = Finder;

    harmless!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_unit_struct: &'static str
    );

    fn serialize_f32(self, number: f32) -> Result<(), Found> {
        look_at(f64::from(number))
    }

    fn serialize_f64(self, number: f64) -> Result<(), Found> {
        look_at(number)
    }

    fn serialize_none(self) -> Result<(), Found> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Found> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Found> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Found> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Found> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Found> {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Finder, Found> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Finder, Found> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Finder, Found> {
        Ok(self)
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Finder, Found> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Finder, Found> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Finder, Found> {
        Ok(self)
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Finder, Found> {
        Ok(self)
    }
}

macro_rules! looks_inside {
    ($($kind:ident: $method:ident($($name:ty)?)),*) => {
        $(impl ser::$kind for Finder {
            type Ok = ();
            type Error = Found;
            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? value: &T) -> Result<(), Found> {
                value.serialize(*self)
            }
            fn end(self) -> Result<(), Found> {
                Ok(())
            }
        })*
    };
}

looks_inside!(
    SerializeSeq: serialize_element(), SerializeTuple: serialize_element(), SerializeTupleStruct: serialize_field(),
    SerializeTupleVariant: serialize_field(), SerializeStruct: serialize_field(&'static str),
    SerializeStructVariant: serialize_field(&'static str)
);

impl ser::SerializeMap for Finder {
    type Ok = ();
    type Error = Found;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Found> {
        key.serialize(*self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Found> {
        value.serialize(*self)
    }

    fn end(self) -> Result<(), Found> {
        Ok(())
    }
}
