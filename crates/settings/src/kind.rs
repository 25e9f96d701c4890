// SPDX-License-Identifier: Apache-2.0
//! What a key takes: numbers within a range, times, sizes, and texts of a form.
//!
//! A field names its kind beside itself, as in `#[serde(with = "As::<Count<1, 100>>")]`. The
//! range stands there alone: the reader, its errors and the pages get it from the kind.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use serde::de::{Deserializer, Error as _, SeqAccess, Unexpected, Visitor};
use serde::ser::Serializer;

/// A kind of values, and how a settings file writes them.
pub trait Kind<T> {
    /// Completes the sentence that begins with "takes".
    fn takes(f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// The value of an integer.
    fn of_integer(_number: i64) -> Option<T> {
        None
    }

    /// The value of a float.
    fn of_float(_number: f64) -> Option<T> {
        None
    }

    /// The value of a text.
    fn of_text(_text: &str) -> Option<T> {
        None
    }

    /// The value of a list of texts.
    fn of_list(_texts: &[String]) -> Option<T> {
        None
    }

    /// Writes a value as the file has it.
    ///
    /// # Errors
    /// Those of the serializer.
    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error>;
}

/// The text that a kind completes "takes" with, for errors of the command line.
pub fn takes<K: Kind<T>, T>() -> String {
    struct Takes<K, T>(PhantomData<(K, T)>);
    impl<K: Kind<T>, T> fmt::Display for Takes<K, T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("takes ")?;
            K::takes(f)
        }
    }
    Takes::<K, T>(PhantomData).to_string()
}

/// A field of a kind, for `#[serde(with = ..)]`.
#[derive(Debug)]
pub struct As<K>(PhantomData<K>);

/// A field of a kind that has no value unless the file gives one.
#[derive(Debug)]
pub struct Maybe<K>(PhantomData<K>);

struct Reader<K, T>(PhantomData<(K, T)>);

impl<K> As<K> {
    /// Reads a value.
    ///
    /// # Errors
    /// It is not of the kind.
    pub fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        K: Kind<T>,
    {
        deserializer.deserialize_any(Reader::<K, T>(PhantomData))
    }

    /// Writes a value.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer, T>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
    where
        K: Kind<T>,
    {
        K::write(value, serializer)
    }
}

impl<K> Maybe<K> {
    /// Reads a value.
    ///
    /// # Errors
    /// It is not of the kind.
    pub fn deserialize<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        K: Kind<T>,
    {
        As::<K>::deserialize(deserializer).map(Some)
    }

    /// Writes a value; without one the field is left out.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer, T>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        K: Kind<T>,
    {
        match value {
            Some(value) => K::write(value, serializer),
            None => serializer.serialize_none(),
        }
    }
}

impl<'de, T, K: Kind<T>> Visitor<'de> for Reader<K, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        K::takes(f)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        K::of_integer(number).ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        let signed = i64::try_from(number).ok();
        let value = signed.and_then(K::of_integer);
        value.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        K::of_float(number).ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        K::of_text(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<T, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element()? {
            texts.push(text);
        }
        K::of_list(&texts).ok_or_else(|| A::Error::invalid_value(Unexpected::Seq, &self))
    }
}

/// A number of things.
#[derive(Debug)]
pub struct Count<const MIN: u64, const MAX: u64>;

/// A number of bytes, as a number or as a text with a unit.
#[derive(Debug)]
pub struct Bytes<const MIN: u64, const MAX: u64>;

/// The same, where 0 stands for "not limited" and is not written.
#[derive(Debug)]
pub struct BytesOrNone<const MIN: u64, const MAX: u64>;

/// A number that need not be whole. The bounds are divided by `PART`.
#[derive(Debug)]
pub struct Number<const MIN: i64, const MAX: i64, const PART: i64 = 1>;

/// A time in milliseconds. The bounds are divided by `PART`.
#[derive(Debug)]
pub struct Millis<const MIN: i64, const MAX: i64, const PART: i64 = 1>;

/// A time in seconds. The bounds are divided by `PART`.
#[derive(Debug)]
pub struct Seconds<const MIN: i64, const MAX: i64, const PART: i64 = 1>;

fn whole<T: TryFrom<u64>>(number: i64, min: u64, max: u64) -> Option<T> {
    let number = u64::try_from(number).ok()?;
    (min..=max).contains(&number).then_some(())?;
    T::try_from(number).ok()
}

impl<T, const MIN: u64, const MAX: u64> Kind<T> for Count<MIN, MAX>
where
    T: TryFrom<u64> + TryInto<u64> + Copy,
{
    fn takes(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {MIN} to {MAX}")
    }

    fn of_integer(number: i64) -> Option<T> {
        whole(number, MIN, MAX)
    }

    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64((*value).try_into().unwrap_or(u64::MAX))
    }
}

impl<T, const MIN: u64, const MAX: u64> Kind<T> for Bytes<MIN, MAX>
where
    T: TryFrom<u64> + TryInto<u64> + Copy,
{
    fn takes(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = (size_text(MIN), size_text(MAX));
        write!(f, "a number of bytes from {min} to {max}")
    }

    fn of_integer(number: i64) -> Option<T> {
        whole(number, MIN, MAX)
    }

    fn of_text(text: &str) -> Option<T> {
        whole(i64::try_from(parse_size(text)?).ok()?, MIN, MAX)
    }

    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&size_text((*value).try_into().unwrap_or(u64::MAX)))
    }
}

impl<const MIN: u64, const MAX: u64> Kind<usize> for BytesOrNone<MIN, MAX> {
    fn takes(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        <Bytes<MIN, MAX> as Kind<usize>>::takes(f)
    }

    fn of_integer(number: i64) -> Option<usize> {
        Bytes::<MIN, MAX>::of_integer(number)
    }

    fn of_text(text: &str) -> Option<usize> {
        Bytes::<MIN, MAX>::of_text(text)
    }

    fn write<S: Serializer>(value: &usize, serializer: S) -> Result<S::Ok, S::Error> {
        match *value {
            0 => serializer.serialize_none(),
            _ => Bytes::<MIN, MAX>::write(value, serializer),
        }
    }
}

/// The number, if it is within the bounds.
fn within(number: f64, min: i64, max: i64, part: i64) -> Option<f64> {
    let bound = |bound: i64| bound as f64 / part as f64;
    (bound(min)..=bound(max))
        .contains(&number)
        .then_some(number)
}

/// Writes a number as a person would: whole ones without a point.
fn write_number<S: Serializer>(number: f64, serializer: S) -> Result<S::Ok, S::Error> {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        serializer.serialize_i64(number as i64)
    } else {
        serializer.serialize_f64(number)
    }
}

impl<const MIN: i64, const MAX: i64, const PART: i64> Kind<f64> for Number<MIN, MAX, PART> {
    fn takes(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_range(f, "a number", [MIN, MAX], PART)
    }

    fn of_integer(number: i64) -> Option<f64> {
        within(number as f64, MIN, MAX, PART)
    }

    fn of_float(number: f64) -> Option<f64> {
        within(number, MIN, MAX, PART)
    }

    fn write<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        write_number(*value, serializer)
    }
}

fn write_range(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    [min, max]: [i64; 2],
    part: i64,
) -> fmt::Result {
    let bound = |bound: i64| bound as f64 / part as f64;
    write!(f, "{what} from {} to {}", bound(min), bound(max))
}

/// A kind of times: its name in "takes", and how many of its unit a second has.
macro_rules! time {
    ($kind:ident, $name:literal, $per_second:literal) => {
        impl<const MIN: i64, const MAX: i64, const PART: i64> Kind<Duration>
            for $kind<MIN, MAX, PART>
        {
            fn takes(f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_range(f, $name, [MIN, MAX], PART)
            }

            fn of_integer(number: i64) -> Option<Duration> {
                Self::of_float(number as f64)
            }

            fn of_float(number: f64) -> Option<Duration> {
                within(number, MIN, MAX, PART)
                    .map(|number| Duration::from_secs_f64(number / $per_second))
            }

            fn write<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
                write_number(value.as_nanos() as f64 / (1e9 / $per_second), serializer)
            }
        }
    };
}

time!(Millis, "a number of milliseconds", 1e3);
time!(Seconds, "a number of seconds", 1.0);

const UNITS: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
];

/// A size such as `256 MiB`, `64kB` or `4096`; whole numbers only.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)))
        .unwrap_or((text, 1));
    let number = number.trim_end();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// A size in the largest binary unit that divides it.
pub fn size_text(bytes: u64) -> String {
    UNITS[..3]
        .iter()
        .find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or(format!("{bytes} B"), |(name, unit)| {
            format!("{} {name}", bytes / unit)
        })
}
