//! The QR service: its links and refusals, its pictures byte by byte, and whether a real reader
//! (zbar) can read them.

use std::process::Command;

use base64::prelude::{BASE64_STANDARD, Engine};
use proptest::prelude::*;
use qr::parse_amount;
use qr::{Format, Level, OddSize, QrConfig, QrConfigError, QrError, Symbol, round_amount};

const LEVELS: [Level; 4] = [Level::L, Level::M, Level::Q, Level::H];

#[test]
fn each_kind_has_its_own_link() {
    let shop = shop(Level::H);
    let url = |made: Result<Symbol, QrError>| made.unwrap().url;
    assert_eq!(
        url(shop.order("820982911946154508")),
        "https://shop.example/orders/820982911946154508/track"
    );
    assert_eq!(
        url(shop.payment("1001", 1990, "USD")),
        "https://shop.example/pay/1001?amount=19.90&currency=USD"
    );
    assert_eq!(
        url(shop.package("1Z999AA10123456784")),
        "https://shop.example/tracking/1Z999AA10123456784"
    );
    assert_eq!(url(shop.custom("two\r\nlines, é")), "two\r\nlines, é");
}

#[test]
fn a_base_url_keeps_its_path_and_its_slash_does_not_double() {
    for base in ["https://shop.example/eu", "https://shop.example/eu/"] {
        let config = QrConfig::new(base, 10, 4, Level::H).unwrap();
        assert_eq!(
            config.package("7").unwrap().url,
            "https://shop.example/eu/tracking/7"
        );
    }
}

#[test]
fn an_id_cannot_change_the_shape_of_its_link() {
    for (id, segment) in [
        ("a/b", "a%2Fb"),
        ("a?b=1", "a%3Fb%3D1"),
        ("a#b", "a%23b"),
        ("100%", "100%25"),
        ("%2F", "%252F"),
        ("%2e%2e", "%252e%252e"),
        ("../admin", "..%2Fadmin"),
        ("...", "..."),
        ("a b+c", "a%20b%2Bc"),
        ("a&currency=EUR", "a%26currency%3DEUR"),
        ("\0\t\\", "%00%09%5C"),
        ("-._~é", "-._~%C3%A9"),
    ] {
        let shop = shop(Level::L);
        assert_eq!(
            shop.order(id).unwrap().url,
            format!("https://shop.example/orders/{segment}/track")
        );
        assert_eq!(
            shop.package(id).unwrap().url,
            format!("https://shop.example/tracking/{segment}")
        );
        assert_eq!(
            shop.payment(id, 5, "eur").unwrap().url,
            format!("https://shop.example/pay/{segment}?amount=0.05&currency=EUR")
        );
    }
}

#[test]
fn an_id_that_browsers_would_resolve_away_is_refused() {
    for id in [".", "..", ".\r\n."] {
        assert!(
            matches!(
                shop(Level::H).order(id),
                Err(QrError::DotSegment("order_id"))
            ),
            "{id:?}"
        );
        assert!(shop(Level::H).package(id).is_err(), "{id:?}");
    }
}

#[test]
fn line_breaks_are_stripped_from_ids() {
    let shop = shop(Level::H);
    assert_eq!(shop.order("\r\n10\n01\r"), shop.order("1001"));
    assert_eq!(
        shop.payment("10\n01", 1, "USD"),
        shop.payment("1001", 1, "USD")
    );
    assert_eq!(shop.package("1Z\r\n9"), shop.package("1Z9"));
}

#[test]
fn empty_input_is_refused() {
    let shop = shop(Level::H);
    for empty in ["", "\n", "\r\n\r"] {
        assert_eq!(
            refusal(shop.order(empty)),
            "order_id must be a non-empty string"
        );
        assert_eq!(
            refusal(shop.payment(empty, 1, "USD")),
            "order_id must be a non-empty string"
        );
        assert_eq!(
            refusal(shop.package(empty)),
            "tracking_number must be a non-empty string"
        );
    }
    assert_eq!(refusal(shop.custom("")), "data must be a non-empty string");
}

#[test]
fn an_order_id_of_501_characters_is_refused() {
    let shop = shop(Level::H);
    let text = "order_id is too long: at most 500 characters";
    assert_eq!(refusal(shop.order(&"x".repeat(501))), text);
    assert_eq!(refusal(shop.payment(&"é".repeat(501), 1, "USD")), text);
    assert!(refusal(shop.package(&"x".repeat(501))).starts_with("tracking_number is too long"));
    let longest = shop.order(&format!("{}\r\n", "x".repeat(500)));
    assert_eq!(longest.unwrap().version, 25);
}

#[test]
fn an_order_id_within_500_characters_may_still_not_fit() {
    let error = shop(Level::H).order(&"é".repeat(500)).unwrap_err();
    assert_eq!(
        error,
        QrError::Capacity {
            length: 3034,
            capacity: 1273,
            level: Level::H
        }
    );
    let text = error.to_string();
    assert!(
        text.contains("too long") && text.contains("3034") && text.contains("1273"),
        "{text}"
    );
}

#[test]
fn an_amount_must_be_positive() {
    for amount in [0, -1, i64::MIN] {
        assert_eq!(
            refusal(shop(Level::H).payment("1", amount, "USD")),
            "amount must be positive"
        );
    }
    let largest = shop(Level::H).payment("1", i64::MAX, "USD").unwrap();
    assert!(
        largest.url.contains("?amount=92233720368547758.07&"),
        "{}",
        largest.url
    );
}

#[test]
fn a_currency_is_three_letters() {
    for currency in ["", "US", "USDT", "U$D", "€", "us\n"] {
        assert_eq!(
            shop(Level::H).payment("1", 1, currency),
            Err(QrError::Currency),
            "{currency:?}"
        );
    }
}

#[test]
fn amounts_are_read_without_rounding() {
    for (text, hundredths) in [
        ("20", 2000),
        ("19.9", 1990),
        ("19.90", 1990),
        ("19.90000", 1990),
        ("0.01", 1),
        ("0", 0),
        ("-0.5", -50),
        ("92233720368547758.07", i64::MAX),
    ] {
        assert_eq!(parse_amount(text), Ok(hundredths), "{text}");
    }
    for text in ["19.905", "0.001", "-0.009"] {
        assert_eq!(parse_amount(text), Err(QrError::AmountDecimals), "{text}");
    }
    for text in ["92233720368547758.08", "1000000000000000000000"] {
        assert_eq!(parse_amount(text), Err(QrError::AmountTooLarge), "{text}");
    }
    for text in [
        "", "-", ".", ".5", "5.", "+5", "--5", "-.5", " 5", "1e2", "1,5", "1.5.0", "NaN", "٣",
    ] {
        assert_eq!(parse_amount(text), Err(QrError::AmountNotPlain), "{text}");
    }
}

#[test]
fn levels_and_formats_are_read_as_they_are_written() {
    for level in LEVELS {
        assert_eq!(level.to_string().parse(), Ok(level));
    }
    for format in [Format::Png, Format::Svg] {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    assert_eq!(
        "h".parse::<Level>().unwrap_err().to_string(),
        "error_correction must be L, M, Q or H"
    );
    assert_eq!(
        "GIF".parse::<Format>().unwrap_err().to_string(),
        "format must be PNG or SVG"
    );
}

#[test]
fn a_configuration_lists_all_its_mistakes() {
    assert_eq!(
        QrConfig::new("shop.example", 0, 101, Level::H),
        Err(vec![
            QrConfigError::BaseUrl,
            QrConfigError::BoxSize(0),
            QrConfigError::Border(101)
        ])
    );
    assert_eq!(
        QrConfig::new("https://shop.example", 100, 12, Level::H),
        Err(vec![QrConfigError::Picture(20_100)])
    );
    for base in [
        "",
        "https://",
        "https:///x",
        "ftp://shop.example",
        "javascript://x",
        "https://shop.example/?a=b",
        "https://shop.example/#a",
        "https://shöp.example",
        "https://shop.example/a b",
        "https://shop.example\n",
    ] {
        assert_eq!(
            QrConfig::new(base, 10, 4, Level::H),
            Err(vec![QrConfigError::BaseUrl]),
            "{base:?}"
        );
    }
    for base in [
        "http://localhost:8000",
        "HTTPS://SHOP.EXAMPLE",
        "http://[::1]:8000/shop/",
    ] {
        assert!(QrConfig::new(base, 100, 11, Level::H).is_ok(), "{base:?}");
    }
}

#[test]
fn the_smallest_version_that_holds_the_bytes_is_taken() {
    let table = include_str!("../fixtures/qr/byte_capacity.txt");
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let (level, limits) = line.split_once(' ').unwrap();
        let shop = shop(level.parse().unwrap());
        for (version, limit) in (1..).zip(limits.split(' ')) {
            let limit = limit.parse().unwrap();
            assert_eq!(
                shop.custom(&"x".repeat(limit)).unwrap().version,
                version,
                "{limit} at {level}"
            );
            match shop.custom(&"x".repeat(limit + 1)) {
                Ok(symbol) => assert_eq!(symbol.version, version + 1, "{limit} + 1 at {level}"),
                Err(_) => assert_eq!(version, 40),
            }
        }
    }
}

#[test]
fn each_level_holds_what_the_standard_says_and_not_one_more() {
    for (level, digits, capitals, bytes) in [
        (Level::L, 7089, 4296, 2953),
        (Level::M, 5596, 3391, 2331),
        (Level::Q, 3993, 2420, 1663),
        (Level::H, 3057, 1852, 1273),
    ] {
        for (one, capacity) in [("7", digits), ("A", capitals), ("a", bytes)] {
            assert_eq!(
                shop(level).custom(&one.repeat(capacity)).unwrap().version,
                40
            );
            let length = capacity + 1;
            assert_eq!(
                shop(level).custom(&one.repeat(length)),
                Err(QrError::Capacity {
                    length,
                    capacity,
                    level
                })
            );
        }
    }
}

#[test]
fn a_text_beyond_ascii_says_that_it_is_utf_8_which_costs_one_byte() {
    for (level, bytes) in [
        (Level::L, 2952),
        (Level::M, 2330),
        (Level::Q, 1662),
        (Level::H, 1272),
    ] {
        let text = |length: usize| format!("é{}", "x".repeat(length - 2));
        assert_eq!(shop(level).custom(&text(bytes)).unwrap().version, 40);
        let refused = QrError::Capacity {
            length: bytes + 1,
            capacity: bytes,
            level,
        };
        assert_eq!(shop(level).custom(&text(bytes + 1)), Err(refused));
    }
    // Bytes that are also texts in Latin-1 and in Shift JIS.
    for text in ["é", "Ã©", "naïve", "ﾃｩ", "ß", "東京", "Größe 7", "🚚"] {
        let symbol = shop(Level::M).custom(text).unwrap();
        assert_eq!(as_text(&symbol.png()).as_deref(), Some(text));
    }
}

#[test]
fn digits_between_other_text_never_make_a_code_larger() {
    // Switching to digits and back costs more here than it saves.
    let text = "letters_00000000_".repeat(80);
    assert_eq!(shop(Level::H).custom(&text[..1273]).unwrap().version, 40);
    // Here the switch saves three versions.
    let id = "1234567890".repeat(4);
    let (order, letters) = (
        shop(Level::H).order(&id),
        shop(Level::H).order(&"x".repeat(40)),
    );
    assert_eq!((order.unwrap().version, letters.unwrap().version), (6, 8));
}

#[test]
fn modules_are_those_of_two_other_encoders_under_one_of_the_masks() {
    let mut lines = include_str!("../fixtures/qr/matrices.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let mut checked = 0;
    while let Some(heading) = lines.next() {
        let [level, version, data] = heading.splitn(3, ' ').collect::<Vec<_>>()[..] else {
            panic!("{heading}")
        };
        let symbol = shop(level.parse().unwrap()).custom(data).unwrap();
        assert_eq!(symbol.version.to_string(), version, "{heading}");
        let rows = (0..symbol.width()).map(|y| {
            let row =
                (0..symbol.width()).fold(0u64, |row, x| row << 1 | u64::from(symbol.is_dark(x, y)));
            format!("{row:x}")
        });
        let rows = rows.collect::<Vec<_>>().join(" ");
        let masks: Vec<_> = lines.by_ref().take(8).collect();
        assert_eq!(
            masks.iter().filter(|mask| **mask == rows).count(),
            1,
            "{heading}: {rows}"
        );
        checked += 1;
    }
    assert_eq!(checked, 4);
}

#[test]
fn a_text_made_to_cancel_a_mask_gets_another_mask() {
    let digits = include_str!("../fixtures/qr/cancels_mask_0_at_40_l.txt");
    let symbol = shop(Level::L).custom(digits).unwrap();
    let dark = modules(&symbol)
        .iter()
        .flatten()
        .filter(|dark| **dark)
        .count();
    let percent = 100 * dark / symbol.width().pow(2);
    assert!((45..=55).contains(&percent), "{percent} % dark");
    assert_reads(&symbol);
}

#[test]
fn a_png_is_one_bit_greyscale_in_three_chunks() {
    let symbol = shop(Level::H).order("820982911946154508").unwrap();
    let png = symbol.png();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    let mut rest = &png[8..];
    let mut chunks = Vec::new();
    while let Some((length, chunk)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        chunks.push((&chunk[..4], &chunk[4..4 + length]));
        rest = &chunk[4 + length + 4..];
    }
    let names: Vec<_> = chunks.iter().map(|chunk| chunk.0).collect();
    assert_eq!(names, [b"IHDR", b"IDAT", b"IEND"]);
    // Version 6: 41 boxes and the border of 4, of 10 pixels each.
    let header = [
        &490u32.to_be_bytes()[..],
        &490u32.to_be_bytes(),
        &[1, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(chunks[0].1, header);
    assert!(png.len() < 4000, "{} bytes", png.len());
}

#[test]
fn an_svg_is_one_path_on_a_white_background() {
    let symbol = shop(Level::H).package("1Z999AA10123456784").unwrap();
    let svg = symbol.svg();
    assert!(svg.starts_with(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"450\" height=\"450\" \
         viewBox=\"0 0 45 45\" shape-rendering=\"crispEdges\">\
         <rect width=\"45\" height=\"45\" fill=\"#fff\"/><path fill=\"#000\" d=\"M"
    ));
    assert_eq!(
        svg.matches('<').count(),
        4,
        "svg, rect, path and the end of svg"
    );
    assert_eq!(svg_modules(&svg), with_border(&symbol, 4));
}

#[test]
fn an_svg_contains_nothing_of_the_text() {
    let svg = shop(Level::L)
        .custom("\"/><script>alert(1)</script>")
        .unwrap()
        .svg();
    assert!(!svg.contains("script") && !svg.contains("alert"), "{svg}");
}

#[test]
fn a_terminal_shows_two_rows_a_line_with_the_light_modules_printed() {
    let symbol = shop(Level::L).custom("terminal").unwrap();
    let text = symbol.terminal();
    let light = text.lines().flat_map(|line| {
        let half = |printed: &'static str| {
            line.chars()
                .map(|c| printed.contains(c))
                .collect::<Vec<_>>()
        };
        [half("█▀"), half("█▄")]
    });
    let dark: Vec<Vec<bool>> = light
        .map(|row| row.iter().map(|light| !light).collect())
        .collect();
    let expected = with_border(&symbol, 4);
    assert_eq!(dark[..expected.len()], expected);
}

#[test]
fn lines_are_repeated_whatever_their_number_and_length() {
    for (box_size, border) in [(8, 9), (15, 7), (18, 6), (74, 3), (71, 0)] {
        assert_draws("1", box_size, border, Level::L);
    }
    assert_draws("1", 1, 0, Level::L);
}

#[test]
fn a_stored_link_is_drawn_as_it_was_in_the_size_and_at_the_level_of_today() {
    let link = shop(Level::H).order_link("820982911946154508").unwrap();
    let made = shop(Level::H).order("820982911946154508").unwrap();
    assert_eq!(link, made.url);
    assert_eq!(shop(Level::H).of_link(&link), Some(made));
    let today = QrConfig::new("https://other.example", 3, 2, Level::L).unwrap();
    let drawn = today.of_link(&link).unwrap();
    assert_eq!(
        (drawn.level, drawn.side()),
        (Level::L, 3 * (drawn.width() + 2 * 2))
    );
    assert_reads(&drawn);
}

#[test]
fn a_stored_link_without_room_at_the_level_of_today_is_drawn_at_the_highest_that_has_room() {
    let link = shop(Level::L)
        .package_link(&"\u{6F22}".repeat(255))
        .unwrap();
    assert!(shop(Level::H).custom(&link).is_err());
    let drawn = shop(Level::H).of_link(&link).unwrap();
    assert_eq!((drawn.level, drawn.url), (Level::Q, link));
    assert_eq!(shop(Level::H).of_link(&"x".repeat(3000)), None);
}

#[test]
fn a_link_without_room_in_any_code_is_refused_like_its_code() {
    // Percent-encoded each character is nine bytes.
    for (characters, fits) in [(137, true), (255, false)] {
        let number = "\u{6F22}".repeat(characters);
        let link = shop(Level::H).package_link(&number);
        assert_eq!(link.is_ok(), fits, "{characters}");
        assert_eq!(link, shop(Level::H).package(&number).map(|it| it.url));
    }
}

#[test]
fn a_result_is_the_picture_in_base64_with_its_link() {
    let symbol = shop(Level::H).order("1001").unwrap();
    let (png, svg) = (symbol.result(Format::Png), symbol.result(Format::Svg));
    assert_eq!(BASE64_STANDARD.decode(&png.data).unwrap(), symbol.png());
    assert_eq!(
        BASE64_STANDARD.decode(&svg.data).unwrap(),
        symbol.svg().into_bytes()
    );
    assert_eq!((png.format, svg.format), (Format::Png, Format::Svg));
    assert_eq!(png.url, "https://shop.example/orders/1001/track");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn percent_encoded_ids_decode_back(id in any::<String>().prop_filter("refused", |id| {
        !["", ".", ".."].contains(&id.replace(['\r', '\n'], "").as_str())
    })) {
        let url = shop(Level::L).order(&id).unwrap().url;
        let segment = url.strip_prefix("https://shop.example/orders/").unwrap().strip_suffix("/track").unwrap();
        prop_assert!(segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b)), "{segment}");
        prop_assert_eq!(percent_decoded(segment), id.replace(['\r', '\n'], ""));
    }

    #[test]
    fn amounts_are_read_as_they_are_shown(hundredths in 1..i64::MAX) {
        let url = shop(Level::L).payment("1", hundredths, "USD").unwrap().url;
        let amount = url.split(['=', '&']).nth(1).unwrap();
        prop_assert_eq!(parse_amount(amount), Ok(hundredths));
    }

    #[test]
    fn a_number_is_rounded_to_the_nearest_hundredth_however_it_is_written(
        digits in "[0-9]{1,15}", point in 0_usize..16, power in -20_i64..10
    ) {
        let point = point.min(digits.len());
        let (units, decimals) = digits.split_at(point);
        let units = if units.is_empty() { "0" } else { units };
        let number = match decimals {
            "" => format!("{units}e{power}"),
            decimals => format!("{units}.{decimals}E{power}"),
        };
        // The same number as a fraction of whole numbers.
        let scale = power - i64::try_from(decimals.len()).unwrap() + 2;
        let whole: i128 = format!("{units}{decimals}").parse().unwrap();
        let nearest = if let Ok(scale) = u32::try_from(scale) {
            whole * 10_i128.pow(scale)
        } else {
            let part = 10_i128.pow(u32::try_from(-scale).unwrap());
            (whole + part / 2) / part
        };
        let nearest = i64::try_from(nearest).ok();
        prop_assert_eq!(round_amount(&number).ok(), nearest, "{}", number);
    }

    #[test]
    fn pictures_of_every_size_show_the_modules(
        text in "[0-9]{1,60}|[A-Z :/]{1,60}|[ -~é]{1,150}",
        box_size in 1..=20u32,
        border in 0..=9u32,
        level in prop::sample::select(&LEVELS[..]),
    ) {
        assert_draws(&text, box_size, border, level);
    }
}

#[test]
fn a_reader_reads_every_kind_at_every_level() {
    for level in LEVELS {
        let shop = shop(level);
        assert_reads(&shop.order("820982911946154508").unwrap());
        assert_reads(&shop.payment("1001", 1990, "USD").unwrap());
        assert_reads(&shop.package("1Z999AA10123456784").unwrap());
        assert_reads(&shop.custom("any data, é 東京 🚚\r\n").unwrap());
    }
}

#[test]
fn a_reader_reads_hostile_and_large_texts() {
    let shop = shop(Level::H);
    for id in ["a/b?c#d%e", "../..", "%2F", "é", "\0", &"x".repeat(500)] {
        assert_reads(&shop.order(id).unwrap());
    }
    for data in [
        "x".repeat(1273),
        "7".repeat(3057),
        "A".repeat(1852),
        "é7777777777A".repeat(100),
    ] {
        assert_reads(&shop.custom(&data).unwrap());
    }
}

#[test]
fn a_reader_reads_every_character_among_capitals_and_among_digits() {
    for run in ["CAPITALS", "01234567890"] {
        let text: String = (' '..='~')
            .flat_map(|one| run.chars().chain([one]))
            .collect();
        assert_reads(&shop(Level::L).custom(&text).unwrap());
    }
}

#[test]
fn a_reader_reads_small_boxes_and_a_thin_border() {
    for (box_size, border) in [(2, 1), (3, 4), (25, 10)] {
        let config = QrConfig::new("https://shop.example", box_size, border, Level::H).unwrap();
        assert_reads(&config.order("1001").unwrap());
    }
}

#[test]
fn a_size_that_readers_cannot_read_or_no_sheet_has_room_for_is_odd() {
    let odd = |box_size, border| {
        let config = QrConfig::new("https://shop.example", box_size, border, Level::H);
        config.unwrap().odd_size()
    };
    for (box_size, border) in [(2, 0), (3, 4), (10, 4), (40, 4)] {
        assert_eq!(odd(box_size, border), None, "{box_size} {border}");
    }
    assert_eq!(odd(1, 4), Some(OddSize::Unreadable(1)));
    assert_eq!(odd(100, 4), Some(OddSize::Huge(4500)));
    assert_eq!(odd(20, 100), Some(OddSize::Huge(4740)), "its border alone");
}

#[test]
fn a_damaged_code_is_read_at_level_h_and_not_at_level_l() {
    // Seven blots of 3 x 3 modules, away from the patterns that locate the
    // symbol: about a sixth of the codewords of version 6.
    let damaged = |level, text: &str| {
        let symbol = shop(level).custom(text).unwrap();
        assert_eq!(symbol.version, 6);
        let mut boxes = with_border(&symbol, 4);
        for (x, y) in [
            (11, 10),
            (22, 10),
            (10, 22),
            (18, 18),
            (26, 22),
            (14, 29),
            (23, 30),
        ] {
            for (dx, dy) in (0..9).map(|i| (i % 3, i / 3)) {
                boxes[4 + y + dy][4 + x + dx] ^= true;
            }
        }
        read(&pgm(&enlarged(&boxes, 10)))
    };
    let short = "https://shop.example/orders/1001/track/it/for/me/now";
    let long = [short; 2].join("/and/");
    assert_eq!(damaged(Level::H, short), Some(short.as_bytes().to_vec()));
    assert_eq!(damaged(Level::L, &long), None);
}

fn shop(level: Level) -> QrConfig {
    QrConfig::new(
        "https://shop.example",
        QrConfig::BOX_SIZE,
        QrConfig::BORDER,
        level,
    )
    .unwrap()
}

/// Checks that both pictures have the right size and show the symbol and its border.
fn assert_draws(text: &str, box_size: u32, border: u32, level: Level) {
    let config = QrConfig::new("https://shop.example", box_size, border, level).unwrap();
    let symbol = config.custom(text).unwrap();
    let (box_size, border) = (box_size as usize, border as usize);
    let boxes = with_border(&symbol, border);
    assert_eq!(
        boxes.len(),
        4 * usize::from(symbol.version) + 17 + 2 * border
    );
    let pixels = png_pixels(&symbol.png());
    assert!(
        pixels == enlarged(&boxes, box_size),
        "{box_size} x {border}, PNG of {text:?}"
    );
    assert!(
        svg_modules(&symbol.svg()) == boxes,
        "{box_size} x {border}, SVG of {text:?}"
    );
    assert_eq!(symbol.side(), pixels.len());
}

fn refusal(made: Result<Symbol, QrError>) -> String {
    made.unwrap_err().to_string()
}

/// Checks that a reader gets exactly the text from both pictures.
fn assert_reads(symbol: &Symbol) {
    let expected = Some(symbol.url.clone().into_bytes());
    assert!(
        read(&symbol.png()) == expected,
        "PNG of {:?} at {}",
        symbol.url,
        symbol.level
    );
    let svg = pgm(&enlarged(&svg_modules(&symbol.svg()), 4));
    assert!(
        read(&svg) == expected,
        "SVG of {:?} at {}",
        symbol.url,
        symbol.level
    );
}

/// The bytes that zbar reads from a picture. None when it finds no code.
fn read(picture: &[u8]) -> Option<Vec<u8>> {
    zbar(picture, &["-Sbinary"])
}

/// The text that zbar reads from a picture, in the encoding that it takes the bytes for.
fn as_text(picture: &[u8]) -> Option<String> {
    let text = String::from_utf8(zbar(picture, &[])?).unwrap();
    Some(text.trim_end_matches('\n').to_owned())
}

fn zbar(picture: &[u8], options: &[&str]) -> Option<Vec<u8>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), picture).unwrap();
    let zbar = Command::new("zbarimg")
        .args(["-q", "--raw"])
        .args(options)
        .arg(file.path())
        .output();
    let output = zbar.expect("zbarimg reads the codes: install it (Debian package zbar-tools)");
    match output.status.code() {
        Some(0) => Some(output.stdout),
        Some(4) => None,
        _ => panic!("zbarimg: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn modules(symbol: &Symbol) -> Vec<Vec<bool>> {
    let row = |y| (0..symbol.width()).map(|x| symbol.is_dark(x, y)).collect();
    (0..symbol.width()).map(row).collect()
}

fn with_border(symbol: &Symbol, border: usize) -> Vec<Vec<bool>> {
    let boxes = symbol.width() + 2 * border;
    let mut framed = vec![vec![false; boxes]; boxes];
    for (y, row) in modules(symbol).iter().enumerate() {
        framed[border + y][border..border + row.len()].copy_from_slice(row);
    }
    framed
}

fn enlarged(boxes: &[Vec<bool>], by: usize) -> Vec<Vec<bool>> {
    let row = |y: usize| {
        (0..boxes.len() * by)
            .map(|x| boxes[y / by][x / by])
            .collect()
    };
    (0..boxes.len() * by).map(row).collect()
}

fn png_pixels(file: &[u8]) -> Vec<Vec<bool>> {
    let mut reader = png::Decoder::new(std::io::Cursor::new(file))
        .read_info()
        .unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!(
        (info.color_type, info.bit_depth),
        (png::ColorType::Grayscale, png::BitDepth::One)
    );
    let pixel = |line: &[u8], x: usize| line[x / 8] >> (7 - x % 8) & 1 == 0;
    let lines = bytes.chunks(info.line_size);
    lines
        .map(|line| (0..info.width as usize).map(|x| pixel(line, x)).collect())
        .collect()
}

/// The modules that the path of an SVG paints, each as `M<x> <y>h<length>v1H<x>z`.
fn svg_modules(svg: &str) -> Vec<Vec<bool>> {
    let between = |start, end| svg.split_once(start).unwrap().1.split_once(end).unwrap().0;
    let boxes: usize = between("viewBox=\"0 0 ", " ").parse().unwrap();
    let mut modules = vec![vec![false; boxes]; boxes];
    for run in between(" d=\"M", "z\"").split("zM") {
        let numbers: Vec<usize> = run
            .split([' ', 'h', 'v', 'H'])
            .map(|n| n.parse().unwrap())
            .collect();
        let [x, y, length, 1, back] = numbers[..] else {
            panic!("{run}")
        };
        assert_eq!(back, x);
        modules[y][x..x + length].fill(true);
    }
    modules
}

/// The pixels as a plain file that zbar can read.
fn pgm(pixels: &[Vec<bool>]) -> Vec<u8> {
    let side = pixels.len();
    let header = format!("P5 {side} {side} 255\n");
    let grey = pixels
        .iter()
        .flatten()
        .map(|dark| if *dark { 0 } else { 255 });
    header.bytes().chain(grey).collect()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).unwrap()
}
