//! Runs of built programs: their output, and golden scripts.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    pub name: &'a str,
    pub path: &'a str,
}

#[derive(Clone, Debug)]
pub struct Ran {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

impl Program<'_> {
    /// Runs the program in a directory, with this on its standard input.
    ///
    /// # Panics
    /// It cannot be started, is killed, or writes something other than text.
    pub fn run<T: AsRef<OsStr>>(self, directory: &Path, args: &[T], stdin: &[u8]) -> Ran {
        let mut child = Command::new(self.path)
            .args(args)
            .current_dir(directory)
            .env_remove("CLICOLOR_FORCE")
            .env_remove("COLUMNS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        if let Some(mut input) = child.stdin.take() {
            // A program that does not read its input can exit before it is written.
            let _ = input.write_all(stdin);
        }
        let output = child.wait_with_output().expect("the program ends");
        let text = |bytes| String::from_utf8(bytes).expect("the output is text");
        Ran {
            stdout: text(output.stdout),
            stderr: text(output.stderr),
            code: output.status.code().expect("the program was killed"),
        }
    }

    /// Runs the golden scripts of a directory, and compares the output.
    ///
    /// A script has comments (`# ...`), files (`== name`, then their content) and commands (`$ PROGRAM ... [< file]`), each
    /// followed by its standard output, its standard error with `! ` before each line, and its exit code if it is not 0.
    /// `BERTH_UPDATE_GOLDEN=1` updates them.
    ///
    /// # Panics
    /// The output is another one.
    pub fn assert_scripts(self, directory: &Path) {
        let entries = fs::read_dir(directory).expect("a directory of scripts").flatten();
        let mut scripts: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        scripts.sort();
        assert!(!scripts.is_empty());
        let mut wrong = String::new();
        for path in scripts {
            let expected = fs::read_to_string(&path).expect("a script is text");
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            wrong.extend(difference(&path, &replayed(self, &name, &expected)));
        }
        assert!(wrong.is_empty(), "{wrong}");
    }
}

/// A directory for one test, removed if the test passes.
#[derive(Debug)]
pub struct TempDir(pub PathBuf);

impl TempDir {
    /// Creates it.
    ///
    /// # Panics
    /// It cannot be created.
    pub fn new(name: &str) -> TempDir {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("berth-test-{process}-{number}-{name}"));
        fs::create_dir_all(&path).expect("a temporary directory");
        TempDir(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file, and returns its path.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap_or(&path)).expect("a folder of a temporary directory");
        fs::write(&path, content).expect("a file of a temporary directory");
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("files are kept in {}", self.0.display());
        } else {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// The first difference between a text and its golden file, if any; `BERTH_UPDATE_GOLDEN=1` updates the file instead.
///
/// # Panics
/// The file cannot be updated.
pub fn difference(path: &Path, got: &str) -> Option<String> {
    let expected = fs::read_to_string(path).unwrap_or_default();
    if got == expected {
        return None;
    }
    if std::env::var_os("BERTH_UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap_or(path)).expect("the directory of a golden file");
        fs::write(path, got).expect("a golden file");
        return None;
    }
    let i = got.lines().zip(expected.lines()).take_while(|(g, e)| g == e).count();
    let line = |text: &str| text.lines().nth(i).unwrap_or("(end)").to_owned();
    Some(format!(
        "{}:{}\n  expected: {}\n  got:      {}\n",
        path.display(),
        i + 1,
        line(&expected),
        line(got)
    ))
}

/// The script with the current output of its commands.
fn replayed(program: Program<'_>, name: &str, script: &str) -> String {
    let scratch = TempDir::new(name);
    let command_mark = format!("$ {} ", program.name);
    let mut got = String::new();
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        got.push_str(line);
        got.push('\n');
        if let Some(file) = line.strip_prefix("== ") {
            let mut content = String::new();
            while let Some(line) = lines.next_if(|l| !begins_block(l)) {
                content.push_str(line);
                content.push('\n');
            }
            scratch.write(file, &content);
            got.push_str(&content);
        } else if let Some(command) = line.strip_prefix(command_mark.as_str()) {
            while lines.next_if(|l| !begins_block(l)).is_some() {}
            got.push_str(&output(program, &scratch.0, command));
            if lines.peek().is_some() {
                got.push('\n');
            }
        }
    }
    got
}

fn begins_block(line: &str) -> bool {
    ["# ", "== ", "$ "].iter().any(|mark| line.starts_with(mark))
}

fn output(program: Program<'_>, directory: &Path, command: &str) -> String {
    let (command, stdin) = match command.split_once(" < ") {
        Some((command, file)) => (command, fs::read(directory.join(file)).expect("a file of the script")),
        None => (command, Vec::new()),
    };
    let args: Vec<_> = command.split_whitespace().collect();
    let ran = program.run(directory, &args, &stdin);
    let mut output = ran.stdout;
    for line in ran.stderr.lines() {
        output.push_str(&format!("! {line}\n"));
    }
    if ran.code != 0 {
        output.push_str(&format!("[exit {}]\n", ran.code));
    }
    output
}
