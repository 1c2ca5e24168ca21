//! Every access to files: reading programs whole, writing results whole or not at all.

use flate2::read::MultiGzDecoder;
use phzc_ir::{Diagnostic, Result};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// No program as text is larger, unpacked; what is larger is a mistake or an attack.
pub const MAX_TEXT_BYTES: u64 = 512 << 20;
/// No program in a binary format, which may hold weights, is larger: protobuf's own limit.
pub const MAX_BINARY_BYTES: u64 = 2 << 30;
/// No file of inputs is larger.
pub const MAX_ARRAY_BYTES: u64 = 16 << 30;
/// No cluster file is larger.
pub const MAX_CLUSTER_BYTES: u64 = 1 << 20;

/// Whether a file can be made: its directory must be there, and the file is none itself.
///
/// # Errors
/// When it is not, before the work whose result it is to hold.
pub fn check_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
            check_dir(parent)?;
            let error =
                Diagnostic::error(format!("cannot write `{}`: there is no such directory", path.display()));
            Err(error.help(format!("make `{}` first", parent.display())))
        }
        _ if path.is_dir() => {
            let error = Diagnostic::error(format!("cannot write `{}`: it is a directory", path.display()));
            Err(error.help("name a file in it"))
        }
        _ => Ok(()),
    }
}

/// Whether a directory is there or can be made: nothing on its path is a file.
///
/// # Errors
/// When something is, before the work whose results it is to hold.
pub fn check_dir(path: &Path) -> Result<()> {
    let Some(file) = path.ancestors().find(|part| part.exists()).filter(|part| !part.is_dir()) else {
        return Ok(());
    };
    let message = format!("cannot create the directory `{}`: `{}` is a file", path.display(), file.display());
    Err(Diagnostic::error(message).help("name another directory, or remove the file"))
}

/// Reads a text file of at most `limit` bytes, unpacked if it is gzipped.
pub fn read(path: &Path, limit: u64) -> Result<String> {
    text(read_unpacked(path, limit)?, &format!("`{}`", path.display()), limit)
}

/// Reads a file of at most `limit` bytes, unpacked if it is gzipped, that is not empty.
pub fn read_unpacked(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let name = format!("`{}`", path.display());
    let file = open(path).map_err(|error| unreadable(&name, &error))?;
    read_from(file, &name, limit)
}

/// The first bytes of a file, at most so many; none of a pipe, which can be read only once.
pub fn first(path: &Path, n: usize) -> Result<Vec<u8>> {
    let file = opened(path)?;
    let mut bytes = Vec::new();
    if file.metadata().is_ok_and(|meta| meta.is_file()) {
        let read = file.take(n as u64).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(&format!("`{}`", path.display()), &error))?;
    }
    Ok(bytes)
}

/// Opens a file for one who reads parts of it.
pub fn opened(path: &Path) -> Result<File> {
    open(path).map_err(|error| unreadable(&format!("`{}`", path.display()), &error))
}

fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    // Opening a directory succeeds on Unix, reading it fails with a stranger message.
    if file.metadata()?.is_dir() { Err(ErrorKind::IsADirectory.into()) } else { Ok(file) }
}

/// As [`read_unpacked`], from a stream that messages call `name`.
pub fn read_from(stream: impl Read, name: &str, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(limit + 1).read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        bytes = unpack(&bytes, name, limit)?;
    }
    check_size(&bytes, name, limit)?;
    if bytes.is_empty() {
        return Err(Diagnostic::error(format!("{name} is empty")));
    }
    Ok(bytes)
}

fn check_size(bytes: &[u8], name: &str, limit: u64) -> Result<()> {
    match bytes.len() as u64 > limit {
        true => Err(Diagnostic::error(format!("{name} is larger than {} MiB", limit >> 20))),
        false => Ok(()),
    }
}

/// At most `limit` bytes as text; messages call them `name`.
pub fn text(bytes: Vec<u8>, name: &str, limit: u64) -> Result<String> {
    check_size(&bytes, name, limit)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let byte = error.as_bytes()[at];
        Diagnostic::error(format!("{name} is not UTF-8 text: byte {at} is 0x{byte:02x}"))
    })
}

fn unpack(packed: &[u8], name: &str, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match MultiGzDecoder::new(packed).take(limit + 1).read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Diagnostic::error(format!("{name} is a damaged gzip file: {error}"))),
    }
}

fn unreadable(name: &str, error: &io::Error) -> Diagnostic {
    Diagnostic::error(format!("cannot read {name}: {}", reason(error)))
}

/// The cause in a user's words, without the operating system's numbers.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such file or directory".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::IsADirectory => "it is a directory".to_owned(),
        ErrorKind::NotADirectory => "a part of its path is not a directory".to_owned(),
        ErrorKind::StorageFull => "no space is left on the device".to_owned(),
        _ => error.to_string(),
    }
}

/// Reads a file of at most `limit` bytes.
pub fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let name = format!("`{}`", path.display());
    let mut bytes = Vec::new();
    let read = open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    read.map_err(|error| unreadable(&name, &error))?;
    check_size(&bytes, &name, limit)?;
    Ok(bytes)
}

/// Reads `length` bytes of a file, or all, from an offset on.
pub fn read_part(path: &Path, offset: u64, length: Option<u64>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(offset))?;
        file.take(length.unwrap_or(u64::MAX)).read_to_end(&mut bytes)
    });
    read.map_err(|error| unreadable(&format!("`{}`", path.display()), &error))?;
    Ok(bytes)
}

/// Adds a text to a file that is there, for results that come one by one.
///
/// # Errors
/// When it cannot be written.
pub fn append(path: &Path, text: &str) -> Result<()> {
    let added = File::options().append(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    added.map_err(|error| unwritable(path, &error))
}

/// Writes a file whole or not at all: a reader never sees half of it.
pub fn write(path: &Path, text: &str) -> Result<()> {
    write_bytes(path, text.as_bytes())
}

/// As [`write()`], of any bytes.
pub fn write_bytes(path: &Path, text: &[u8]) -> Result<()> {
    // Through a link to the file that it means; devices and pipes cannot be replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let kind = fs::metadata(&target).map(|meta| meta.file_type()).ok();
    let written = match kind {
        Some(kind) if kind.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Some(kind) if !kind.is_file() => fs::write(&target, text),
        _ => replace(&target, text),
    };
    written.map_err(|error| unwritable(path, &error))
}

/// Why a file cannot be written, and what to do: a directory that is not there has an error of its own.
fn unwritable(path: &Path, error: &io::Error) -> Diagnostic {
    let plain = Diagnostic::error(format!("cannot write `{}`: {}", path.display(), reason(error)));
    match error.kind() {
        ErrorKind::NotFound => check_parent(path).err().unwrap_or(plain),
        ErrorKind::StorageFull => plain.help(FULL),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            plain.help("name a file in a directory that you may write to")
        }
        _ => plain,
    }
}

/// What to do where nothing more can be stored.
pub(crate) const FULL: &str = "free space there, or name a file elsewhere";

fn replace(target: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = beside(target);
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, target));
    if written.is_err() {
        // It may never have come to be.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// A hidden name in the same directory, so that renaming crosses no file system.
fn beside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    target.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

/// Removes a file, if it is there.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Diagnostic::error(format!("cannot remove `{}`: {}", path.display(), reason(&error))))
        }
        _ => Ok(()),
    }
}

/// The files of a directory whose names end so, sorted; a file is itself.
pub fn listed(path: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let (found, _) = parted(path, extension)?;
    Ok(if path.is_dir() { found } else { vec![path.to_path_buf()] })
}

/// The other files of a directory, sorted.
pub fn beside_listed(path: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let (_, others) = parted(path, extension)?;
    Ok(others.into_iter().filter(|path| path.is_file()).collect())
}

/// What is in a directory: whose names end so, and the rest; a file has nothing in it.
fn parted(path: &Path, extension: &str) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    if !path.is_dir() {
        return Ok((Vec::new(), Vec::new()));
    }
    let name = format!("`{}`", path.display());
    let entries = fs::read_dir(path).map_err(|error| unreadable(&name, &error))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    Ok(paths.into_iter().partition(|path| path.extension().is_some_and(|is| is == extension)))
}

/// Makes a directory and those above it.
pub fn make_dir(path: &Path) -> Result<()> {
    check_dir(path)?;
    let message = |error: io::Error| {
        Diagnostic::error(format!("cannot create `{}`: {}", path.display(), reason(&error)))
    };
    fs::create_dir_all(path).map_err(message)
}
