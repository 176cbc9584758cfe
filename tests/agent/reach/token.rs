//! A token whose file system hangs.

use std::ffi::CStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::stage::Stage;

/// A file system that answers nothing: everybody who looks up a name in it waits.
struct HungFileSystem {
    place: PathBuf,
    /// Its end is the end of all that wait.
    _server: File,
}

impl HungFileSystem {
    fn at(place: &Path) -> Self {
        const FUSE: &CStr = c"fuse";
        fs::create_dir(place).unwrap();
        let server = File::options().read(true).write(true).open("/dev/fuse").unwrap();
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", server.as_raw_fd());
        mount(Some(FUSE), place, Some(FUSE), MsFlags::empty(), Some(options.as_str())).unwrap();
        Self {
            place: place.to_owned(),
            _server: server,
        }
    }
}

impl Drop for HungFileSystem {
    fn drop(&mut self) {
        let _ = umount2(&self.place, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_token_file_on_a_file_system_that_hangs_holds_up_neither_the_worker_nor_the_end() {
    let stage = Stage::new();
    let hung = HungFileSystem::at(&stage.at("hung"));
    let mut init = stage
        .worker("link = Link(); link.ready(); link.work()")
        .with("OJS_AUTH_TOKEN_FILE", hung.place.join("token"))
        .start();
    init.notes_line("ready");
    init.stops();
}
