//! Links to the pages of carriers.

use domain::carrier::{CARRIERS, link};

#[test]
fn a_link_is_made_of_a_known_carrier_and_a_number_alone() {
    let url = |carrier, number| link(carrier, number).map(|link| link.url);
    let ups = "https://www.ups.com/track?tracknum=1Z999AA10123456784";
    assert_eq!(url("UPS", "1Z 999 AA1-0123456784").as_deref(), Some(ups));
    assert_eq!(url("U.P.S.", "1Z999AA10123456784").as_deref(), Some(ups));
    assert!(url("Royal Mail", "AB123456789GB").is_some());
    for (carrier, number) in [
        ("Sunshine Couriers", "1Z999AA10123456784"),
        ("", "1Z999AA10123456784"),
        ("UPS", ""),
        ("UPS", "Ann Miller"),
        ("UPS", "1Z999AA1&zip=90210"),
        ("UPS", "../../1Z999AA1"),
        ("UPS", "1Z999AA1\u{2066}23"),
    ] {
        assert_eq!(url(carrier, number), None, "{carrier} {number}");
    }
}

#[test]
fn each_page_is_of_its_host_and_takes_the_number_at_its_end() {
    for carrier in CARRIERS {
        let host = format!("https://{}/", carrier.host);
        assert!(carrier.page.starts_with(&host), "{host}");
        assert!(carrier.page.ends_with(['=', '/']), "{host}");
        for name in carrier.names {
            assert!(link(name, "AB123456789").is_some(), "{name}");
        }
    }
}
