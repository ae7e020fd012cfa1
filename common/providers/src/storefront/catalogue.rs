//! What the storefront sells now, and at which prices. The shapes are from the provider's REST
//! reference, resources Shop, Product Variant and Product.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Storefront;
use crate::CallFailure;
use domain::money::{Currency, Money};

/// How many questions are asked at a time. The storefront allows only a few each second.
const AT_ONCE: usize = 4;

/// The name of the operation in the metrics of calls.
const OPERATION: &str = "catalogue";

/// The provider's name for the only variant of a product.
const ONLY: &str = "Default Title";

/// A variant that is on sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The title of the product, with that of the variant if there are several.
    pub name: String,
    pub price: Money,
    pub sku: Option<String>,
}

#[derive(Deserialize)]
struct OfShop {
    shop: Shop,
}

#[derive(Deserialize)]
struct Shop {
    currency: String,
}

#[derive(Deserialize)]
struct OfVariant {
    variant: StoredVariant,
}

#[derive(Deserialize)]
struct StoredVariant {
    product_id: i64,
    title: Option<String>,
    price: String,
    sku: Option<String>,
}

#[derive(Deserialize)]
struct OfProduct {
    product: Product,
}

#[derive(Deserialize)]
struct Product {
    title: String,
    status: Option<String>,
}

impl Storefront {
    /// Finds the variants that are on sale, by id. Without a shop, the address of the API
    /// decides.
    pub async fn variants(
        &self,
        shop: Option<&str>,
        ids: &BTreeSet<i64>,
    ) -> Result<BTreeMap<i64, Variant>, CallFailure> {
        let of_shop = self.get::<OfShop>(OPERATION, shop, "shop.json").await?;
        // Every shop has this, so an address without it is not that of a shop.
        let not_found = || self.provider.wrong_address(StatusCode::NOT_FOUND);
        let of_shop = of_shop.ok_or_else(not_found)?;
        let currency = Currency::parse(&of_shop.shop.currency).ok_or_else(|| {
            let what = "it names no currency of the shop".to_owned();
            self.provider.refused(what)
        })?;
        let path = |id: &i64| format!("variants/{id}.json");
        let variants = self.get_all::<OfVariant>(shop, ids, path).await?;
        let products = variants.values().map(|it| it.variant.product_id).collect();
        let path = |id: &i64| format!("products/{id}.json");
        let products = self.get_all::<OfProduct>(shop, &products, path).await?;
        let mut on_sale = BTreeMap::new();
        for (id, OfVariant { variant }) in variants {
            let Some(OfProduct { product }) = products.get(&variant.product_id) else {
                continue;
            };
            if product.status.as_deref().is_some_and(|it| it != "active") {
                continue;
            }
            let price = Money::parse_decimal(&variant.price, currency);
            let price = price.map_err(|_| {
                let what = format!("its price of the variant {id} is no amount");
                self.provider.refused(what)
            })?;
            let title = variant.title.filter(|title| title != ONLY);
            on_sale.insert(
                id,
                Variant {
                    name: match title {
                        Some(title) => format!("{}, {title}", product.title),
                        None => product.title.clone(),
                    },
                    price,
                    sku: variant.sku.filter(|sku| !sku.is_empty()),
                },
            );
        }
        Ok(on_sale)
    }

    async fn get_all<T: DeserializeOwned>(
        &self,
        shop: Option<&str>,
        ids: &BTreeSet<i64>,
        path: impl Fn(&i64) -> String,
    ) -> Result<BTreeMap<i64, T>, CallFailure> {
        let questions: Vec<(i64, String)> = ids.iter().map(|id| (*id, path(id))).collect();
        let asked = questions.into_iter().map(async |(id, path)| {
            let answer = self.get::<T>(OPERATION, shop, &path).await?;
            Ok::<_, CallFailure>(answer.map(|answer| (id, answer)))
        });
        let answers: Vec<Option<(i64, T)>> = stream::iter(asked)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        Ok(answers.into_iter().flatten().collect())
    }
}
