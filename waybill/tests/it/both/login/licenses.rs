//! Which licence a person has: personally, through an organization, by an invitation before the
//! first login, and by a subscription.

use std::time::Duration;

use domain::account::Account;
use domain::license::{Candidate, OrgId, Tier, UserId, check_seats, resolve};
use domain::privacy::Keys;
use domain::time::Timestamp;
use platform::clock::Clock;
use process::open_database;
use store::audit::{self, By};
use store::licenses::{self, Grant, Owner};
use store::orgs;
use store::sql::{Db, Tx};
use store::users::{self, CLAIM_PERIOD, Named};

use crate::support::START;
use crate::support::backend::Backend;
use crate::support::eventually;

struct Books {
    db: Db,
    clock: Clock,
    _backend: Backend,
}

async fn books() -> Books {
    let backend = Backend::create().await;
    Books {
        db: open_database(&backend.database_url, 4).await.unwrap(),
        clock: Clock::manual(START),
        _backend: backend,
    }
}

impl Books {
    async fn change<T>(&self, what: impl AsyncFnOnce(&mut Tx) -> T) -> T {
        let mut tx = self.db.begin().await.unwrap();
        let result = what(&mut tx).await;
        tx.commit().await.unwrap();
        result
    }

    /// An account shows up, made long ago.
    async fn sees(&self, provider_id: i64, login: &str) -> UserId {
        self.sees_made_at(provider_id, login, Some(Timestamp(0)))
            .await
    }

    async fn sees_made_at(&self, provider_id: i64, login: &str, at: Option<Timestamp>) -> UserId {
        let account = Account {
            provider_id,
            login: login.to_owned(),
            made_at: at,
        };
        users::seen(&self.db, &self.clock, &account).await.unwrap()
    }

    async fn grant_to(&self, named: &Named, tier: Tier) -> UserId {
        self.change(async |tx| {
            let user = users::find_or_invite(tx, &self.clock, named).await.unwrap();
            let grant = grant(tier, Owner::User(user.id));
            licenses::grant(tx, &self.clock, &grant).await.unwrap();
            user.id
        })
        .await
    }

    async fn org(&self, name: &str, owner: Option<UserId>, members: &[UserId]) -> OrgId {
        let now = self.clock.now();
        self.change(async |tx| {
            let org = orgs::create(tx, &self.clock, name, owner).await.unwrap();
            let org = org.expect("a new name").id;
            for member in members {
                assert!(orgs::add_member(tx, org, *member, now).await.unwrap());
            }
            org
        })
        .await
    }

    /// The organizations that are counted together for a person.
    async fn owned(&self, user: UserId) -> Vec<String> {
        let orgs = orgs::page(&self.db, "", 100).await.unwrap().into_iter();
        orgs.filter(|org| org.owner_id == Some(user))
            .map(|org| org.name)
            .collect()
    }

    async fn members(&self, org: OrgId) -> Vec<UserId> {
        let members = self.change(async |tx| orgs::members(tx, org).await.unwrap());
        members.await.iter().map(|user| user.id).collect()
    }

    async fn tier(&self, user: UserId) -> Tier {
        let candidates: Vec<Candidate> = licenses::candidates(&self.db, user, Duration::ZERO)
            .await
            .unwrap();
        resolve(&candidates, self.clock.now()).tier
    }
}

fn grant(tier: Tier, owner: Owner) -> Grant<'static> {
    Grant {
        tier,
        owner,
        expires_at: None,
        subscription_id: None,
        subscription_item: None,
    }
}

fn login(login: &str) -> Named {
    Named::Login(login.to_owned())
}

#[tokio::test]
async fn a_licence_granted_before_the_first_login_is_claimed_by_it_whatever_the_case() {
    let books = books().await;
    let invited = books.grant_to(&login("Octocat"), Tier::Pro).await;
    let user = books.sees(1, "octocat").await;
    assert_eq!(user, invited);
    assert_eq!(books.tier(user).await, Tier::Pro);
}

#[tokio::test]
async fn who_takes_a_login_that_was_given_up_inherits_nothing() {
    let books = books().await;
    books.grant_to(&login("alice"), Tier::Pro).await;
    let alice = books.sees(1, "alice").await;
    books.sees(1, "alice-renamed").await;
    let other = books.sees(2, "alice").await;
    assert_ne!(other, alice);
    assert_eq!(books.tier(other).await, Tier::Free);
    assert_eq!(books.tier(alice).await, Tier::Pro);
}

#[tokio::test]
async fn who_is_only_remembered_takes_back_no_login() {
    let books = books().await;
    let alice = books.sees(1, "alice").await;
    let other = books.sees(2, "alice").await;
    assert_eq!(users::known(&books.db, 1).await.unwrap(), Some(alice));
    assert_eq!(users::known(&books.db, 3).await.unwrap(), None);
    assert_eq!(books.grant_to(&login("alice"), Tier::Pro).await, other);
}

#[tokio::test]
async fn who_takes_a_login_that_we_still_believe_to_be_anothers_inherits_nothing() {
    let books = books().await;
    let alice = books.sees(1, "alice").await;
    assert_eq!(books.grant_to(&login("alice"), Tier::Pro).await, alice);
    let other = books.sees(2, "Alice").await;
    assert_eq!(books.tier(other).await, Tier::Free);
    assert_eq!(books.tier(alice).await, Tier::Pro);
    // The name now means the other one, and the number still means her.
    assert_eq!(books.grant_to(&login("alice"), Tier::Alpha).await, other);
    let number = Named::ProviderId(1);
    assert_eq!(books.grant_to(&number, Tier::Alpha).await, alice);
    assert_eq!(books.sees(1, "alice-renamed").await, alice);
}

#[tokio::test]
async fn an_invitation_is_not_claimed_by_an_account_that_was_known_before() {
    let books = books().await;
    let mallory = books.sees(3, "mallory").await;
    let invited = books.grant_to(&login("alice"), Tier::Enterprise).await;
    assert_eq!(books.sees(3, "alice").await, mallory);
    assert_ne!(invited, mallory);
    assert_eq!(books.tier(mallory).await, Tier::Free);
}

#[tokio::test]
async fn an_invitation_is_not_claimed_by_an_account_made_after_it() {
    let books = books().await;
    books.grant_to(&login("alice"), Tier::Enterprise).await;
    let later = books.clock.now().plus(Duration::from_secs(1));
    books.clock.advance(Duration::from_mins(1));
    let late = books.sees_made_at(4, "alice", Some(later)).await;
    assert_eq!(books.tier(late).await, Tier::Free);
}

#[tokio::test]
async fn an_invitation_lapses_and_a_new_one_brings_back_nothing() {
    let books = books().await;
    let lapsed = books.grant_to(&login("alice"), Tier::Enterprise).await;
    books.clock.advance(CLAIM_PERIOD);
    let again = books.grant_to(&login("alice"), Tier::Alpha).await;
    assert_ne!(lapsed, again);
    let alice = books.sees(1, "alice").await;
    assert_eq!(alice, again);
    assert_eq!(books.tier(alice).await, Tier::Alpha);
}

#[tokio::test]
async fn who_is_granted_something_again_has_all_the_time_to_claim_it_again() {
    let books = books().await;
    let almost = Duration::from_hours(30 * 24 - 1);
    let invited = books.grant_to(&login("alice"), Tier::Alpha).await;
    books.clock.advance(almost);
    assert_eq!(books.grant_to(&login("Alice"), Tier::Pro).await, invited);
    books.clock.advance(almost);
    let alice = books.sees(1, "alice").await;
    assert_eq!(alice, invited);
    assert_eq!(books.tier(alice).await, Tier::Pro);
}

#[tokio::test]
async fn an_account_made_after_the_invitation_does_not_claim_it_when_it_is_renewed_either() {
    let books = books().await;
    books.grant_to(&login("alice"), Tier::Alpha).await;
    books.clock.advance(Duration::from_hours(2));
    let made_at = books.clock.now().minus(Duration::from_hours(1));
    books.grant_to(&login("alice"), Tier::Pro).await;
    let late = books.sees_made_at(4, "alice", Some(made_at)).await;
    assert_eq!(books.tier(late).await, Tier::Free);
    let unclaimable = licenses::list(&books.db).await.unwrap();
    let now = books.clock.now();
    assert_eq!(unclaimable.len(), 2);
    assert!(
        unclaimable
            .iter()
            .all(|license| license.is_unclaimable(now))
    );
}

#[tokio::test]
async fn the_organizations_of_an_invitation_that_lapsed_go_to_the_next_one_by_its_login() {
    let books = books().await;
    let lapsed = books.grant_to(&login("alice"), Tier::Free).await;
    books.org("One", Some(lapsed), &[lapsed]).await;
    books.clock.advance(CLAIM_PERIOD);
    let again = books.grant_to(&login("alice"), Tier::Free).await;
    assert_ne!(lapsed, again);
    assert_eq!(books.owned(again).await, ["One"]);
    assert!(books.owned(lapsed).await.is_empty());
    let alice = books.sees(1, "alice").await;
    assert_eq!(books.owned(alice).await, ["One"]);
}

#[tokio::test]
async fn the_organizations_of_an_invitation_go_to_who_came_too_late_and_to_nobody_else() {
    let books = books().await;
    let lapsed = books.grant_to(&login("alice"), Tier::Pro).await;
    let stranger = books.grant_to(&login("bob"), Tier::Pro).await;
    books.org("Hers", Some(lapsed), &[]).await;
    books.org("His", Some(stranger), &[]).await;
    books.clock.advance(CLAIM_PERIOD);
    let alice = books.sees(1, "alice").await;
    assert_eq!(books.owned(alice).await, ["Hers"]);
    assert_eq!(books.tier(alice).await, Tier::Free, "licences lapse");
    let made_at = Some(books.clock.now());
    let bob = books.sees_made_at(2, "bob", made_at).await;
    assert!(books.owned(bob).await.is_empty());
    assert_eq!(books.owned(stranger).await, ["His"]);
}

#[tokio::test]
async fn an_invitation_is_not_claimed_by_an_account_of_unknown_age() {
    let books = books().await;
    books.grant_to(&login("alice"), Tier::Enterprise).await;
    let someone = books.sees_made_at(5, "alice", None).await;
    assert_eq!(books.tier(someone).await, Tier::Free);
}

#[tokio::test]
async fn who_was_named_by_number_and_by_login_has_what_was_given_to_either() {
    let books = books().await;
    let number = Named::ProviderId(583_231);
    let invited = books.grant_to(&login("octocat"), Tier::Pro).await;
    let named = books.grant_to(&number, Tier::Alpha).await;
    assert_ne!(invited, named);
    let both = books.org("Both", Some(invited), &[invited, named]).await;
    let one = books.org("One", None, &[invited]).await;
    let octocat = books.sees(583_231, "Octocat").await;
    assert_eq!(octocat, named);
    assert_eq!(books.tier(octocat).await, Tier::Pro);
    assert_eq!(books.members(both).await, [octocat]);
    assert_eq!(books.members(one).await, [octocat]);
    let orgs = orgs::page(&books.db, "", 100).await.unwrap();
    assert_eq!(orgs[0].owner_id, Some(octocat));
    // Nothing is left for whoever takes the login.
    let other = books.sees(2, "octocat").await;
    assert_eq!(books.tier(other).await, Tier::Free);
    assert_eq!(books.tier(octocat).await, Tier::Pro);
}

#[tokio::test]
async fn what_is_granted_to_either_name_at_the_first_login_is_not_lost() {
    let books = books().await;
    let number = Named::ProviderId(1);
    let named = books.grant_to(&number, Tier::Free).await;
    books.grant_to(&login("octocat"), Tier::Free).await;
    // As `waybill licenses grant` does.
    let grant_to = async |named: &Named| {
        let mut tx = books.db.begin().await.unwrap();
        licenses::lock(&mut tx).await.unwrap();
        let user = users::find_or_invite(&mut tx, &books.clock, named).await;
        let grant = grant(Tier::Pro, Owner::User(user.unwrap().id));
        licenses::grant(&mut tx, &books.clock, &grant)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    };
    let octocat = login("octocat");
    let grants = futures_util::future::join_all(
        (0..16).map(|n| grant_to(if n % 2 == 0 { &octocat } else { &number })),
    );
    let logins = futures_util::future::join_all((0..16).map(|_| books.sees(1, "octocat")));
    let (_, seen) = futures_util::future::join(grants, logins).await;
    assert!(seen.iter().all(|user| *user == named));
    let licenses = licenses::of_user(&books.db, named).await.unwrap();
    assert_eq!(licenses.len(), 2 + 16);
}

#[tokio::test]
async fn who_was_named_by_number_inherits_no_invitation_that_it_could_not_claim() {
    let books = books().await;
    let now = books.clock.now();
    for (number, made_at) in [(1, Some(now.plus(Duration::from_secs(1)))), (2, None)] {
        let name = format!("alice{number}");
        books.grant_to(&login(&name), Tier::Enterprise).await;
        let named = Named::ProviderId(number);
        let named = books.grant_to(&named, Tier::Alpha).await;
        assert_eq!(books.sees_made_at(number, &name, made_at).await, named);
        assert_eq!(books.tier(named).await, Tier::Alpha);
    }
    books.grant_to(&login("late"), Tier::Enterprise).await;
    let named = books.grant_to(&Named::ProviderId(3), Tier::Alpha).await;
    books.clock.advance(CLAIM_PERIOD);
    assert_eq!(books.sees(3, "late").await, named);
    assert_eq!(books.tier(named).await, Tier::Alpha);
    // Seen once, it claims nothing: the operator would have found it by its login.
    books.grant_to(&login("alice"), Tier::Enterprise).await;
    assert_eq!(books.sees(3, "alice").await, named);
    assert_eq!(books.tier(named).await, Tier::Alpha);
}

#[tokio::test]
async fn an_invitation_that_nobody_can_claim_any_more_takes_no_seat() {
    let books = books().await;
    let lapsed = books.grant_to(&login("alice"), Tier::Free).await;
    let taken = books.grant_to(&login("bob"), Tier::Free).await;
    let org = books.org("Acme", None, &[lapsed, taken]).await;
    let late = books.clock.now().plus(Duration::from_secs(1));
    books.sees_made_at(2, "bob", Some(late)).await;
    assert_eq!(books.members(org).await, [lapsed]);
    books.clock.advance(CLAIM_PERIOD);
    books.grant_to(&login("alice"), Tier::Free).await;
    assert!(books.members(org).await.is_empty());
}

#[tokio::test]
async fn whatever_takes_a_seat_is_found_by_the_name_that_is_shown() {
    let books = books().await;
    let lost = books.grant_to(&login("Alice"), Tier::Free).await;
    let late = books.clock.now().plus(Duration::from_secs(1));
    let alice = books.sees_made_at(2, "alice", Some(late)).await;
    // Added by one who found it while it had its login.
    let org = books.org("Acme", None, &[lost, alice]).await;
    books
        .change(async |tx| {
            for member in [alice, lost] {
                let found = orgs::member(tx, org, &login("alice")).await.unwrap();
                assert_eq!(found.map(|user| user.id), Some(member));
                assert!(orgs::remove_member(tx, org, member).await.unwrap());
            }
            let none = orgs::member(tx, org, &login("alice")).await.unwrap();
            assert_eq!(none, None);
        })
        .await;
}

#[tokio::test]
async fn who_gave_up_a_login_stays_a_member() {
    let books = books().await;
    let alice = books.sees(1, "alice").await;
    let org = books.org("Acme", None, &[alice]).await;
    books.sees(2, "alice").await;
    assert_eq!(books.members(org).await, [alice]);
}

#[tokio::test]
async fn one_invitation_is_claimed_once_by_however_many_at_the_same_time() {
    let books = books().await;
    books.grant_to(&login("alice"), Tier::Pro).await;
    let seen: Vec<UserId> =
        futures_util::future::join_all((0..16).map(|_| books.sees(1, "alice"))).await;
    assert!(seen.iter().all(|user| *user == seen[0]));
    assert_eq!(books.tier(seen[0]).await, Tier::Pro);
    let fresh: Vec<UserId> =
        futures_util::future::join_all((0..16).map(|_| books.sees(2, "bob"))).await;
    assert!(fresh.iter().all(|user| *user == fresh[0]));
}

/// Another replica has inserted somebody with this login, and has not committed it.
#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn an_account_gets_its_login_while_another_replica_gives_it_away() {
    let books = books().await;
    let mut other = books.db.begin().await.unwrap();
    let insert = "insert into users (id, provider_id, login, login_key, created_at, seen_at)
                  values ($1, 2, 'alice', 'alice', 1, 1)";
    let insert = other.query(insert).bind(books.clock.id());
    insert.execute().await.unwrap();
    let waits = "select count(*) as n from pg_stat_activity
                 where wait_event_type = 'Lock' and datname = current_database()
                   and query like '%insert into users%'";
    let commit = async {
        eventually("the account waits", async || {
            let row = books.db.query(waits).fetch_one().await.unwrap();
            row.get::<i64>("n").unwrap() == 1
        })
        .await;
        other.commit().await.unwrap();
    };
    let (alice, ()) = tokio::join!(books.sees(1, "alice"), commit);
    let named = Named::Login("alice".to_owned());
    let holder = books
        .change(async |tx| users::find(tx, &named).await.unwrap())
        .await;
    assert_eq!(holder.unwrap().id, alice);
}

#[tokio::test]
async fn members_have_their_organizations_licence_until_they_leave() {
    let books = books().await;
    let user = books.sees(1, "alice").await;
    let now = books.clock.now();
    let org = books
        .change(async |tx| {
            let org = orgs::create(tx, &books.clock, "Acme", None).await.unwrap();
            let org = org.expect("a new name").id;
            let grant = grant(Tier::Enterprise, Owner::Org(org));
            licenses::grant(tx, &books.clock, &grant).await.unwrap();
            assert!(orgs::add_member(tx, org, user, now).await.unwrap());
            assert!(!orgs::add_member(tx, org, user, now).await.unwrap());
            org
        })
        .await;
    let candidates = licenses::candidates(&books.db, user, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(resolve(&candidates, now).org_name.as_deref(), Some("Acme"));
    books
        .change(async |tx| assert!(orgs::remove_member(tx, org, user).await.unwrap()))
        .await;
    assert_eq!(books.tier(user).await, Tier::Free);
}

#[tokio::test]
async fn of_many_who_add_a_member_at_once_as_many_succeed_as_there_are_seats() {
    let books = books().await;
    let org = books
        .change(async |tx| {
            let org = orgs::create(tx, &books.clock, "Acme", None).await.unwrap();
            let org = org.expect("a new name").id;
            let grant = grant(Tier::Alpha, Owner::Org(org));
            licenses::grant(tx, &books.clock, &grant).await.unwrap();
            org
        })
        .await;
    // As `waybill orgs add-member` does.
    let add = async |n: i64| {
        let mut tx = books.db.begin().await.unwrap();
        licenses::lock(&mut tx).await.unwrap();
        let named = Named::ProviderId(n);
        let user = users::find_or_invite(&mut tx, &books.clock, &named).await;
        let now = books.clock.now();
        let added = orgs::add_member(&mut tx, org, user.unwrap().id, now).await;
        assert!(added.unwrap());
        let members = orgs::members(&mut tx, org).await.unwrap().len();
        if check_seats("Acme", Some(Tier::Alpha), members).is_err() {
            tx.rollback().await.unwrap();
            return false;
        }
        tx.commit().await.unwrap();
        true
    };
    let added = futures_util::future::join_all((1..=12).map(add)).await;
    assert_eq!(added.iter().filter(|added| **added).count(), 5);
}

#[tokio::test]
async fn a_paid_subscription_extends_its_licences_and_never_shortens_one() {
    let books = books().await;
    let user = books.sees(1, "alice").await;
    let day = Duration::from_hours(24);
    let at = |days| books.clock.now().plus(day * days);
    let owner = Owner::User(user);
    let of_subscription = |expires_at| Grant {
        expires_at,
        subscription_id: Some("sub_1"),
        ..grant(Tier::Pro, owner)
    };
    let ids = books
        .change(async |tx| {
            let mut ids = Vec::new();
            for expires_at in [Some(at(1)), Some(at(40)), None, Some(at(1)), Some(at(1))] {
                let grant = of_subscription(expires_at);
                ids.push(licenses::grant(tx, &books.clock, &grant).await.unwrap());
            }
            let other = Grant {
                subscription_id: Some("sub_2"),
                ..of_subscription(Some(at(1)))
            };
            ids.push(licenses::grant(tx, &books.clock, &other).await.unwrap());
            let now = books.clock.now();
            assert!(licenses::revoke(tx, ids[3], now).await.unwrap());
            assert!(licenses::suspend(tx, ids[4], now).await.unwrap());
            ids
        })
        .await;
    let now = books.clock.now();
    for until in [at(30), at(30), at(20)] {
        let of = ("sub_1", None);
        books
            .change(async |tx| licenses::extend(tx, of, until, now).await.unwrap())
            .await;
    }
    let mut ends = Vec::new();
    for license in licenses::list(&books.db).await.unwrap() {
        let place = ids.iter().position(|id| *id == license.id).unwrap();
        ends.push((place, license.expires_at, license.suspended));
    }
    ends.sort_unstable_by_key(|(place, ..)| *place);
    assert_eq!(
        ends,
        [
            (0, Some(at(30)), false),
            (1, Some(at(40)), false),
            (2, None, false),
            (3, Some(at(1)), false),
            (4, Some(at(30)), true),
            (5, Some(at(1)), false),
        ]
    );
}

#[tokio::test]
async fn a_licence_is_suspended_resumed_and_revoked_once_each() {
    let books = books().await;
    let user = books.grant_to(&Named::ProviderId(7), Tier::Pro).await;
    let license = licenses::list(&books.db).await.unwrap().remove(0);
    let now = books.clock.now();
    books
        .change(async |tx| {
            assert!(licenses::suspend(tx, license.id, now).await.unwrap());
            assert!(!licenses::suspend(tx, license.id, now).await.unwrap());
            assert!(licenses::resume(tx, license.id, now).await.unwrap());
            assert!(!licenses::resume(tx, license.id, now).await.unwrap());
            assert!(licenses::revoke(tx, license.id, now).await.unwrap());
            assert!(!licenses::revoke(tx, license.id, now).await.unwrap());
            assert!(!licenses::suspend(tx, license.id, now).await.unwrap());
        })
        .await;
    assert_eq!(books.tier(user).await, Tier::Free);
    // The account shows up later, and is the one that was named by its number.
    assert_eq!(books.sees(7, "seven").await, user);
}

#[tokio::test]
async fn who_has_no_licence_and_does_not_come_back_is_forgotten_after_a_year() {
    let books = books().await;
    let keys = Keys::new(vec![7; 32]);
    let forget = async || {
        let by = By {
            keys: &keys,
            actor: audit::WORKER,
            now: books.clock.now(),
        };
        users::forget_unseen(&books.db, by, 100).await.unwrap()
    };
    let gone = books.sees(1, "gone").await;
    books.sees(2, "back").await;
    books.grant_to(&login("licensed"), Tier::Pro).await;
    books.sees(3, "licensed").await;
    let (owner, member) = (books.sees(4, "owner").await, books.sees(5, "member").await);
    books.org("acme", Some(owner), &[member]).await;
    // Invited, and nobody came.
    books
        .change(async |tx| {
            users::find_or_invite(tx, &books.clock, &login("nobody"))
                .await
                .unwrap()
        })
        .await;
    let revoked = books.grant_to(&Named::ProviderId(6), Tier::Pro).await;
    books
        .change(async |tx| {
            for license in licenses::of_owner(tx, Owner::User(revoked)).await.unwrap() {
                assert!(
                    licenses::revoke(tx, license.id, books.clock.now())
                        .await
                        .unwrap()
                );
            }
        })
        .await;
    let day = Duration::from_hours(25);
    books.clock.advance(users::KEPT.saturating_sub(day));
    books.sees(2, "back").await;
    assert_eq!(forget().await, 0);
    books.clock.advance(day);
    assert_eq!(forget().await, 3);
    assert_eq!(forget().await, 0);
    let rows = books.db.query("select login from users order by login");
    let left: Vec<String> = rows.all(|row| row.get("login")).await.unwrap();
    assert_eq!(left, ["back", "licensed", "member", "owner"]);
    let entries = audit::newest(&books.db, 9).await.unwrap();
    assert_eq!(entries.len(), 3);
    assert!(entries.iter().any(|it| it.object_id == gone.to_string()));
    assert!(entries.iter().all(|it| it.action == "user.forgotten"));
}
