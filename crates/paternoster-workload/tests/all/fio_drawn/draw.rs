// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draw: job files within fio's documented block-I/O options and forms of numbers.
//!
//! A drawn file holds a few sections one after the other (`stonewall`), perhaps below one or two
//! `[global]`s. Most options of a section are sound together; a few are at an edge on purpose
//! (`size=100%`, sizes that no block divides, steps over the end). What needs a clock is not drawn
//! here, nor `randrepeat=0`, whose seed fio takes from the system.

/// Draws from a seed (splitmix64).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `least` to `most`.
    pub(crate) fn number(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// True in this many of a hundred cases.
    fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub(crate) fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let count = u64::try_from(words.len()).expect("few");
        words[usize::try_from(self.number(0, count - 1)).expect("few")]
    }

    /// A number of bytes, in one of the forms that fio reads.
    fn bytes(&mut self, bytes: u64) -> String {
        if bytes >= 1024 && bytes.is_multiple_of(1024) && self.percent(85) {
            let unit = self.of(&["k", "k", "k", "k", "K", "kb", "kB", "KB", "ki", "Ki"]);
            return format!("{}{unit}", bytes / 1024);
        }
        if self.percent(30) { format!("{bytes:#x}") } else { bytes.to_string() }
    }

    /// A block size.
    fn block(&mut self) -> u64 {
        let usual = [512, 1024, 2048, 4096, 4096, 4096, 4096, 8192, 8192, 12_288, 16_384, 32_768];
        match self.number(0, 19) {
            0 => 4000,
            1 => 512 * self.number(1, 40),
            _ => usual[usize::try_from(self.number(0, 11)).expect("few")],
        }
    }

    fn block_text(&mut self) -> String {
        let block = self.block();
        self.bytes(block)
    }

    /// `one`, `read,write`, `,write`, `read,` or all three.
    fn triple(&mut self, mut one: impl FnMut(&mut Chance) -> String) -> String {
        let (a, b, c) = (one(self), one(self), one(self));
        match self.number(0, 9) {
            0..=5 => a,
            6 => format!("{a},{b}"),
            7 => format!(",{b}"),
            8 => format!("{a},"),
            _ => format!("{a},{b},{c}"),
        }
    }
}

/// One option; without a value it is bare.
pub(crate) type Opt = (String, String);

/// A section, or a `[global]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// Its name.
    pub(crate) name: String,
    /// Its options.
    pub(crate) options: Vec<Opt>,
}

impl Section {
    pub(crate) fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

/// A job file.
pub(crate) fn text(sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        text += &format!("[{}]\n", section.name);
        for (name, value) in &section.options {
            text +=
                &if value.is_empty() { format!("{name}\n") } else { format!("{name}={value}\n") };
        }
        if !section.is_global() {
            text += &format!("write_iolog=log-{}\nstonewall\n", section.name);
        }
    }
    text
}

/// A drawn file of this many sections.
pub(crate) fn file(chance: &mut Chance, sections: usize) -> Vec<Section> {
    let mut all = Vec::new();
    if chance.percent(40) {
        all.push(global(chance));
    }
    for number in 0..sections {
        if number > 0 && chance.percent(12) {
            all.push(global(chance));
        }
        let name = ["a", "b", "c", "d", "e", "f", "g", "h"][number % 8].to_owned();
        all.push(Section { name, options: section(chance) });
    }
    all
}

/// A few options for the sections below.
fn global(chance: &mut Chance) -> Section {
    let mut drawn = section(chance);
    drawn.retain(|(name, value)| {
        // A percentage of a file that does not exist yet depends on whether there are files.
        let part = value.contains('%') && name.starts_with("offset");
        let range = name == "filesize" && value.contains('-');
        !part
            && !range
            && !matches!(name.as_str(), "size" | "filename" | "nrfiles" | "numjobs" | "ioengine")
            && !name.starts_with("zone")
    });
    let kept = usize::try_from(chance.number(1, 3)).expect("few");
    while drawn.len() > kept {
        let last = u64::try_from(drawn.len()).expect("few") - 1;
        drawn.remove(usize::try_from(chance.number(0, last)).expect("few"));
    }
    drawn.push(("size".to_owned(), "64k".to_owned()));
    drawn.push(("ioengine".to_owned(), "null".to_owned()));
    // To fio they are the same.
    let name = ["global", "global2", "globals"][drawn.len() % 3].to_owned();
    Section { name, options: drawn }
}

/// The options of one section.
fn section(chance: &mut Chance) -> Vec<Opt> {
    let mut options = Vec::new();
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    let random = chance.percent(60);
    let ways = if random {
        ["randread", "randread", "randwrite", "randwrite", "randrw", "randrw", "randtrim"]
    } else {
        ["read", "read", "write", "write", "rw", "readwrite", "trim"]
    };
    let mut way = chance.of(&ways);
    if chance.percent(4) {
        way = if random { "randtrimwrite" } else { "trimwrite" };
    }
    let writes = !way.ends_with("read") && !way.ends_with("trim");
    let psync = chance.percent(25) && !way.contains("trim");
    set("ioengine", if psync { "psync" } else { "null" }.to_owned());
    let suffix = match (chance.percent(15), random) {
        (false, _) => String::new(),
        (true, true) => format!(":{}", chance.number(1, 8)),
        (true, false) => {
            let step = chance.block_text();
            format!(":{}{step}", if chance.percent(40) { "-" } else { "" })
        }
    };
    set("rw", format!("{way}{suffix}"));
    if !suffix.is_empty() && random && chance.percent(30) {
        set("rw_sequencer", chance.of(&["sequential", "identical"]).to_owned());
    }
    if (way.ends_with("rw") || way == "readwrite") && chance.percent(40) {
        set(chance.of(&["rwmixread", "rwmixwrite"]), chance.number(0, 100).to_string());
    }
    sizes_of_blocks(chance, &mut options);
    place(chance, &mut options, psync);
    order(chance, &mut options, random);
    amount(chance, &mut options);
    if writes {
        syncs(chance, &mut options);
    }
    options
}

fn sizes_of_blocks(chance: &mut Chance, options: &mut Vec<Opt>) {
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    if chance.percent(85) {
        let name = if chance.percent(90) { "bs" } else { "blocksize" };
        set(name, chance.triple(Chance::block_text));
    }
    if chance.percent(12) {
        let range = |chance: &mut Chance| {
            let (low, times) = (chance.block(), chance.number(1, 5));
            let high = low * times;
            let (low, high) = (chance.bytes(low), chance.bytes(high));
            format!("{low}-{high}")
        };
        set("bsrange", chance.triple(range));
        if chance.percent(15) {
            set("bs_unaligned", String::new());
        }
    } else if chance.percent(12) {
        let split = |chance: &mut Chance| match chance.number(0, 3) {
            0 => format!("{}/", chance.block_text()),
            1 => format!("{}/30:{}/", chance.block_text(), chance.block_text()),
            2 => {
                let part = chance.number(0, 100);
                format!("{}/{part}:{}/{}", chance.block_text(), chance.block_text(), 100 - part)
            }
            _ => {
                let (first, second) = (chance.number(1, 50), chance.number(1, 49));
                let sizes = [(); 3].map(|()| chance.block_text());
                let rest = 100 - first - second;
                format!("{}/{first}:{}/{second}:{}/{rest}", sizes[0], sizes[1], sizes[2])
            }
        };
        set("bssplit", chance.triple(split));
    }
    if chance.percent(4) {
        set(chance.of(&["ba", "blockalign"]), chance.triple(Chance::block_text));
    }
    if chance.percent(2) {
        set("bs_is_seq_rand", chance.of(&["1", "0"]).to_owned());
    }
}

/// A size of a region: some blocks, and now and then a rest.
fn region(chance: &mut Chance) -> u64 {
    let blocks = chance.number(2, 120) * 4096;
    match chance.number(0, 9) {
        0 => blocks + 512 * chance.number(1, 7),
        1 => blocks + chance.number(1, 4095),
        _ => blocks,
    }
}

fn place(chance: &mut Chance, options: &mut Vec<Opt>, psync: bool) {
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    let size = region(chance);
    set("size", chance.bytes(size));
    if chance.percent(10) {
        let low = region(chance);
        let mut text = chance.bytes(low);
        if psync && chance.percent(30) {
            let high = region(chance);
            text += &format!("-{}", chance.bytes(high));
        }
        set("filesize", text);
    }
    if chance.percent(12) {
        let bytes = match chance.number(0, 2) {
            0 => region(chance),
            1 => size / 2,
            _ => size * 2 + 4096,
        };
        let text = if chance.percent(15) {
            format!("{}%", chance.number(1, 100))
        } else {
            chance.bytes(bytes)
        };
        set(chance.of(&["io_size", "io_limit"]), text);
    }
    if chance.percent(10) {
        let blocks = chance.number(1, 40);
        let text = if chance.percent(20) && !psync {
            format!("{}%", chance.number(0, 90))
        } else {
            chance.bytes(blocks * 4096)
        };
        set("offset", text);
        if chance.percent(15) {
            set("offset_align", "4k".to_owned());
        }
    }
    if chance.percent(12) {
        set("nrfiles", chance.number(2, 5).to_string());
    } else if chance.percent(8) {
        // A file that no other section has: this one laid out its contents.
        let number = chance.number(0, 999_999);
        set("filename", format!("x{number}:y{number}"));
    } else if chance.percent(6) {
        set("filename", format!("z{}", chance.number(0, 999_999)));
    } else if chance.percent(12) {
        set("numjobs", chance.number(2, 3).to_string());
        if chance.percent(50) {
            set(
                "offset_increment",
                if psync || chance.percent(85) {
                    let blocks = chance.number(1, 20);
                    chance.bytes(blocks * 4096)
                } else {
                    format!("{}%", chance.number(0, 30))
                },
            );
        }
    }
    let several = options.iter().any(|(name, value)| name == "nrfiles" || value.contains(":y"));
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    if several && chance.percent(40) {
        let services = [
            "roundrobin",
            "roundrobin:2",
            "sequential",
            "random",
            "random:3",
            "zipf",
            "pareto:0.4",
            "normal:20",
        ];
        set("file_service_type", chance.of(&services).to_owned());
    }
    if several && chance.percent(6) {
        set("openfiles", chance.number(1, 3).to_string());
    }
    if psync && chance.percent(10) {
        set("overwrite", "1".to_owned());
    }
}

fn order(chance: &mut Chance, options: &mut Vec<Opt>, random: bool) {
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    if random && chance.percent(8) {
        set("norandommap", chance.of(&["", "1", "0"]).to_owned());
    }
    if random && chance.percent(8) {
        set("random_generator", chance.of(&["tausworthe", "tausworthe64", "lfsr"]).to_owned());
    }
    if random && chance.percent(12) {
        let laws = [
            "random",
            "zipf",
            "zipf:0.6",
            "zipf:1.3",
            "zipf:1.1:0.3",
            "pareto:0.3",
            "pareto:0.8:0.5",
            "normal:15",
            "normal:30:0.2",
            "zoned:60/10:40/90",
            "zoned:50/5:30/15:20/",
            "zoned:33/33:33/33:34/34",
            "zoned_abs:60/20k:40/44k",
            "zoned_abs:95/4k:5/60k",
        ];
        set("random_distribution", chance.of(&laws).to_owned());
    }
    if random && chance.percent(8) {
        set("percentage_random", chance.triple(|chance| chance.number(0, 100).to_string()));
    }
    if chance.percent(5) {
        set("randseed", chance.number(0, 1 << 33).to_string());
    }
    if chance.percent(3) {
        set("allrandrepeat", "1".to_owned());
    }
    if chance.percent(7) {
        set("zonemode", "strided".to_owned());
        let (size, skip) = (chance.number(1, 12) * 4096, chance.number(0, 12) * 4096);
        set("zonesize", chance.bytes(size));
        if chance.percent(80) {
            set("zoneskip", chance.bytes(skip));
        }
        if chance.percent(30) {
            let range = chance.number(1, 12) * 4096;
            set("zonerange", chance.bytes(range));
        }
    }
}

fn amount(chance: &mut Chance, options: &mut Vec<Opt>) {
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    if chance.percent(8) {
        set("number_ios", chance.number(1, 200).to_string());
    }
    if chance.percent(12) {
        set("loops", chance.number(2, 4).to_string());
    }
}

fn syncs(chance: &mut Chance, options: &mut Vec<Opt>) {
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    if chance.percent(10) {
        set("fsync", chance.number(1, 8).to_string());
    }
    if chance.percent(6) {
        set("fdatasync", chance.number(1, 8).to_string());
    }
    if chance.percent(4) {
        set(
            "sync_file_range",
            format!(
                "{}:{}",
                chance.of(&["write", "wait_before,write", "wait_after"]),
                chance.number(1, 8)
            ),
        );
    }
    if chance.percent(5) {
        set(chance.of(&["end_fsync", "fsync_on_close"]), "1".to_owned());
    }
}
