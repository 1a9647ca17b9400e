//! A flame graph of sampled stacks: one SVG file, which a browser shows and searches without anything else.
//!
//! Invariant: a box is as wide as its share of the samples.

use std::{collections::BTreeMap, fs, io::BufWriter, path::Path};

use inferno::flamegraph::{Options, from_lines};

/// Draws stacks, each as `thread;outermost;…;innermost` with the number of its samples.
pub(super) fn draw(stacks: &BTreeMap<String, u64>, title: &str, path: &Path) -> Result<(), String> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle =
        Some("a box is a function: as wide as its share of the samples, above its caller".into());
    // The same samples make the same picture.
    options.deterministic = true;
    let lines: Vec<String> =
        stacks.iter().map(|(stack, count)| format!("{stack} {count}")).collect();
    let written = fs::File::create(path).and_then(|file| {
        from_lines(&mut options, lines.iter().map(String::as_str), BufWriter::new(file))
    });
    written.map_err(|error| format!("cannot draw {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each function has a box with its samples and its share; the picture asks the network for nothing.
    #[test]
    fn a_box_has_its_share_of_the_samples() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flame-graph.svg");
        let stacks = [("core;turn;match_order<T>", 3), ("core;turn", 1), ("feed;send", 4)];
        let stacks = stacks.map(|(stack, count)| (stack.to_owned(), count)).into();
        draw(&stacks, "damrak profile udp", &path).unwrap();
        let svg = fs::read_to_string(&path).unwrap();
        assert!(svg.starts_with("<?xml") && svg.contains("damrak profile udp"), "{svg}");
        for text in [
            "turn (4 samples, 50.00%)",
            "match_order&lt;T&gt; (3 samples, 37.50%)",
            "all (8 samples, 100%)",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("src=\"http") && !svg.contains("href=\"http"), "{svg}");
        let nowhere = draw(&stacks, "", &folder.path().join("none/x.svg")).unwrap_err();
        assert!(nowhere.contains("none/x.svg"), "{nowhere}");
    }
}
