//! Where programs come from: files of several formats, and families that phzc writes itself.

pub mod zoo;
