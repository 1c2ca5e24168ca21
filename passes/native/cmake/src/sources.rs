//! Reads HiGHS's own list of source files, so that none is named here.

use std::fs;
use std::path::{Path, PathBuf};

/// The lists in `cmake/sources.cmake` that make up the library.
const LISTS: [&str; 7] = [
    "highs_sources",
    "cupdlp_sources",
    "ipx_sources",
    "basiclu_sources",
    "hipo_sources",
    "factor_highs_sources",
    "hipo_util_sources",
];
/// Its constants clash with another file's; HiGHS's CMake keeps it alone too.
const ALONE: &str = "io/filereaderlp/reader.cpp";

/// `1.15.0`, from `Version.txt`.
pub fn version(source: &Path) -> String {
    let text = read(&source.join("Version.txt"));
    let part = |key| text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("0").trim();
    ["HIGHS_MAJOR=", "HIGHS_MINOR=", "HIGHS_PATCH="].map(part).join(".")
}

/// All files of the library: C++ and C apart, each in HiGHS's order.
pub fn lists(source: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let text = read(&source.join("cmake/sources.cmake"));
    let files = LISTS.iter().flat_map(|name| list(&text, name)).filter(|file| !file.ends_with(".h"));
    files
        .map(|file| source.join("highs").join(file))
        .partition(|path| path.extension().is_none_or(|e| e != "c"))
}

/// The two files of the `extern` folder that are built when no optional library is.
pub fn extras(source: &Path) -> [PathBuf; 2] {
    ["HighsExtrasApi.cpp", "HighsExtrasExternalDeps.cpp"].map(|file| source.join("extern").join(file))
}

/// The folders that HiGHS's CMake puts on the include path.
pub fn include_dirs(source: &Path) -> Vec<PathBuf> {
    let text = read(&source.join("cmake/sources.cmake"));
    let dirs = list(&text, "include_dirs").into_iter();
    let inside = dirs.filter_map(|dir| dir.strip_prefix("$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/"));
    inside.map(|dir| source.join(dir.trim_end_matches('>'))).collect()
}

/// Writes files that include `count` sources each, which compiles the templates they share once.
pub fn join_files(files: &[PathBuf], count: usize, folder: &Path) -> Vec<PathBuf> {
    fs::create_dir_all(folder).expect("OUT_DIR is writable");
    let (alone, joined): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.ends_with(ALONE));
    let mut units: Vec<PathBuf> = alone.into_iter().cloned().collect();
    for (index, chunk) in joined.chunks(count).enumerate() {
        let text: String = chunk.iter().map(|file| format!("#include \"{}\"\n", file.display())).collect();
        let unit = folder.join(format!("unit_{index}.cpp"));
        fs::write(&unit, text).expect("OUT_DIR is writable");
        units.push(unit);
    }
    units
}

/// The words of `set(name …)`.
fn list<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let start =
        text.find(&format!("set({name}\n")).unwrap_or_else(|| panic!("no list `{name}` in sources.cmake"));
    let body = &text[start..][..text[start..].find(')').expect("a list is closed")];
    body.split_whitespace().skip(1).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
