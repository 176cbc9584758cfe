//! Just enough of a terminal to see what stands on it: 80 columns and 24 lines unless it is
//! resized. Anything else than text and the few sequences that the view needs is a failure, and so
//! is a character beyond the last column.

/// The letters of a screen, by place.
pub struct Grid {
    columns: usize,
    cells: Vec<Vec<char>>,
    line: usize,
    column: usize,
    /// Bytes that are a part of something.
    pending: String,
}

impl Grid {
    pub fn new(columns: usize, lines: usize) -> Self {
        Self {
            columns,
            cells: vec![vec![' '; columns]; lines],
            line: 0,
            column: 0,
            pending: String::new(),
        }
    }

    /// The text of the screen, without blanks at the ends of lines and below.
    pub fn text(&self) -> String {
        let lines: Vec<String> = self.cells.iter().map(|line| line.iter().collect()).collect();
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        lines.join("\n").trim_end().to_owned()
    }

    /// Where the cursor is.
    pub fn cursor(&self) -> (usize, usize) {
        (self.line, self.column)
    }

    pub fn show(&mut self, text: &str) {
        for character in text.chars() {
            self.pending.push(character);
            if self.pending.starts_with('\x1b') {
                let is_whole = self.pending.len() > 2 && character.is_ascii_alphabetic();
                if is_whole {
                    let sequence = std::mem::take(&mut self.pending);
                    self.obey(&sequence);
                }
            } else {
                self.pending.clear();
                self.put(character);
            }
        }
    }

    fn put(&mut self, character: char) {
        match character {
            '\r' => self.column = 0,
            '\n' if self.line + 1 < self.cells.len() => self.line += 1,
            '\n' => {
                self.cells.remove(0);
                self.cells.push(vec![' '; self.columns]);
            }
            character => {
                assert!(!character.is_control(), "{character:?}");
                assert!(self.column < self.columns, "beyond the last column: {}", self.text());
                self.cells[self.line][self.column] = character;
                self.column += 1;
            }
        }
    }

    fn obey(&mut self, sequence: &str) {
        match sequence {
            "\x1b[H" => (self.line, self.column) = (0, 0),
            "\x1b[2J" => self.cells.iter_mut().for_each(|line| line.fill(' ')),
            "\x1b[K" => self.cells[self.line][self.column..].fill(' '),
            "\x1b[J" => {
                self.cells[self.line][self.column..].fill(' ');
                self.cells[self.line + 1..].iter_mut().for_each(|line| line.fill(' '));
            }
            colour if colour.ends_with('m') => {}
            other => panic!("{other:?}"),
        }
    }
}
