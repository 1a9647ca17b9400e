//! A disk whose power can be cut, for `kill --power-cuts`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use venue::failure::Failure;

/// Bytes of the disk: a journal of a run takes a small part of it.
const DISK_BYTES: u64 = 512 << 20;

/// A test disk whose power can be cut: ext4 in a file, mounted in a folder.
pub struct Disk {
    image: PathBuf,
    place: PathBuf,
    is_mounted: bool,
}

impl Disk {
    /// Makes the disk in this folder and mounts it.
    ///
    /// # Errors
    /// The disk needs root, loop devices and `mkfs.ext4`.
    pub fn make(folder: &Path) -> Result<Self, Failure> {
        let folder = folder.canonicalize().map_err(|error| unable("a folder", &error))?;
        let (image, place) = (folder.join("disk.ext4"), folder.join("disk"));
        fs::create_dir(&place).map_err(|error| unable("a folder", &error))?;
        fs::File::create_new(&image)
            .and_then(|file| file.set_len(DISK_BYTES))
            .map_err(|error| unable("a file", &error))?;
        called(Command::new("mkfs.ext4").arg("-q").arg(&image))?;
        let mut disk = Self { image, place, is_mounted: false };
        disk.mount()?;
        Ok(disk)
    }

    /// The folder where it is mounted.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Cuts the power: from now on every read and write fails, and all bytes that were not on the
    /// medium are lost.
    ///
    /// # Errors
    /// The system call failed.
    pub fn cut_power(&self) -> Result<(), Failure> {
        os::cut_power(&self.place).map_err(|error| unable("a power cut", &error))
    }

    /// Restores the power: mounts the disk again. No file on it may be open.
    ///
    /// # Errors
    /// The mount failed.
    pub fn restart(&mut self) -> Result<(), Failure> {
        called(Command::new("umount").arg(&self.place))?;
        self.is_mounted = false;
        self.mount()
    }

    fn mount(&mut self) -> Result<(), Failure> {
        called(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.place))?;
        self.is_mounted = true;
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            release(&self.place);
        }
    }
}

/// Unmounts the disk that a killed run left mounted in this folder, if there is one.
pub fn release_left(folder: &Path) {
    let place = folder.join("disk");
    if place.is_dir() {
        release(&place);
    }
}

/// Best effort: if the disk stays mounted, removing the folder fails later.
fn release(place: &Path) {
    let _ = Command::new("umount")
        .arg(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

fn unable(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::environment(format!("cannot set up the disk for --power-cuts: {what}: {error}")).hint(
        "the disk needs root, loop devices and mkfs.ext4; without --power-cuts none is needed",
    )
}

fn called(command: &mut Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| unable(&program, &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(unable(&program, &said.trim().lines().next().unwrap_or("it failed without a message")))
}
