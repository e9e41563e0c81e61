// SPDX-License-Identifier: MIT OR Apache-2.0
//! PNG: a picture as pixels, for programs that cannot show SVG.
//!
//! The SVG is rendered unchanged. The host's fonts are not used: regular and bold of Noto Sans are
//! within the program, so that a picture has the same letters on every machine. A letter that they
//! lack is left out.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Options, Tree, fontdb};

/// The largest picture, in pixels: 256 MiB while it is drawn.
const PIXELS_MAX: u64 = 1 << 26;

/// Why there is no PNG.
#[derive(Debug)]
#[non_exhaustive]
pub enum PngError {
    /// The picture is not valid SVG.
    Svg(usvg::Error),
    /// It would have this many pixels across and down.
    Size(u64, u64),
    /// The picture cannot be encoded as PNG.
    Encode(String),
}

impl std::fmt::Display for PngError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PngError::Svg(error) => write!(f, "the picture cannot be read as SVG: {error}"),
            PngError::Size(width, height) => {
                write!(f, "a picture of {width} by {height} pixels is too large")
            }
            PngError::Encode(error) => write!(f, "the picture cannot be written as PNG: {error}"),
        }
    }
}

impl std::error::Error for PngError {}

/// A picture as PNG, with this many pixels for each of the SVG's across and down.
///
/// # Errors
/// If it is not SVG, or would be too large.
pub fn png(svg: &str, scale: u16) -> Result<Vec<u8>, PngError> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(notosans::REGULAR_TTF.to_vec());
    fonts.load_font_data(notosans::BOLD_TTF.to_vec());
    fonts.set_sans_serif_family("Noto Sans");
    let options = Options {
        fontdb: Arc::new(fonts),
        font_family: "Noto Sans".to_owned(),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(PngError::Svg)?;
    let size = tree.size().to_int_size();
    let [width, height] = [size.width(), size.height()].map(|side| side * u32::from(scale));
    let too_large = || PngError::Size(width.into(), height.into());
    if u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(too_large());
    }
    let mut pixels = Pixmap::new(width, height).ok_or_else(too_large)?;
    let enlarge = Transform::from_scale(f32::from(scale), f32::from(scale));
    resvg::render(&tree, enlarge, &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PngError::Encode(error.to_string()))
}
