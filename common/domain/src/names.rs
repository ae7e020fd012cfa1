//! What is said of a text that names no variant of an enum. The names themselves are made by `strum`, and an enum's `ALL`
//! is unwrapped while it is compiled, so one of another length does not compile.

use strum::VariantArray;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unknown(String);

fn names<T: VariantArray + Copy + Into<&'static str>>() -> Vec<&'static str> {
    T::VARIANTS.iter().map(|it| (*it).into()).collect()
}

/// Names all variants of `T`, of which there are several: "it must be a, b or c".
pub fn unknown<T: VariantArray + Copy + Into<&'static str>>(_: &str) -> Unknown {
    let names = names::<T>().join(", ");
    let (others, last) = names.rsplit_once(", ").unwrap_or_default();
    Unknown(format!("it must be {others} or {last}"))
}

/// Names all variants of `T` as a list: "is not one of a, b, c".
pub fn unlisted<T: VariantArray + Copy + Into<&'static str>>(_: &str) -> Unknown {
    Unknown(format!("is not one of {}", names::<T>().join(", ")))
}
