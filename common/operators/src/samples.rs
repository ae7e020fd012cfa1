//! Removes the samples of `waybill trigger`, so that what is left is real.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use store::audit::By;
use store::samples::{self, Sample};
use store::shop_erasure::Counts;
use store::sql::{self, Db};

/// How many orders one transaction removes.
const BATCH: i64 = 100;

/// What there is of samples.
#[derive(Debug, Default)]
pub struct Samples {
    pub orders: Vec<Sample>,
    /// The first objects of the payment provider, such as payments.
    pub objects: BTreeSet<String>,
}

impl Samples {
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty() && self.objects.is_empty()
    }
}

/// All sample orders, and the first objects of the payment provider.
pub async fn find(db: &Db) -> sql::Result<Samples> {
    let mut all = Samples::default();
    let mut after = Some((String::new(), 0));
    while let Some((shop, id)) = after {
        let (found, next) = samples::after(db, (&shop, id), BATCH).await?;
        all.orders.extend(found);
        after = next;
    }
    all.objects = samples::objects(db, BATCH).await?;
    Ok(all)
}

/// Removes these samples with all that came of them, and returns how many rows of which table are gone. Interrupted, it
/// can be done again.
pub async fn remove(db: &Db, by: By<'_>, samples: Samples) -> sql::Result<Counts> {
    let mut counts = Counts::new();
    let mut of_shops: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    for sample in samples.orders {
        let of_shop = of_shops.entry(sample.shop.clone()).or_default();
        of_shop.push(sample);
    }
    for (shop, orders) in &of_shops {
        for batch in orders.chunks(usize::try_from(BATCH).unwrap_or(1)) {
            let mut tx = db.begin().await?;
            samples::delete_orders(&mut tx, shop, batch, &mut counts).await?;
            let details = json!({"orders": batch.len()});
            let named = Some(shop.as_str()).filter(|shop| !shop.is_empty());
            by.note_of_shop(&mut tx, named, "samples.removed", shop, details)
                .await?;
            tx.commit().await?;
        }
    }
    let mut objects = samples.objects;
    while !objects.is_empty() {
        let before = counts.clone();
        let mut tx = db.begin().await?;
        samples::delete_objects(&mut tx, &objects, &mut counts).await?;
        let details = json!({"objects": objects.len()});
        by.note(&mut tx, "samples.removed", "payments", details)
            .await?;
        tx.commit().await?;
        if counts == before {
            break;
        }
        objects = samples::objects(db, BATCH).await?;
    }
    let mut tx = db.begin().await?;
    let shops: BTreeSet<String> = of_shops.into_keys().collect();
    samples::forget_waiting(&mut tx, &shops, &mut counts).await?;
    tx.commit().await?;
    counts.retain(|_, rows| *rows > 0);
    Ok(counts)
}
