//! The part of the `cmake` crate that highs-sys calls, compiling HiGHS 1.15 with the `cc` crate so that CMake is not needed.

mod sources;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const MAJOR_MINOR: &str = "1.15.";
/// Files per unit of compilation; HiGHS's own CMake uses the same number where it joins files.
const UNIT_FILES: usize = 8;
const OPT_LEVEL: u32 = 2;

/// Takes what highs-sys configures; only the source folder and the extra C++ flags matter here.
#[derive(Debug)]
pub struct Config {
    source: PathBuf,
    cxx_flags: Vec<String>,
}

impl Config {
    /// `path` is the HiGHS source folder, relative to the package being built.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { source: env_path("CARGO_MANIFEST_DIR").join(path), cxx_flags: Vec::new() }
    }

    /// Ignored: there is no generator.
    pub fn generator(&mut self, _name: impl AsRef<OsStr>) -> &mut Self {
        self
    }

    /// Refuses a build with zlib; every other definition is a default here already.
    pub fn define(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        let zlib = key.as_ref() == "ZLIB" && value.as_ref() == "ON";
        assert!(!zlib, "passes/native/cmake builds HiGHS without zlib: turn highs-sys's feature `libz` off");
        self
    }

    /// Ignored: HiGHS is always optimised, or the second cargo profile would compile it again.
    pub fn profile(&mut self, _name: &str) -> &mut Self {
        self
    }

    /// Ignored: no default flags are added.
    pub fn no_default_flags(&mut self, _on: bool) -> &mut Self {
        self
    }

    /// Adds a flag to every C++ compilation.
    pub fn cxxflag(&mut self, flag: &str) -> &mut Self {
        self.cxx_flags.push(flag.to_owned());
        self
    }

    /// Builds `lib/libhighs.a` and `include/highs/HConfig.h`, or finds them built, and returns their common folder.
    pub fn build(&mut self) -> PathBuf {
        let version = sources::version(&self.source);
        assert!(
            version.starts_with(MAJOR_MINOR),
            "passes/native/cmake knows how to compile HiGHS {MAJOR_MINOR}x, but highs-sys brings {version}; \
             pin `highs-sys = \"=1.15.0\"` or read passes/native/README.md"
        );
        let out = env_path("OUT_DIR");
        let kept = kept_folder(&out, &version);
        let archive = kept.join("lib/libhighs.a");
        if !archive.exists() {
            let fresh = out.join("highs-build");
            self.compile(&fresh, &version);
            keep(&fresh, &kept);
        }
        println!("cargo:rerun-if-changed={}", archive.display());
        kept
    }

    fn compile(&self, folder: &Path, version: &str) {
        let _ = fs::remove_dir_all(folder);
        let include = folder.join("include/highs");
        write(&include.join("HConfig.h"), &config_header(version));
        let (cxx, c) = sources::lists(&self.source);
        let scratch = folder.join("units");
        let units = sources::join_files(&cxx, UNIT_FILES, &scratch);
        let builds = [
            self.compiler(true, &include).files(units).to_owned(),
            self.compiler(false, &include).files(c).to_owned(),
            self.extras_compiler(&include, version),
        ];
        let objects =
            builds.into_iter().flat_map(|mut build| build.out_dir(&scratch).compile_intermediates());
        let lib = folder.join("lib");
        fs::create_dir_all(&lib).expect("OUT_DIR is writable");
        base_compiler().cpp(true).out_dir(lib).objects(objects).compile("highs");
    }

    /// A compiler with HiGHS's include folders, for C++ or for C.
    fn compiler(&self, cxx: bool, include: &Path) -> cc::Build {
        let mut build = base_compiler();
        build.include(include).includes(sources::include_dirs(&self.source));
        if cxx {
            build.cpp(true).std("c++11");
            build.flags(&self.cxx_flags);
        }
        build
    }

    /// The `extern` folder's interface, which HiGHS's CMake builds as a library of its own.
    fn extras_compiler(&self, include: &Path, version: &str) -> cc::Build {
        let mut build = self.compiler(true, include);
        build.define("HIGHS_EXTRAS_VERSION", format!("\"{version}\"").as_str());
        build.flag_if_supported("-ftemplate-depth=2048");
        build.files(sources::extras(&self.source));
        build
    }
}

fn base_compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build.opt_level(OPT_LEVEL).debug(false).warnings(false).cargo_metadata(false).pic(true);
    build.define("NDEBUG", None).flag_if_supported("-w");
    build
}

/// What CMake would make of `HConfig.h.in` with highs-sys's settings, but with the extras linked statically.
fn config_header(version: &str) -> String {
    let mut text =
        String::from("#ifndef HCONFIG_H_\n#define HCONFIG_H_\n#define FAST_BUILD\n#define CUPDLP_CPU\n");
    text += "#define CMAKE_BUILD_TYPE \"Release\"\n#define HIGHS_GITHASH \"n/a\"\n";
    let env = |key| std::env::var(key).unwrap_or_default();
    if matches!(env("CARGO_CFG_TARGET_ARCH").as_str(), "x86" | "x86_64") {
        text += "#define HIGHS_HAVE_MM_PAUSE\n";
    }
    let msvc = env("CARGO_CFG_TARGET_ENV") == "msvc";
    text += if msvc { "#define HIGHS_HAVE_BITSCAN_REVERSE\n" } else { "#define HIGHS_HAVE_BUILTIN_CLZ\n" };
    for (part, number) in ["MAJOR", "MINOR", "PATCH"].iter().zip(version.split('.')) {
        text += &format!("#define HIGHS_VERSION_{part} {number}\n");
    }
    text + "#endif\n"
}

/// `target/highs/<key>`, shared by all cargo profiles. `OUT_DIR` is `target/<profile>/build/<package>/out`.
fn kept_folder(out: &Path, version: &str) -> PathBuf {
    let triple = std::env::var("TARGET").expect("cargo sets TARGET");
    let build = out.ancestors().find(|folder| folder.ends_with("build"));
    let target = build.and_then(|build| build.ancestors().nth(2)).unwrap_or(out);
    target.join("highs").join(format!("{version}-{triple}-O{OPT_LEVEL}"))
}

/// Moves a finished build into place in one step, so that another cargo never sees half of it.
fn keep(fresh: &Path, kept: &Path) {
    fs::create_dir_all(kept.parent().expect("a kept folder has a parent"))
        .expect("target folder is writable");
    let _ = fs::remove_dir_all(fresh.join("units"));
    // Cargo runs the script again if the archive is newer than the run that made it, or gone: date it back.
    let archive =
        fs::File::options().append(true).open(fresh.join("lib/libhighs.a")).expect("HiGHS was archived");
    archive.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30)).expect("OUT_DIR is writable");
    if let Err(error) = fs::rename(fresh, kept) {
        assert!(kept.join("lib/libhighs.a").exists(), "cannot move HiGHS to {}: {error}", kept.display());
    }
}

fn env_path(key: &str) -> PathBuf {
    std::env::var_os(key).unwrap_or_else(|| panic!("cargo sets {key}")).into()
}

fn write(path: &Path, text: &str) {
    let folder = path.parent().expect("a file has a folder");
    fs::create_dir_all(folder).and_then(|()| fs::write(path, text)).expect("OUT_DIR is writable");
}
