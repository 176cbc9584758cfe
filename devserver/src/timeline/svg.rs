//! The picture as SVG: one document with its own style, for light and for dark surroundings.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::fit::{head, tail};
use super::moments::{KeyMoment, NUMBERS};
use super::row::{Row, Span};
use super::rows::{Line, Rows};
use super::symbol::{SpanKind, Symbol, Tone};

/// Width of the picture, of the names and of the margins, in pixels.
const WIDTH: f64 = 1000.0;
const NAMES: f64 = 190.0;
const MARGIN: f64 = 20.0;

/// Height of a row, in pixels.
const ROW: f64 = 18.0;

/// Width of a letter with its room, in pixels. Of several signs in one column of this width the
/// most important is drawn.
const LETTER: f64 = 9.0;

/// The number of these columns.
const COLUMNS: usize = ((WIDTH - MARGIN - NAMES) / LETTER) as usize;

/// How far a row's letters stand above its lower edge, in pixels.
const BASE: f64 = 5.0;

/// Widest name and widest line of words, in letters.
const NAME_LETTERS: usize = 22;
const LINE_LETTERS: usize = 120;

/// Most jobs and workers that are drawn, and most pieces of one row that last.
const MAX_JOBS: usize = 200;
const MAX_WORKERS: usize = 50;
const MAX_SPANS: usize = 200;

/// Light first; the differences of the dark scheme follow. The style uses no variables and no fonts
/// of its own, because not every viewer has them.
const STYLE: &str = "
.bg{fill:#fff}
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328}
.heading{font-weight:bold}
.letter{text-anchor:middle;font-weight:bold;font-size:11px;paint-order:stroke;stroke:#fff;stroke-width:3px}
.plain,.shielded{stroke:none}
.grid{stroke:#d0d7de;stroke-width:1}
.mark{stroke:#9a6700;stroke-width:1;stroke-dasharray:4 3}
.dim{fill:#59636e}.good{fill:#1a7f37}.warn{fill:#9a6700}.bad{fill:#cf222e}.note{fill:#0969da}
text.shielded{fill:#fff}
.known{fill:#d0d7de}.reserved{fill:#8ab4e8}.waiting{fill:#eac54f}.closed{fill:#ffaba8}
@media (prefers-color-scheme:dark){
.bg{fill:#0d1117}
text{fill:#e6edf3}
.grid{stroke:#30363d}
.mark{stroke:#d29922}
.dim{fill:#9198a1}.good{fill:#3fb950}.warn{fill:#d29922}.bad{fill:#ff7b72}.note{fill:#58a6ff}
.letter{stroke:#0d1117}
.plain,.shielded{stroke:none}
text.shielded{fill:#0d1117}
.known{fill:#3d444d}.reserved{fill:#27568f}.waiting{fill:#7d5a00}.closed{fill:#8e1519}
}
";

/// Draws the picture as an SVG document.
pub(super) fn draw(rows: &Rows) -> String {
    let mut sheet = Sheet::new(rows);
    sheet.words(&rows.heading, "heading");
    sheet.skip(0.5);
    sheet.moments();
    sheet.figures();
    let top = sheet.y;
    for line in rows.lines(MAX_WORKERS, MAX_JOBS) {
        match line {
            Line::Heading(heading) => sheet.words(heading, "dim"),
            Line::Row(row) => sheet.row(row, &head(&row.name, NAME_LETTERS)),
            Line::Job(row) => sheet.row(row, &tail(&row.name, NAME_LETTERS)),
            Line::More(more) => sheet.words(&more, "dim"),
        }
    }
    let lines = sheet.lines(top);
    sheet.list_of_moments();
    sheet.legend();
    sheet.finish(&lines)
}

/// The sheet that is drawn on.
struct Sheet<'a> {
    rows: &'a Rows,
    /// The upper edge of the next row.
    y: f64,
    symbols: BTreeSet<Symbol>,
    span_kinds: BTreeSet<SpanKind>,
    body: String,
}

impl<'a> Sheet<'a> {
    fn new(rows: &'a Rows) -> Self {
        Self {
            rows,
            y: MARGIN / 2.0,
            symbols: BTreeSet::new(),
            span_kinds: BTreeSet::new(),
            body: String::new(),
        }
    }

    fn x(&self, ms: f64) -> f64 {
        NAMES + self.rows.axis.fraction(ms) * (WIDTH - MARGIN - NAMES)
    }

    fn skip(&mut self, rows: f64) {
        self.y += ROW * rows;
    }

    fn put(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    fn text(&mut self, x: f64, class: &str, text: &str) {
        let y = self.y + ROW - BASE;
        self.put(&format!(
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}" xml:space="preserve">{}</text>"#,
            escape(text)
        ));
    }

    /// Draws a line of words.
    fn words(&mut self, text: &str, class: &str) {
        self.text(MARGIN / 2.0, class, &head(text, LINE_LETTERS));
        self.skip(1.0);
    }

    /// Draws the numbers of the moments; numbers that would cover each other are side by side.
    fn moments(&mut self) {
        let mut free = NAMES;
        let moments = &self.rows.moments;
        for (index, (moment, number)) in moments.iter().zip(NUMBERS.chars()).enumerate() {
            // The later ones need room as well.
            let most = WIDTH - LETTER * (moments.len() - index) as f64;
            let x = self.x(moment.ms).max(free).min(most);
            free = x + LETTER;
            let tone = if moment.is_mark { Tone::Warn } else { Tone::Note };
            self.letter(x, tone, false, &number.to_string(), &moment.text);
        }
        self.skip(1.0);
    }

    fn figures(&mut self) {
        self.text(NAMES - 30.0, "dim", self.rows.axis.unit());
        for tick in self.rows.axis.ticks(COLUMNS) {
            let x = self.x(tick.ms) + 2.0;
            if x + LETTER * tick.label.len() as f64 <= WIDTH {
                self.text(x, "dim", &tick.label);
            }
        }
        self.skip(1.2);
    }

    /// The lines from the figures to here, drawn behind all other signs.
    fn lines(&self, top: f64) -> String {
        let ticks = self.rows.axis.ticks(COLUMNS);
        let ticks = ticks.iter().map(|tick| (self.x(tick.ms), top - ROW, "grid"));
        let is_mark = |moment: &&KeyMoment| moment.is_mark;
        let marks = self.rows.moments.iter().filter(is_mark);
        let marks = marks.map(|moment| (self.x(moment.ms), top - 2.0 * ROW, "mark"));
        let mut lines = String::new();
        for (x, from, class) in ticks.chain(marks) {
            // Writing to a string cannot fail.
            let _ = writeln!(
                lines,
                r#"<line x1="{x:.1}" y1="{from:.1}" x2="{x:.1}" y2="{:.1}" class="{class}"/>"#,
                self.y
            );
        }
        lines
    }

    fn row(&mut self, row: &Row, name: &str) {
        self.text(MARGIN, "", name);
        let axis = &self.rows.axis;
        let is_wide = |span: &Span| span.kind != SpanKind::Waiting || self.x(span.to) - self.x(span.from) >= 1.0;
        let is_seen = |span: &&Span| span.is_seen(axis) && is_wide(span);
        let seen: Vec<&Span> = row.spans.iter().filter(is_seen).take(MAX_SPANS).collect();
        for span in seen {
            self.span_kinds.insert(span.kind);
            self.bar(self.x(span.from), self.x(span.to), span.kind, &span.title);
        }
        for glyph in row.strongest(axis, COLUMNS).into_iter().flatten() {
            self.symbols.insert(glyph.symbol);
            let (letter, _, tone) = glyph.symbol.look();
            let title = format!("{}, {}", axis.time(glyph.ms), glyph.title);
            self.letter(
                self.x(glyph.ms),
                tone,
                glyph.symbol.has_shield(),
                &letter.to_string(),
                &title,
            );
        }
        self.skip(1.0);
    }

    fn bar(&mut self, from: f64, to: f64, kind: SpanKind, title: &str) {
        let (above, height) = match kind {
            SpanKind::Known => (8.0, 2.0),
            SpanKind::Reserved | SpanKind::Closed => (3.0, 12.0),
            SpanKind::Waiting => (6.0, 6.0),
        };
        let y = self.y + above;
        let width = (to - from).max(1.0);
        let class = kind.class();
        self.put(&format!(
            r#"<rect x="{from:.1}" y="{y:.1}" width="{width:.1}" height="{height}" class="{class}"><title>{}</title></rect>"#,
            escape(title)
        ));
    }

    /// Draws a letter with its middle at `x`.
    fn letter(&mut self, x: f64, tone: Tone, has_shield: bool, letter: &str, title: &str) {
        let y = self.y + ROW - BASE;
        let tone = class(tone);
        let (shield, class) = if has_shield {
            let (left, top) = (x - 5.5, self.y + 2.5);
            let shield = format!(r#"<rect x="{left:.1}" y="{top:.1}" width="11" height="13" rx="2" class="{tone}"/>"#);
            (shield, "shielded")
        } else {
            (String::new(), tone)
        };
        let (title, letter) = (escape(title), escape(letter));
        self.put(&format!(
            r#"<g><title>{title}</title>{shield}<text x="{x:.1}" y="{y:.1}" class="letter {class}">{letter}</text></g>"#
        ));
    }

    fn list_of_moments(&mut self) {
        if self.rows.moments.is_empty() {
            return;
        }
        self.skip(0.5);
        for (tone, line) in self.rows.list_of_moments() {
            let class = if tone == Tone::Plain { "" } else { class(tone) };
            self.words(&line, class);
        }
    }

    /// Draws the signs that are in the picture, each with its meaning.
    fn legend(&mut self) {
        self.skip(0.5);
        let mut x = MARGIN;
        let mut told = BTreeSet::new();
        for symbol in std::mem::take(&mut self.symbols) {
            let (letters, meaning) = symbol.legend();
            if !told.insert((letters.clone(), meaning.clone())) {
                continue;
            }
            let width = LETTER * letters.chars().count() as f64;
            x = self.room(x, width, &meaning);
            self.letter(
                x + width / 2.0,
                symbol.look().2,
                symbol.has_shield(),
                &letters,
                &meaning,
            );
            x = self.meaning(x + width, &meaning);
        }
        for kind in std::mem::take(&mut self.span_kinds) {
            let (_, meaning, _) = kind.look();
            x = self.room(x, 3.0 * LETTER, meaning);
            self.bar(x, x + 3.0 * LETTER, kind, meaning);
            x = self.meaning(x + 3.0 * LETTER, meaning);
        }
        self.skip(1.0);
    }

    /// The place of a sign of this width with its meaning: here, or on the next line.
    fn room(&mut self, x: f64, width: f64, meaning: &str) -> f64 {
        let needed = width + LETTER * (meaning.chars().count() + 1) as f64;
        if x > MARGIN && x + needed > WIDTH - MARGIN {
            self.skip(1.0);
            return MARGIN;
        }
        x
    }

    fn meaning(&mut self, x: f64, meaning: &str) -> f64 {
        self.text(x + 5.0, "dim", meaning);
        x + LETTER * (meaning.chars().count() + 1) as f64
    }

    fn finish(self, lines: &str) -> String {
        let height = self.y + MARGIN / 2.0;
        let heading = escape(&self.rows.heading);
        let moments: String = self
            .rows
            .moments
            .iter()
            .map(|moment| format!(" {}: {}.", self.rows.axis.time(moment.ms), moment.text))
            .collect();
        let description = escape(&format!(
            "A row for each worker with its heartbeats, for FETCH, for faults and refusals, and for each job from its \
             fetch to its end.{moments}"
        ));
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0}" viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-labelledby="timeline-title timeline-description">
<title id="timeline-title">What the backend saw, {heading}</title>
<desc id="timeline-description">{description}</desc>
<style>{STYLE}</style>
<rect width="100%" height="100%" class="bg"/>
{lines}{}</svg>
"#,
            self.body
        )
    }
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Dim => "dim",
        Tone::Good => "good",
        Tone::Warn => "warn",
        Tone::Bad => "bad",
        Tone::Note => "note",
    }
}

/// Escapes the characters that XML reserves.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
