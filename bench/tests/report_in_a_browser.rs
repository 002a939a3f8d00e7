//! The page in a real browser: it raises no error, and its slider changes what is shown.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Bench, serve, slow_above};
use serde_json::{Value, json};
use testbed::{TempDir, cache};

/// Before anything else on the page: what goes wrong is kept.
const CATCH: &str = "<script>
window.faults = [];
addEventListener('error', (event) => faults.push(event.message));
addEventListener('unhandledrejection', (event) => faults.push(String(event.reason)));
const error = console.error;
console.error = (...words) => { faults.push(words.join(' ')); error(...words); };
</script>";

/// After everything else: moves the slider as a reader would, and writes down what is shown.
const DRIVE: &str = "<script>
const slider = document.getElementById('level');
const words = (id) => document.getElementById(id).textContent;
const ink = (id) => {
  const canvas = document.querySelector(`#${id} canvas`);
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.reduce((sum, value, at) => (sum + value * (at % 1009)) % 4294967291, 0);
};
// A chart is drawn in a microtask: what is shown is looked at after it.
(async () => {
const seen = [];
for (let at = 0; at <= Number(slider.max); at += 1) {
  slider.value = at;
  slider.dispatchEvent(new Event('input', { bubbles: true }));
  await null;
  seen.push([words('level-name'), words('level-verdict'), words('level-facts')].join(' | '), ink('level-latency'), ink('level-cpu'));
}
const buttons = () => [...document.querySelectorAll('#topologies button')];
const tabs = [];
for (const name of buttons().map((button) => button.textContent)) {
  buttons().find((button) => button.textContent === name).click();
  await null;
  const pressed = buttons().filter((button) => button.getAttribute('aria-pressed') === 'true').map((button) => button.textContent);
  tabs.push({ name, pressed, ink: ink('latency-chart') });
}
document.getElementById('dau').value = 5000000;
document.getElementById('dau').dispatchEvent(new Event('input', { bubbles: true }));
const result = document.createElement('pre');
result.id = 'result';
result.textContent = JSON.stringify({
  faults, seen, tabs, plan: words('plan'), width: innerWidth,
  wide: document.documentElement.scrollWidth > innerWidth,
  ground: getComputedStyle(document.body).backgroundColor,
  hidden: [...document.querySelectorAll('section')].filter((section) => section.hidden).map((section) => section.id),
});
parent.document.body.append(result);
})();
</script>";

fn browser() -> Command {
    let mut chromium = Command::new("chromium");
    chromium.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    chromium
}

/// What `bench report` makes of the results.
fn report(results: &[PathBuf], folder: &Path) -> String {
    let page = folder.join("report.html");
    let report = Command::new(env!("CARGO_BIN_EXE_bench"))
        .arg("report")
        .args(results)
        .arg("--out")
        .arg(&page)
        .output()
        .unwrap();
    assert!(report.status.success(), "{}", common::text(&report));
    std::fs::read_to_string(&page).unwrap()
}

/// What a reader with so wide a screen sees who tries everything.
fn drive(page: &str, width: u32, is_dark: bool, folder: &Path) -> Value {
    let page = page
        .replacen("<head>", &format!("<head>{CATCH}"), 1)
        .replacen("</body>", &format!("{DRIVE}</body>"), 1);
    // In a frame, since a window has a least width, which is more than a phone's.
    let page = serde_json::to_string(&page).unwrap().replace("</", "<\\/");
    let framed = format!(
        "<!doctype html><meta charset=utf-8><body><script>
        const frame = document.createElement('iframe');
        frame.style = 'width: {width}px; height: 900px; border: 0';
        frame.srcdoc = {page};
        document.body.append(frame);
        </script>"
    );
    let file = folder.join("driven.html");
    std::fs::write(&file, framed).unwrap();
    let profile = folder.join(format!("profile-{width}-{is_dark}"));
    let mut chromium = browser();
    if is_dark {
        chromium.arg("--blink-settings=preferredColorScheme=0");
    }
    let output = chromium
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(["--window-size=1400,1000", "--dump-dom"])
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium is not in PATH: install it (apt-get install chromium)");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, rest) = dom
        .split_once("<pre id=\"result\">")
        .unwrap_or_else(|| panic!("the page did not run to its end: {}", common::text(&output)));
    let text = rest
        .split_once("</pre>")
        .unwrap()
        .0
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    let seen: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(seen["faults"], json!([]));
    assert_eq!(seen["width"], width);
    assert_eq!(
        seen["wide"], false,
        "{width} pixels: the page scrolls sideways"
    );
    seen
}

#[test]
fn the_slider_changes_what_is_shown_and_nothing_goes_wrong() {
    let bench = Bench::new();
    // Real results: levels that passed and levels that failed.
    let args = [
        "--from",
        "40",
        "--step",
        "40",
        "--warm-up",
        "0s",
        "--ramp",
        "1s",
        "--hold",
        "3s",
        "--confirm",
        "3s",
        "--grace",
        "2s",
    ];
    let results = bench.run("open", serve(slow_above(130.0)), &args);
    assert!(results.levels.len() >= 4);

    // The same runs under another name: a page that compares two.
    let other = bench.folder().join("other.json");
    let mut renamed = results.clone();
    for level in &mut renamed.levels {
        level.topology = "another".to_owned();
    }
    renamed.write(&other).unwrap();

    let html = report(&[bench.results_file(), other], bench.folder());
    // Nothing is fetched: every address in it is a place to read more, in a comment or text.
    for fetched in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!html.contains(fetched), "{fetched}");
    }

    for width in [390, 1280] {
        let seen = drive(&html, width, false, bench.folder());
        let levels = seen["seen"].as_array().unwrap();
        assert_eq!(levels.len(), 3 * results.levels.len());
        // Neighbours differ, in words and in what each chart shows.
        for pair in levels.chunks(3).collect::<Vec<_>>().windows(2) {
            for (before, after) in pair[0].iter().zip(pair[1]) {
                assert_ne!(before, after);
            }
        }
        let tabs = seen["tabs"].as_array().unwrap();
        let names: Vec<&str> = tabs.iter().filter_map(|tab| tab["name"].as_str()).collect();
        assert!(matches!(names[..], ["all, p95", _, "another"]), "{names:?}");
        for tab in tabs {
            assert_eq!(tab["pressed"], serde_json::json!([tab["name"]]));
        }
        assert_ne!(tabs[0]["ink"], tabs[1]["ink"], "the chart stayed the same");
        let shown = |words: &str| {
            (levels.iter()).any(|level| level.as_str().is_some_and(|text| text.contains(words)))
        };
        assert!(shown("Passed") && shown("Failed: "));
        assert!(
            seen["plan"].as_str().unwrap().contains("Fill in"),
            "no CPU was measured here"
        );
    }
}

/// Everything that a page can show is on the one that is published, by day and by night.
#[test]
fn the_published_results_fill_every_section() {
    let published = std::fs::read_dir(cache::workspace().join("results")).unwrap();
    let mut results: Vec<PathBuf> = published.flatten().map(|entry| entry.path()).collect();
    results.retain(|file| file.extension().is_some_and(|kind| kind == "json"));
    results.sort();
    let folder = TempDir::new("published").unwrap();
    let html = report(&results, folder.path());
    let [day, night] = [false, true].map(|is_dark| drive(&html, 1280, is_dark, folder.path()));
    assert_ne!(day["ground"], night["ground"]);
    for seen in [day, night, drive(&html, 390, false, folder.path())] {
        assert_eq!(seen["hidden"], json!([]));
        let plan = seen["plan"].as_str().unwrap();
        assert!(plan.contains("users by box"), "{plan}");
    }
}
