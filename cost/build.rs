//! Embeds every TOML file of `accels/` and `clusters/`, sorted by name, so that a new file needs no other
//! line.

use std::{env, fs, path::Path};

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let code = [table(&root, "accels", "ACCELS"), table(&root, "clusters", "CLUSTERS")].concat();
    fs::write(Path::new(&out).join("embedded.rs"), code).expect("OUT_DIR is writable");
}

/// A Rust constant that lists `(file stem, text)` of each TOML file in `folder`.
fn table(root: &str, folder: &str, constant: &str) -> String {
    println!("cargo::rerun-if-changed={folder}");
    let entries = fs::read_dir(Path::new(root).join(folder)).expect("the folder is part of the crate");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let rows = paths.iter().map(|path| {
        let stem = path.file_stem().expect("a file has a name").to_string_lossy();
        format!("    ({stem:?}, include_str!({path:?})),\n")
    });
    format!(
        "/// The files of `{folder}/`.\nconst {constant}: &[(&str, &str)] = &[\n{}];\n",
        rows.collect::<String>()
    )
}
