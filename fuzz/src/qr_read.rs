//! QR codes that another program reads: whatever the text is, a reader that is not ours finds it again in the picture.

use ::qr::{Format, Level, QrConfig, QrError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::domain::input::{Input, text};

const LEVELS: [Level; 4] = [Level::L, Level::M, Level::Q, Level::H];
/// Pixels for each module, and modules around the symbol.
const BOX: u32 = 3;
const BORDER: u32 = 4;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let level = input.one_of(&LEVELS);
    let repeated = usize::from(input.byte() % 16) + 1;
    let given = text(input.rest()).repeat(repeated);
    let config = QrConfig::new("https://s.example", BOX, BORDER, level).expect("a configuration");
    let symbol = match config.custom(&given) {
        Ok(symbol) => symbol,
        Err(QrError::Capacity {
            length, capacity, ..
        }) => {
            assert!(length > capacity && length == given.len());
            return;
        }
        Err(error) => {
            assert!(given.is_empty(), "{error}");
            return;
        }
    };
    let file = STANDARD
        .decode(symbol.result(Format::Png).data)
        .expect("base64");
    let (side, pixels) = pixels(&file);
    assert_eq!(side, symbol.side());
    let mut picture =
        rqrr::PreparedImage::prepare_from_greyscale(side, side, |x, y| pixels[y * side + x]);
    let grids = picture.detect_grids();
    // Its finding of symbols within pictures is not always right; reading them is.
    if let [grid] = &grids[..]
        && let Ok((found, read)) = grid.decode()
    {
        assert_eq!(found.version.0, usize::from(symbol.version));
        assert_eq!(read, given);
    } else {
        let (found, read) = directly(&symbol);
        assert_eq!(found, usize::from(symbol.version));
        assert_eq!(read, given);
    }
    let drawn = String::from_utf8(
        STANDARD
            .decode(symbol.result(Format::Svg).data)
            .expect("base64"),
    );
    let drawn = drawn.expect("a text");
    assert!(drawn.contains("<svg") && drawn.trim_end().ends_with("</svg>"));
}

/// Reads the modules themselves.
fn directly(symbol: &::qr::Symbol) -> (usize, String) {
    let grid = rqrr::SimpleGrid::from_func(symbol.width(), |x, y| symbol.is_dark(x, y));
    let (found, read) = rqrr::Grid::new(grid)
        .decode()
        .expect("a symbol that can be read");
    (found.version.0, read)
}

/// The side of a picture, and a byte for each of its pixels.
fn pixels(file: &[u8]) -> (usize, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(file))
        .read_info()
        .expect("a PNG");
    let mut lines = vec![0; reader.output_buffer_size().expect("its size")];
    let info = reader.next_frame(&mut lines).expect("a picture");
    let side = usize::try_from(info.width).expect("a width");
    let line = side.div_ceil(8);
    let pixel = |at: usize| {
        let (y, x) = (at / side, at % side);
        let is_light = lines[y * line + x / 8] >> (7 - x % 8) & 1 == 1;
        if is_light { 255 } else { 0 }
    };
    (side, (0..side * side).map(pixel).collect())
}
