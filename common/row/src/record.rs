//! `#[derive(Record)]` for structs of `domain` that are kept as JSON: how they are written, how they are
//! read, and what of them is about a person.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Error, Field, Ident, LitInt, Result};

pub fn implement(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(input, "only a struct is a record"));
    };
    let name = &input.ident;
    let members: Vec<Member> = data.fields.iter().filter_map(Member::of).collect();
    let forget = members.iter().map(Member::forget);
    let classes = members.iter().map(Member::classes);
    let write = members.iter().map(Member::write);
    let read = members.iter().map(Member::read);
    let make = members.iter().map(Member::make);
    let values = members.iter().map(|member| &member.value);
    let schema = of_name(&input.attrs, "schema");
    let schema: Option<LitInt> = schema.map(Attribute::parse_args).transpose()?;
    let schema = schema.into_iter().collect::<Vec<_>>();
    let rest = data.fields.iter().filter_map(|field| field.ident.as_ref());
    let rest: Vec<_> = rest.filter(|ident| *ident == "rest").collect();
    let unknown = if rest.is_empty() {
        quote!(members.skip()?)
    } else {
        quote!(members.keep(&mut rest, name)?)
    };
    Ok(quote! {
        impl serde::Serialize for #name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut members = serde::Serializer::serialize_map(serializer, None)?;
                #(serde::ser::SerializeMap::serialize_entry(&mut members, "schema", &#schema)?;)*
                #(#write)*
                #(self.#rest.write(&mut members)?;)*
                serde::ser::SerializeMap::end(members)
            }
        }

        impl<'de> serde::Deserialize<'de> for #name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_map(crate::record::Reader(std::marker::PhantomData))
            }
        }

        impl crate::record::Record for #name {
            #(const SCHEMA: u32 = #schema;)*

            fn of_members<'de, M: serde::de::MapAccess<'de>>(
                members: &mut crate::record::Members<M>,
            ) -> Result<Self, M::Error> {
                #(let mut #values = None;)*
                #(let mut #rest = crate::record::Rest::default();)*
                while let Some(name) = members.name()? {
                    match &*name {
                        #("schema" => members.check(#schema)?,)*
                        #(#read)*
                        _ => #unknown,
                    }
                }
                Ok(Self { #(#make,)* #(#rest,)* })
            }
        }

        impl crate::record::Forget for #name {
            fn forget_person(&mut self) {
                #(#forget)*
                #(self.#rest = Default::default();)*
            }

            fn classes(at: &str, see: &mut dyn FnMut(&str, crate::record::Class)) {
                #(#classes)*
            }
        }
    })
}

/// A field that is a member of the JSON object under the field's name.
struct Member<'a> {
    ident: &'a Ident,
    /// The variable that holds its value while the members are read.
    value: Ident,
    name: String,
    field: &'a Field,
}

impl<'a> Member<'a> {
    /// None for `rest`, which is the members that are no fields.
    fn of(field: &'a Field) -> Option<Self> {
        let ident = field.ident.as_ref()?;
        let name = ident.to_string();
        let value = Ident::new(&format!("its_{name}"), ident.span());
        (name != "rest").then_some(Member {
            ident,
            value,
            name,
            field,
        })
    }

    fn is(&self, word: &str) -> bool {
        of_name(&self.field.attrs, word).is_some()
    }

    fn write(&self) -> TokenStream {
        let Member { ident, name, .. } = self;
        if self.is("required") {
            quote!(serde::ser::SerializeMap::serialize_entry(&mut members, #name, &self.#ident)?;)
        } else if self.is("part") {
            quote!(if self.#ident != Default::default() {
                let part = self.#ident.beside(self.version);
                serde::ser::SerializeMap::serialize_entry(&mut members, #name, &part)?;
            })
        } else {
            quote!(crate::record::write_unless_default(&mut members, #name, &self.#ident)?;)
        }
    }

    fn read(&self) -> TokenStream {
        let Member { value, name, .. } = self;
        quote!(#name => members.read(&mut #value, #name)?,)
    }

    fn make(&self) -> TokenStream {
        let Member {
            ident, value, name, ..
        } = self;
        if self.is("required") {
            quote!(#ident: #value.ok_or_else(|| serde::de::Error::missing_field(#name))?)
        } else if self.is("part") {
            let of_type = &self.field.ty;
            quote!(#ident: #value.map(|part| <#of_type>::read(part, its_version)).unwrap_or_default())
        } else {
            quote!(#ident: #value.unwrap_or_default())
        }
    }

    fn forget(&self) -> TokenStream {
        let ident = self.ident;
        match self.class() {
            Some("Person") => quote!(self.#ident = Default::default();),
            Some(_) => TokenStream::new(),
            None => quote!(crate::record::Forget::forget_person(&mut self.#ident);),
        }
    }

    fn classes(&self) -> TokenStream {
        let (name, of_type) = (&self.name, &self.field.ty);
        let path = quote!(&crate::record::member(at, #name));
        let class = self.class().map(|it| Ident::new(it, self.ident.span()));
        class.map_or_else(
            || quote!(<#of_type as crate::record::Forget>::classes(#path, see);),
            |class| quote!(see(#path, crate::record::Class::#class);),
        )
    }

    /// The class that the field says itself. None: its type says it.
    fn class(&self) -> Option<&'static str> {
        let classes = [("person", "Person"), ("thing", "Thing")];
        let said = classes.into_iter().find(|(word, _)| self.is(word));
        said.map(|(_, class)| class)
    }
}

fn of_name<'a>(attributes: &'a [Attribute], word: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|it| it.path().is_ident(word))
}
