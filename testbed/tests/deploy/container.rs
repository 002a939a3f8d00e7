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

/// The compiler is pinned where it is not the user's own choice, and to the same version.
#[test]
fn image_and_challenge_are_built_with_one_compiler() {
    let read = |name: &str| fs::read_to_string(workspace().join(name)).unwrap();
    let build = read("deploy/challenge/build.sh");
    let pinned = build.lines().find_map(|line| line.strip_prefix("rust="));
    let (release, _) = pinned.unwrap().rsplit_once('.').unwrap();
    let image = read("deploy/container/Dockerfile");
    assert!(
        image.contains(&format!("FROM rust:{release}-slim-")),
        "{release}"
    );
}
