//! Which of several licences decides, in whatever sequence they are read.

use std::time::Duration;

use domain::license::{Candidate, Status, TERMS, Tier, Why, resolve, seats_lacking};
use domain::time::Timestamp;
use proptest::prelude::*;
use uuid::Uuid;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn license(n: u128, tier: Tier, org: Option<&str>) -> Candidate {
    Candidate {
        id: Uuid::from_u128(n),
        tier,
        org_name: org.map(ToOwned::to_owned),
        suspended: false,
        expires_at: None,
        grace: Duration::ZERO,
    }
}

fn expired(n: u128, tier: Tier) -> Candidate {
    Candidate {
        expires_at: Some(NOW),
        ..license(n, tier, None)
    }
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let one = (
        0..4_usize,
        prop::option::of(prop::sample::select(vec!["acme", "Beta", "zoo"])),
        any::<bool>(),
        prop::option::of(-2_i64..3),
        0..3_u64,
        0..4_u128,
    );
    let candidate = one.prop_map(|(tier, org, suspended, until, grace, id)| Candidate {
        id: Uuid::from_u128(id),
        tier: Tier::ALL[tier],
        org_name: org.map(ToOwned::to_owned),
        suspended,
        expires_at: until.map(|until| Timestamp(NOW.0 + until)),
        grace: Duration::from_millis(grace),
    });
    prop::collection::vec(candidate, 0..7)
}

proptest! {
    #[test]
    fn no_active_licence_outranks_the_one_that_decides(all in candidates()) {
        let resolved = resolve(&all, NOW);
        let active = all.iter().filter(|one| one.status(NOW) == Status::Active);
        if let Some(rank) = active.map(|one| one.tier.rank()).max() {
            prop_assert_eq!(resolved.status, Status::Active);
            prop_assert_eq!(resolved.tier.rank(), rank);
        } else {
            prop_assert_eq!(resolved.status == Status::Active, all.is_empty());
        }
    }

    #[test]
    fn the_order_of_reading_decides_nothing(
        (all, shuffled) in candidates().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle()))
    ) {
        let (one, other) = (resolve(&all, NOW), resolve(&shuffled, NOW));
        prop_assert_eq!(
            (one.tier, one.status, &one.org_name),
            (other.tier, other.status, &other.org_name)
        );
        prop_assert_eq!(one.why, other.why);
    }

    #[test]
    fn the_answer_is_that_of_one_licence_and_names_its_organization_alone(all in candidates()) {
        let resolved = resolve(&all, NOW);
        match resolved.why {
            Why::NoLicense => prop_assert!(all.is_empty() && resolved.org_name.is_none()),
            Why::License(id) => {
                let is_present = |one: &Candidate| {
                    (one.id, one.tier, &one.org_name, one.status(NOW))
                        == (id, resolved.tier, &resolved.org_name, resolved.status)
                };
                prop_assert!(all.iter().any(is_present));
            }
        }
    }

    #[test]
    fn a_further_licence_never_makes_an_active_tier_worse(
        all in candidates(), further in candidates()
    ) {
        let before = resolve(&all, NOW);
        let after = resolve(&[all.clone(), further].concat(), NOW);
        if before.status == Status::Active && !all.is_empty() {
            prop_assert_eq!(after.status, Status::Active);
            prop_assert!(after.tier.rank() >= before.tier.rank());
        }
    }
}

#[test]
fn without_a_licence_everyone_has_free() {
    let resolved = resolve(&[], NOW);
    assert_eq!(
        (resolved.tier, resolved.status),
        (Tier::Free, Status::Active)
    );
    assert_eq!((resolved.org_name, resolved.why), (None, Why::NoLicense));
}

#[test]
fn a_small_active_licence_counts_before_a_great_expired_one() {
    let all = [
        expired(1, Tier::Enterprise),
        license(2, Tier::Alpha, Some("acme")),
    ];
    let resolved = resolve(&all, NOW);
    assert_eq!(
        (resolved.tier, resolved.status),
        (Tier::Alpha, Status::Active)
    );
    assert_eq!(resolved.org_name.as_deref(), Some("acme"));
}

#[test]
fn of_inactive_licences_alone_the_highest_is_given_with_its_status() {
    let suspended = Candidate {
        suspended: true,
        ..license(2, Tier::Pro, Some("acme"))
    };
    let resolved = resolve(&[expired(1, Tier::Alpha), suspended], NOW);
    assert_eq!(
        (resolved.tier, resolved.status),
        (Tier::Pro, Status::Suspended)
    );
    assert_eq!(
        resolve(&[expired(1, Tier::Alpha)], NOW).status,
        Status::Expired
    );
}

#[test]
fn of_equals_the_personal_licence_decides() {
    let all = [
        license(1, Tier::Pro, Some("acme")),
        license(2, Tier::Pro, None),
    ];
    assert_eq!(resolve(&all, NOW).org_name, None);
}

#[test]
fn a_licence_is_active_until_the_moment_it_expires() {
    let until = |at| Candidate {
        expires_at: Some(Timestamp(at)),
        ..license(1, Tier::Pro, None)
    };
    assert_eq!(until(NOW.0 + 1).status(NOW), Status::Active);
    assert_eq!(until(NOW.0).status(NOW), Status::Expired);
}

#[test]
fn a_licence_with_a_grace_is_active_until_the_moment_its_grace_ends() {
    let grace = Duration::from_millis(10);
    let ended = |ago: i64| Candidate {
        expires_at: Some(Timestamp(NOW.0 - ago)),
        grace,
        ..license(1, Tier::Pro, None)
    };
    for (ago, status, is_in_grace) in [
        (-1, Status::Active, false),
        (0, Status::Active, true),
        (9, Status::Active, true),
        (10, Status::Expired, false),
    ] {
        let it = ended(ago);
        let is = (it.status(NOW), it.is_in_grace(NOW));
        assert_eq!(is, (status, is_in_grace), "{ago}");
        assert_eq!(it.grace_until(), Some(Timestamp(NOW.0 - ago + 10)));
    }
    let suspended = Candidate {
        suspended: true,
        ..ended(5)
    };
    assert_eq!(suspended.status(NOW), Status::Suspended);
    assert!(!suspended.is_in_grace(NOW));
    assert_eq!(expired(1, Tier::Pro).grace_until(), None);
    let endless = Candidate {
        grace,
        ..license(1, Tier::Pro, None)
    };
    assert_eq!(
        (endless.grace_until(), endless.is_in_grace(NOW)),
        (None, false)
    );
}

#[test]
fn what_is_not_active_may_be_used_as_far_as_what_everyone_has() {
    for tier in Tier::ALL {
        assert_eq!(Status::Active.usable(tier), tier);
        assert_eq!(Status::Expired.usable(tier), Tier::Free);
        assert_eq!(Status::Suspended.usable(tier), Tier::Free);
    }
}

#[test]
fn members_beyond_the_seats_are_counted() {
    assert_eq!(seats_lacking(Some(Tier::Alpha), 5), 0);
    assert_eq!(seats_lacking(Some(Tier::Alpha), 7), 2);
    assert_eq!(seats_lacking(Some(Tier::Enterprise), 1000), 0);
    assert_eq!(seats_lacking(None, 7), 0);
}

#[test]
fn the_table_of_tiers_is_that_of_the_specification() {
    let table = TERMS.map(|it| {
        let features = it.features.join(", ");
        (
            it.tier,
            it.rank,
            features,
            it.max_users,
            it.max_orgs,
            it.price,
        )
    });
    let rows = [
        (1, "Basic templates, CLI access", Some(1), Some(0), "$0/mo"),
        (
            2,
            "All templates, priority support, alpha features",
            Some(5),
            Some(1),
            "invite-only",
        ),
        (
            3,
            "All features, custom templates, integration support",
            Some(25),
            Some(3),
            "$199/mo",
        ),
        (
            4,
            "Unlimited, on-premise, dedicated support, SLA",
            None,
            None,
            "custom",
        ),
    ];
    for ((reported, expected), tier) in table.into_iter().zip(rows).zip(Tier::ALL) {
        let (rank, features, users, orgs, price) = expected;
        assert_eq!(
            reported,
            (tier, rank, features.to_owned(), users, orgs, price)
        );
        assert_eq!(tier.terms().tier, tier);
    }
}
