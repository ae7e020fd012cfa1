//! QR codes. A link keeps its shape whatever the id is, and a stored link makes the same symbol again.
//! `common/qr/tests/it/corpus.rs` includes this file.

use qr::{Level, QrConfig, QrError, Symbol};

const LEVELS: [Level; 4] = [Level::L, Level::M, Level::Q, Level::H];
const BASE: &str = "https://s.example";

pub fn check(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else {
        return;
    };
    let given = text(rest);
    match choice % 8 {
        0..5 => link(given, LEVELS[usize::from(choice % 4)]),
        _ => base(given),
    }
}

fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("UTF-8 so far"),
    }
}

fn link(id: &str, level: Level) {
    let config = QrConfig::new(BASE, 1, 0, level).expect("a configuration");
    let url = |drawn: Result<Symbol, QrError>| drawn.map(|symbol| symbol.url);
    assert_eq!(config.order_link(id), url(config.order(id)));
    assert_eq!(config.package_link(id), url(config.package(id)));
    match config.order(id) {
        Ok(symbol) => {
            let inner = symbol.url.strip_prefix("https://s.example/orders/");
            let inner = inner
                .and_then(|rest| rest.strip_suffix("/track"))
                .expect("its shape");
            assert!(!inner.is_empty() && inner != "." && inner != "..");
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
            assert!(inner.bytes().all(fits), "{inner}");
            assert_eq!(decoded(inner), id.replace(['\r', '\n'], "").into_bytes());
            same_again(&config, &symbol);
        }
        Err(QrError::Capacity {
            length, capacity, ..
        }) => assert!(length > capacity),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(symbol) = config.custom(id) {
        assert_eq!(symbol.url, id);
        same_again(&config, &symbol);
    }
}

fn decoded(segment: &str) -> Vec<u8> {
    let mut parts = segment.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two digits of hex"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

fn same_again(config: &QrConfig, symbol: &Symbol) {
    assert!(
        config.of_link(&symbol.url).as_ref() == Some(symbol),
        "{}",
        symbol.url
    );
    assert_eq!(symbol.width(), 4 * usize::from(symbol.version) + 17);
    assert_eq!(symbol.side(), symbol.width());
}

fn base(url: &str) {
    if let Ok(config) = QrConfig::new(url, 10, 4, Level::L)
        && let Ok(symbol) = config.package("7")
    {
        assert_eq!(
            symbol.url,
            format!("{}/tracking/7", url.trim_end_matches('/'))
        );
        assert!(symbol.url.is_ascii() && !symbol.url.contains(['?', '#', '"', '<', ' ']));
    }
}
