//! The programs of docs/recipes.md, as far as they can be read without their frameworks: the
//! interpreters parse them, and what stands in a client's page as well is the same here.

use std::fs;
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../docs/recipes.md");

const LARAVEL: &str = include_str!("../../clients/php/src/Laravel/README.md");

/// The blocks of the page in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let rests = PAGE.split(&fence).skip(1);
    rests.map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Parses each block of a language, as a file with this name.
fn parses(language: &str, file: &str, count: usize, command: &[&str]) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recipes-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    let found = blocks(language);
    assert_eq!(found.len(), count, "{language}");
    for block in found {
        let path = place.join(file);
        fs::write(&path, block).unwrap();
        let mut parse = Command::new(command[0]);
        let output = parse.args(&command[1..]).arg(&path).output().unwrap();
        assert!(
            output.status.success(),
            "{block}\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn the_programs_of_the_recipes_parse() {
    let ast = "import ast, sys; ast.parse(open(sys.argv[1]).read())";
    parses("python", "jobs.py", 2, &["python3", "-c", ast]);
    parses("ruby", "worker.rb", 3, &["ruby", "-c"]);
    parses("js", "worker.mjs", 3, &["node", "--check"]);
    // The first block of PHP is two places of an application, which PHP reads as text.
    assert!(blocks("php")[1].starts_with("<?php // worker.php\n"));
    parses("php", "worker.php", 2, &["php", "-l"]);
}

#[test]
fn the_recipe_for_laravel_has_each_line_of_the_client_s_page() {
    let without_comment = |line: &str| line.split("   //").next().unwrap().trim_end().to_owned();
    let shown: Vec<String> = blocks("php").concat().lines().map(without_comment).collect();
    let code = LARAVEL
        .split("```php\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    let lines: Vec<&str> = code
        .flat_map(str::lines)
        .filter(|line| !line.starts_with("//"))
        .collect();
    assert!(lines.len() > 15, "{lines:?}");
    for line in lines {
        assert!(shown.contains(&without_comment(line)), "{line}");
    }
}
