//! Which of several licences decides, whatever order they are read in.

use common::clock::Timestamp;
use common::license::{Candidate, Status, Tier, Why, resolve};
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
        0..4_u128,
    );
    let candidate = one.prop_map(|(tier, org, suspended, until, id)| Candidate {
        id: Uuid::from_u128(id),
        tier: Tier::ALL[tier],
        org_name: org.map(ToOwned::to_owned),
        suspended,
        expires_at: until.map(|until| Timestamp(NOW.0 + until)),
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
                let is_told = |one: &Candidate| {
                    (one.id, one.tier, &one.org_name, one.status(NOW))
                        == (id, resolved.tier, &resolved.org_name, resolved.status)
                };
                prop_assert!(all.iter().any(is_told));
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
fn of_inactive_licences_alone_the_highest_is_told_with_its_status() {
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
fn the_table_of_tiers_is_that_of_the_specification() {
    let table: Vec<_> = Tier::ALL
        .iter()
        .map(|tier| {
            (
                tier.as_str(),
                tier.rank(),
                tier.max_users(),
                tier.max_orgs(),
            )
        })
        .collect();
    assert_eq!(
        table,
        [
            ("free", 1, Some(1), Some(0)),
            ("alpha", 2, Some(5), Some(1)),
            ("pro", 3, Some(25), Some(3)),
            ("enterprise", 4, None, None),
        ]
    );
}
