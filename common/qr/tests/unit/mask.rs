//! Tests of what is private in `src/mask.rs`.

use super::*;
use qrcode::bits::Bits;
use qrcode::ec;

#[test]
fn the_mask_is_the_one_that_is_best_when_each_symbol_is_drawn_anew() {
    for number in 1..=40 {
        for level in [EcLevel::L, EcLevel::M, EcLevel::Q, EcLevel::H] {
            let version = Version::Normal(number);
            let length = Bits::new(version).max_len(level).unwrap() / 8;
            let byte = |nth: usize| u8::try_from((nth * nth + nth / 7) % 256).unwrap();
            let data: Vec<u8> = (0..length).map(byte).collect();
            let (codewords, correction) = ec::construct_codewords(&data, version, level).unwrap();
            let drawn = MASKS.map(|mask| {
                let mut canvas = Canvas::new(version, level);
                canvas.draw_all_functional_patterns();
                canvas.draw_data(&codewords, &correction);
                canvas.apply_mask(mask);
                Modules::<3>::of(canvas)
            });
            let best_drawn = drawn.iter().min_by_key(|modules| modules.penalty());
            let found = best(version, level, &codewords, &correction);
            assert_eq!(found, best_drawn.unwrap().rows, "{number} {level:?}");
        }
    }
}
