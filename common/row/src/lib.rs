//! `#[derive(FromRow)]` for structs of `store`: each field is read from the column of its name. So a
//! struct that is read from the database names its columns once. `#[derive(Record)]` for structs of
//! `domain` that are kept as JSON in one column.

mod record;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Field, LitStr, Path, Result, parse_macro_input};

/// Implements `store::sql::FromRow`. Fields that are not read from the column of their name say how:
/// - `#[column("other")]`: from the column `other`.
/// - `#[present("other")]`: true when the column `other` is not null.
/// - `#[with(function)]`: by a function of the whole row.
#[proc_macro_derive(FromRow, attributes(column, present, with))]
pub fn from_row(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let implemented = implement(&input).unwrap_or_else(Error::into_compile_error);
    implemented.into()
}

/// Implements `domain::record::Record`, `Forget`, `Serialize` and `Deserialize`: each field is a member of its
/// name, and the field `rest`, if there is one, has the members that are none. A field that is missing in the JSON has its
/// type's default, and a field that has its default is not written. Fields say what they are:
/// - `#[required]`: its type has no default, and JSON without it cannot be read.
/// - `#[person]`: it may identify somebody, and is set to its default when the person is forgotten.
/// - `#[thing]`: it is about nobody.
///
/// A field that says neither is what its type is: a number is about nobody, and another record says it of its own
/// fields. A text is a type that says nothing, so a field with a text says one of the two itself. Besides:
/// - `#[part]`: it has a version, which is written only if it differs from the field `version`.
///
/// `#[schema(1)]` stands on a struct that is a whole record.
#[proc_macro_derive(Record, attributes(schema, required, person, thing, part))]
pub fn record(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let implemented = record::implement(&input).unwrap_or_else(Error::into_compile_error);
    implemented.into()
}

fn implement(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(
            input,
            "only a struct is read from a row",
        ));
    };
    let fields: Vec<_> = data.fields.iter().map(read).collect::<Result<_>>()?;
    let name = &input.ident;
    Ok(quote! {
        impl crate::sql::FromRow for #name {
            fn from_row(row: &crate::sql::Row) -> crate::sql::Result<Self> {
                Ok(Self { #(#fields),* })
            }
        }
    })
}

/// The field in the struct's expression.
fn read(field: &Field) -> Result<TokenStream> {
    let name = &field.ident;
    for attribute in &field.attrs {
        if attribute.path().is_ident("column") {
            let column: LitStr = attribute.parse_args()?;
            return Ok(quote!(#name: row.get(#column)?));
        }
        if attribute.path().is_ident("present") {
            let column: LitStr = attribute.parse_args()?;
            return Ok(quote!(#name: !row.is_null(#column)?));
        }
        if attribute.path().is_ident("with") {
            let function: Path = attribute.parse_args()?;
            return Ok(quote!(#name: #function(row)?));
        }
    }
    Ok(quote!(#name: row.get(stringify!(#name))?))
}
