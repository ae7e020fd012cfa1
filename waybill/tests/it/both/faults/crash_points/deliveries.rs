//! A delivery's way: intake, notification, the worker's transaction, its calls, its events, their sending.

use std::slice;

use super::table::{Area, targets};
use super::world::World;
use crate::both::orders::storm::{are_conserved, are_right, deliveries, know_payments, lives};

/// Orders of one wave: one that stays paid, one that is fulfilled, one that is given back.
const WAVE: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn heavy_each_delivery_has_its_effect_once_wherever_its_process_dies() {
    let mut world = World::new(Area::Deliveries, &[]).await;
    let models = [0, 1, 2];
    know_payments(&world.sandbox, &models);
    let mut process = world.start("");
    world.is_ready().await;
    let url = world.endpoint.url.clone();
    world.command(&["endpoints", "add", &url]).await;
    world.posted = lives(&models, &world.clock);
    for delivery in world.posted.clone() {
        world.providers.post(slice::from_ref(&delivery)).await;
        world.rests().await;
    }
    process.kill();
    world.let_time_pass().await;

    let mut orders: Vec<usize> = models.to_vec();
    for (nth, target) in targets(Area::Deliveries).iter().enumerate() {
        let first = 4 * (nth + 1);
        let of_wave: Vec<usize> = (first..first + WAVE).collect();
        know_payments(&world.sandbox, &of_wave);
        let wave = deliveries(of_wave.iter().copied(), first as u64, &world.clock);
        orders.extend(of_wave);
        world.posted.extend(wave.clone());
        let providers = world.providers.clone();
        world
            .crash(target, async {
                providers.post(&wave).await;
            })
            .await;
        world.recover_sometimes().await;
    }

    let _process = world.finish().await;
    are_conserved(&world.db, &world.posted).await;
    are_right(&world.db, &world.sandbox, &orders, models).await;
    world.endpoint.in_order(&world.db).await;
    world.db.close().await;
}
