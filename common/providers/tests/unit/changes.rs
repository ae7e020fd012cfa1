use reqwest::header::{HeaderMap, HeaderValue};

use super::*;

fn headers(name: &'static str, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(
        reqwest::header::HeaderName::from_static(name),
        HeaderValue::from_str(value).unwrap(),
    )])
}

#[test]
fn the_next_page_is_that_of_the_link_and_its_address_is_not_followed() {
    for (link, next) in [
        (
            r#"<https://shop.example/admin/api/2026-07/orders.json?page_info=aGk%3D&limit=100>; rel="next""#,
            Ok(Some("aGk=")),
        ),
        (
            r#"<https://shop.example/orders.json?page_info=before>; rel="previous", <https://evil.example/?limit=1&page_info=after>; rel="next""#,
            Ok(Some("after")),
        ),
        (
            r"</orders.json?page_info=relative>; rel=next",
            Ok(Some("relative")),
        ),
        (
            r#"<https://shop.example/orders.json?page_info=before>; rel="previous""#,
            Ok(None),
        ),
        (
            r#"<https://shop.example/orders.json?page=2>; rel="next""#,
            Err(NotNamed),
        ),
        ("nonsense", Ok(None)),
        ("", Ok(None)),
    ] {
        assert_eq!(
            next_of_link(&headers("link", link)),
            next.map(|it| it.map(str::to_owned)),
            "{link}"
        );
    }
    assert_eq!(next_of_link(&HeaderMap::new()), Ok(None));
}

#[test]
fn more_than_half_of_a_limit_is_left_to_the_calls_that_cannot_wait() {
    for (used, pause) in [
        ("1/40", Duration::ZERO),
        ("20/40", Duration::ZERO),
        ("21/40", LONG_REST),
        ("40/40", LONG_REST),
        ("many", USUAL_REST),
    ] {
        assert_eq!(rest(&headers(USED, used)), pause, "{used}");
    }
    assert_eq!(rest(&HeaderMap::new()), USUAL_REST);
}
