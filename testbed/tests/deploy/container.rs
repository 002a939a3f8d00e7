use std::fs;

use testbed::cache::workspace;

/// What git keeps out of the repository, secrets among it, stays out of an image.
#[test]
fn an_image_is_built_from_no_file_that_git_ignores() {
    let read = |name: &str| fs::read_to_string(workspace().join(name)).unwrap();
    let (git, container) = (read(".gitignore"), read(".dockerignore"));
    let left_out: Vec<&str> = container.lines().collect();
    for line in git.lines().chain(["/.git"]) {
        assert!(left_out.contains(&line), "{line} is not in .dockerignore");
    }
}
