//! `damrak report`: results of `damrak load`, or of `damrak lab origins`, as one page.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use clap::Args;
use lab::report_page::{self, ReportInput};
use venue::failure::Failure;

use super::{command_line, output::print_line};

/// The program names of browsers that can take a picture of a page.
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Make one HTML page of load results (percentiles, latency and rate over time, heat maps), or of `damrak lab origins`.
///
/// The page is one file that needs no network. Several results share each chart. Two sentences name the measurement and
/// its limits; the commands to repeat the runs follow.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak load --rate 20k/s --for 20s --out quiet\n  \
                        damrak report quiet -o report.html\n  \
                        damrak report quiet busy -o both.html --png both.png")]
pub struct Arguments {
    /// Folders of `damrak load --out`, or load.json files; or one folder of `damrak lab origins`.
    #[arg(required = true, value_name = "FOLDER")]
    results: Vec<PathBuf>,
    /// The HTML file to write.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Also write a picture of the top of the page; needs Chromium.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
}

/// Runs `damrak report`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (mut loads, mut origins) = (Vec::new(), Vec::new());
    for path in &arguments.results {
        match report_page::read(path).map_err(Failure::usage)? {
            ReportInput::Loads(runs) => loads.extend(runs),
            ReportInput::Origins(rows) => origins.push(rows),
        }
    }
    let page = match (&origins[..], loads.is_empty()) {
        ([], _) => report_page::page(&loads, &command_line()),
        ([rows], true) => report_page::origins_page(rows, &command_line()),
        _ => {
            return Err(Failure::usage(
                "a page has either load results or one result of `damrak lab origins`, not both",
            )
            .hint("make a page for each"));
        }
    };
    let path = &arguments.output;
    fs::write(path, page)
        .map_err(|error| Failure::runtime(format!("cannot write {}: {error}", path.display())))?;
    print_line(&path.display().to_string())?;
    match &arguments.png {
        Some(png) => {
            take_picture(path, png)?;
            print_line(&png.display().to_string())
        }
        None => Ok(()),
    }
}

/// Lets a browser draw the page into a file.
fn take_picture(page: &Path, png: &Path) -> Result<(), Failure> {
    let unreadable = |error| Failure::runtime(format!("cannot find {}: {error}", page.display()));
    let page = page.canonicalize().map_err(unreadable)?;
    let profile = std::env::temp_dir().join(format!("damrak-report-{}", std::process::id()));
    let drawn = BROWSERS.iter().find_map(|browser| {
        Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--window-size=1280,1100", "--virtual-time-budget=10000"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--screenshot={}", png.display()))
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .ok()
    });
    // The profile is the browser's; one that stays does no harm.
    let _ = fs::remove_dir_all(&profile);
    match drawn {
        None => Err(Failure::environment("--png needs Chromium, which is not installed")
            .hint("install chromium, or take the picture in a browser")),
        Some(status) if status.success() && png.is_file() => Ok(()),
        Some(status) => {
            Err(Failure::runtime(format!("the browser drew no {} ({status})", png.display())))
        }
    }
}
