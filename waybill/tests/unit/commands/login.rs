//! Tests of what is private in `src/commands/login.rs`.

use super::*;

#[test]
fn the_drawn_code_is_the_symbol_with_a_quiet_zone() {
    let qr = QrConfig::new("http://localhost", 1, 4, Level::L).unwrap();
    let symbol = qr.custom("https://github.com/login/device").unwrap();
    let drawn = drawn(&symbol);
    let mut rows: Vec<Vec<bool>> = Vec::new();
    for line in drawn.lines() {
        let line = line.replace("\x1b[30;107m", "").replace("\x1b[0m", "");
        let of = |dark: &str| line.chars().map(|c| dark.contains(c)).collect();
        rows.push(of("█▀"));
        rows.push(of("█▄"));
    }
    let side = symbol.width() + 2 * QUIET;
    for (y, row) in rows.iter().take(side).enumerate() {
        assert_eq!(row.len(), side);
        for (x, dark) in row.iter().enumerate() {
            let within = |at: usize| (QUIET..side - QUIET).contains(&at);
            let expected = within(x) && within(y) && symbol.is_dark(x - QUIET, y - QUIET);
            assert_eq!(*dark, expected, "{x},{y}");
        }
    }
}

#[test]
fn the_address_and_the_code_stand_on_one_line() {
    let begun = Begun {
        device_code: "secret".into(),
        user_code: "WDJB-MJHT".into(),
        verification_uri: "https://github.com/login/device".into(),
        verification_uri_complete: None,
        expires_in: 900,
        interval: 5,
    };
    let text = invitation(&begun);
    assert_eq!(
        text,
        "Open https://github.com/login/device in any browser and enter the code WDJB-MJHT\n"
    );
    assert!(!code(&begun).unwrap().contains("secret"));
}
