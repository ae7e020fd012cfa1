//! What a key may do, and how its scopes are written.

use domain::api_key::{NotAScope, Rights, Role, Scope, Shops};

#[test]
fn a_key_without_lists_may_do_everything_and_one_with_lists_only_what_they_say() {
    let all = Rights::default();
    for scope in Scope::ALL {
        let is_of_api = !matches!(scope, Scope::Console(_));
        assert_eq!(all.include(scope), is_of_api, "{scope}");
    }
    assert!(all.shops.have("") && all.shops.have("shop.example"));
    let few = Rights {
        scopes: Some(vec![Scope::QrWrite]),
        shops: Shops(Some(vec!["shop.example".to_owned()])),
    };
    assert!(few.include(Scope::QrWrite) && !few.include(Scope::OrdersRead));
    assert!(few.shops.have("shop.example"));
    assert!(!few.shops.have("other.example") && !few.shops.have(""));
}

#[test]
fn a_key_gives_the_roles_of_its_scopes_and_one_of_some_shops_gives_none() {
    assert_eq!(Rights::default().roles(), []);
    let some = Shops(Some(vec!["shop.example".to_owned()]));
    let of = |scopes: &[Scope], shops: Shops| Rights {
        scopes: Some(scopes.to_vec()),
        shops,
    };
    let reader = [Scope::Console(Role::Reader), Scope::OrdersRead];
    assert_eq!(of(&reader, Shops(None)).roles(), [Role::Reader]);
    assert_eq!(of(&reader, some.clone()).roles(), []);
    assert_eq!(of(&[Scope::OrdersRead], Shops(None)).roles(), []);
    assert_eq!(of(&Scope::ALL, Shops(None)).roles(), Role::ALL);
    assert_eq!(of(&Scope::ALL, some).roles(), []);
}

#[test]
fn scopes_are_read_as_they_are_written() {
    for scope in Scope::ALL {
        assert_eq!(scope.to_string().parse(), Ok(scope));
    }
    assert_eq!("orders".parse::<Scope>(), Err(NotAScope));
}
