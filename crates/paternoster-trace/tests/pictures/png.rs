// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures as PNG: do they have the SVG's size, its colours, and letters without any font of the
//! host? Only in a crate built with the feature `png`.

use paternoster_trace::plot::{PngError, png};
use paternoster_trace::{Kind, draw};

use crate::scenes::Scene;

/// Width, height and pixels.
fn decoded(bytes: &[u8]) -> (u32, u32, Vec<[u8; 3]>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut pixels).expect("pixels");
    let samples = info.color_type.samples();
    let pixels = pixels.chunks_exact(samples).map(|pixel| [pixel[0], pixel[1], pixel[2]]);
    (info.width, info.height, pixels.collect())
}

/// Has every kind its size, the ground, the colour of the first series, and letters?
#[test]
fn pictures_have_size_colours_and_letters() {
    let runs = [Scene::new("one", 3, 400).run(), Scene::new("other", 4, 400).run()];
    for kind in Kind::ALL {
        let svg = draw(kind, "a subject", &runs);
        let document = roxmltree::Document::parse(&svg).expect("sound");
        let of = |name| document.root_element().attribute(name).map(|side| side.parse::<u32>());
        let size = ["width", "height"].map(|name| of(name).expect("a size").expect("a number"));
        let bytes = png(&svg, 2).expect("a picture");
        let (width, height, pixels) = decoded(&bytes);
        assert_eq!([width, height], size.map(|side| side * 2), "{}", kind.name());
        let count = |colour: [u8; 3]| pixels.iter().filter(|pixel| **pixel == colour).count();
        assert!(count([255, 255, 255]) > pixels.len() / 2);
        assert!(count([0x00, 0x72, 0xb2]) > 100, "{}: blue", kind.name());
        // The title is 19 pixels high, at 92 from the left and 30 from above; twice that here.
        let title = (30..62_usize).flat_map(|y| {
            let row = y * width as usize;
            &pixels[row + 180..row + 400]
        });
        let dark = title.filter(|pixel| **pixel == [0x22; 3]).count();
        assert!(dark > 200, "{}: {dark} pixels of letters", kind.name());
        assert_eq!(bytes, png(&svg, 2).expect("a picture"));
    }
}

/// Is a text that is not a picture, or would have billions of pixels, an error with a reason?
#[test]
fn what_cannot_be_drawn_is_told() {
    assert!(matches!(png("no picture", 1), Err(PngError::Svg(_))));
    let large = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"90000\" height=\"90000\"/>";
    let error = png(large, 2).expect_err("too large");
    assert_eq!(error.to_string(), "a picture of 180000 by 180000 pixels is too large");
}
