//! The dataset: the same users, posts and likes every time, at any scale.
//!
//! Its definition draws everything from one random stream: all users, all posts, the number of
//! likes of every post, then the likes themselves, whose times depend on the exact time of their
//! post. Because [`Random`] can skip ahead, nothing has to be remembered between those passes: the
//! likes are made by three cursors that walk the stream side by side (the posts' draws for the
//! times, the counts, the likes). Memory is a few kilobytes at any scale, and every part can be
//! produced on its own, as often as needed.

use shared::timestamp::format_ms;

use super::{
    content_hash::ContentHash,
    random::Random,
    words::{ADJECTIVES, NOUNS, OPENERS, SENTENCE_ENDS, WORDS},
};

const SEED: u32 = 42;
const DAY_MS: f64 = 86_400_000.0;
/// 2026-01-01T00:00:00Z: the newest post is a little older than this.
const END_MS: f64 = 1_767_225_600_000.0;

const DRAWS_PER_USER: u64 = 3;

const BODY_MAX_CHARS: usize = 500;
const LIKES_MAX: u32 = 800;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    pub users: u32,
    pub posts: u32,
}

impl Scale {
    /// The challenge's: 2,016,005 likes.
    pub const FULL: Self = Self {
        users: 50_000,
        posts: 500_000,
    };
    /// Large enough for a lively feed, small enough to be made while one waits for a prompt.
    pub const SMALL: Self = Self {
        users: 500,
        posts: 5_000,
    };
}

/// The content hash of the dataset at [`Scale::FULL`], as the challenge publishes it.
pub const FULL_CONTENT_SHA256: &str =
    "738d11ab3164c13177e347f75038d1e80b43c64e754544a42d1c32bd8d7bcf1d";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: u32,
    pub username: String,
    pub created_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    pub id: u32,
    pub user_id: u32,
    pub body: String,
    pub created_ms: i64,
    pub like_count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Like {
    pub user_id: u32,
    pub post_id: u32,
    pub created_ms: i64,
}

#[derive(Clone, Debug)]
pub struct Dataset {
    scale: Scale,
    /// Where in the random stream each pass begins.
    posts_start: Random,
    like_counts_start: Random,
    likes_start: Random,
    likes: u64,
}

impl Dataset {
    /// Finds where each pass begins, which takes a walk over the posts and the like counts.
    pub fn new(scale: Scale) -> Self {
        let mut random = Random::new(SEED);
        random.skip(DRAWS_PER_USER * u64::from(scale.users));
        let posts_start = random.clone();
        for i in 0..scale.posts {
            draw_post_head(&mut random, scale, i);
            skip_body(&mut random);
        }
        let like_counts_start = random.clone();
        let likes = (0..scale.posts)
            .map(|_| u64::from(draw_like_count(&mut random, scale)))
            .sum();
        Self {
            scale,
            posts_start,
            like_counts_start,
            likes_start: random,
            likes,
        }
    }

    pub fn scale(&self) -> Scale {
        self.scale
    }

    pub fn like_total(&self) -> u64 {
        self.likes
    }

    pub fn row_total(&self) -> u64 {
        u64::from(self.scale.users) + u64::from(self.scale.posts) + self.likes
    }

    /// By id.
    pub fn users(&self) -> impl Iterator<Item = User> + use<> {
        let mut random = Random::new(SEED);
        (1..=self.scale.users).map(move |id| {
            let username = draw_username(&mut random, id);
            let created_ms = END_MS - 730.0 * DAY_MS + random.next() * (365.0 * DAY_MS);
            User {
                id,
                username,
                created_ms: created_ms as i64,
            }
        })
    }

    /// The name of one user, without going through those before.
    pub fn username(&self, id: u32) -> String {
        assert!((1..=self.scale.users).contains(&id));
        let mut random = Random::new(SEED);
        random.skip(DRAWS_PER_USER * u64::from(id - 1));
        draw_username(&mut random, id)
    }

    /// By id, which is also by time.
    pub fn posts(&self) -> impl Iterator<Item = Post> + use<> {
        let scale = self.scale;
        let mut random = self.posts_start.clone();
        let mut like_counts = self.like_counts_start.clone();
        (0..scale.posts).map(move |i| {
            let (user_id, created_ms) = draw_post_head(&mut random, scale, i);
            Post {
                id: i + 1,
                user_id,
                body: draw_body(&mut random),
                created_ms: created_ms as i64,
                like_count: draw_like_count(&mut like_counts, scale),
            }
        })
    }

    /// By post and user, which is the order of the content hash and of a likes' primary key.
    pub fn likes(&self) -> Likes {
        Likes {
            scale: self.scale,
            next_post: 0,
            posts: self.posts_start.clone(),
            like_counts: self.like_counts_start.clone(),
            random: self.likes_start.clone(),
            of_post: Vec::new(),
            taken: 0,
        }
    }

    /// What a database that holds exactly this dataset hashes to.
    pub fn content_sha256(&self) -> String {
        let mut hash = ContentHash::default();
        for user in self.users() {
            hash.user(user.id.into(), &user.username, &format_ms(user.created_ms));
        }
        for post in self.posts() {
            let created_at = format_ms(post.created_ms);
            hash.post(post.id.into(), post.user_id.into(), &post.body, &created_at);
        }
        for like in self.likes() {
            let created_at = format_ms(like.created_ms);
            hash.like(like.user_id.into(), like.post_id.into(), &created_at);
        }
        hash.finish()
    }
}

pub struct Likes {
    scale: Scale,
    /// 0-based, as the posts' times are defined.
    next_post: u32,
    posts: Random,
    like_counts: Random,
    random: Random,
    /// The likes of the post before `next_post`, by user.
    of_post: Vec<Like>,
    taken: usize,
}

impl Iterator for Likes {
    type Item = Like;

    fn next(&mut self) -> Option<Like> {
        while self.taken == self.of_post.len() {
            if self.next_post == self.scale.posts {
                return None;
            }
            self.draw_likes_of_next_post();
        }
        self.taken += 1;
        Some(self.of_post[self.taken - 1])
    }
}

impl Likes {
    fn draw_likes_of_next_post(&mut self) {
        let (_, post_created_ms) = draw_post_head(&mut self.posts, self.scale, self.next_post);
        skip_body(&mut self.posts);
        self.next_post += 1;
        self.of_post.clear();
        self.taken = 0;
        for _ in 0..draw_like_count(&mut self.like_counts, self.scale) {
            let (user_id, place) = loop {
                let user_id = self.random.integer(1, self.scale.users);
                if let Err(place) = self.of_post.binary_search_by_key(&user_id, |l| l.user_id) {
                    break (user_id, place);
                }
            };
            let created_ms = post_created_ms + self.random.next() * 7.0 * DAY_MS;
            let like = Like {
                user_id,
                post_id: self.next_post,
                created_ms: created_ms as i64,
            };
            self.of_post.insert(place, like);
        }
    }
}

fn draw_username(random: &mut Random, id: u32) -> String {
    format!("{}_{}_{id}", random.pick(&ADJECTIVES), random.pick(&NOUNS))
}

/// The author and the exact time of the post with this 0-based number.
fn draw_post_head(random: &mut Random, scale: Scale, i: u32) -> (u32, f64) {
    // One year, evenly divided: 63,072 ms at full scale.
    let spacing_ms = 365.0 * DAY_MS / f64::from(scale.posts);
    // Two draws, so that users with low ids write more.
    let user_id = 1 + (f64::from(scale.users) * random.next() * random.next()) as u32;
    let created_ms =
        END_MS - 365.0 * DAY_MS + f64::from(i) * spacing_ms + random.next() * spacing_ms * 0.9;
    (user_id, created_ms)
}

fn draw_body(random: &mut Random) -> String {
    let mut body = String::with_capacity(192);
    if random.next() < 0.25 {
        body.push_str(random.pick(&OPENERS));
    }
    for _ in 0..random.integer(1, 3) {
        if !body.is_empty() {
            body.push(' ');
        }
        draw_sentence(random, &mut body);
    }
    if body.len() > BODY_MAX_CHARS {
        body.truncate(BODY_MAX_CHARS - 3);
        body.push_str("...");
    }
    body
}

fn draw_sentence(random: &mut Random, body: &mut String) {
    let words = random.integer(4, 14);
    for i in 0..words {
        let word = random.pick(&WORDS);
        if i == 0 {
            let (first, rest) = word.split_at(1);
            body.push(first.as_bytes()[0].to_ascii_uppercase().into());
            body.push_str(rest);
        } else {
            body.push(' ');
            body.push_str(word);
        }
    }
    body.push_str(random.pick(&SENTENCE_ENDS));
}

/// Moves `random` exactly as far as [`draw_body`] does.
fn skip_body(random: &mut Random) {
    if random.next() < 0.25 {
        random.skip(1);
    }
    for _ in 0..random.integer(1, 3) {
        let words = random.integer(4, 14);
        random.skip(u64::from(words) + 1);
    }
}

fn draw_like_count(random: &mut Random, scale: Scale) -> u32 {
    // One post in a hundred is popular; 3.7 over all the others.
    let mean = if random.next() < 0.01 {
        80.0
    } else {
        3.7 / 0.99
    };
    let count = (-mean * (1.0 - random.next()).ln()) as u32;
    // No user likes a post twice, so a small scale may have too few of them.
    count.min(LIKES_MAX).min(scale.users)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::HashSet;

    #[test]
    fn the_full_dataset_hashes_to_the_published_value() {
        let dataset = Dataset::new(Scale::FULL);
        assert_eq!(dataset.like_total(), 2_016_005);
        assert_eq!(dataset.content_sha256(), FULL_CONTENT_SHA256);
    }

    #[test]
    fn known_users() {
        let dataset = Dataset::new(Scale::FULL);
        let users: Vec<User> = dataset.users().collect();
        assert_eq!(users.len(), 50_000);
        assert_eq!(users[0].username, "golden_ember_1");
        assert_eq!(users[19_999].username, "tiny_willow_20000");
        assert_eq!(users[49_999].username, "sharp_walrus_50000");
        assert!(
            users
                .iter()
                .all(|user| user.username == dataset.username(user.id))
        );
    }

    #[test]
    fn the_published_responses_follow_from_it() {
        let dataset = Dataset::new(Scale::FULL);
        let mut feed: Vec<Post> = dataset.posts().skip(499_980).collect();
        feed.reverse();
        assert_json(
            &json!({ "posts": shown(&dataset, &feed) }),
            include_str!("../../tests/golden/feed.json"),
        );
        for (id, golden) in [
            (1, include_str!("../../tests/golden/post-1.json")),
            (250_000, include_str!("../../tests/golden/post-250000.json")),
            (500_000, include_str!("../../tests/golden/post-500000.json")),
        ] {
            let post = dataset.posts().nth(id - 1).unwrap();
            assert_json(&json!({ "post": shown(&dataset, &[post])[0] }), golden);
        }
    }

    fn shown(dataset: &Dataset, posts: &[Post]) -> Vec<Value> {
        let show = |post: &Post| {
            json!({
                "id": post.id,
                "body": post.body,
                "created_at": format_ms(post.created_ms),
                "author": dataset.username(post.user_id),
                "like_count": post.like_count,
            })
        };
        posts.iter().map(show).collect()
    }

    fn assert_json(found: &Value, golden: &str) {
        assert_eq!(*found, golden.parse::<Value>().unwrap());
    }

    #[test]
    fn the_published_facts_about_posts_hold() {
        let (mut shortest, mut longest, mut chars, mut newest_likes, mut unliked, mut most_liked) =
            (usize::MAX, 0, 0, 0, 0, 0);
        for post in Dataset::new(Scale::FULL).posts() {
            assert!(post.body.is_ascii());
            shortest = shortest.min(post.body.len());
            longest = longest.max(post.body.len());
            chars += post.body.len();
            unliked += u32::from(post.like_count == 0);
            most_liked = most_liked.max(post.like_count);
            newest_likes += if post.id > 499_980 {
                post.like_count
            } else {
                0
            };
        }
        assert_eq!((shortest, longest, chars * 10 / 500_000), (14, 329, 1_288));
        assert_eq!((unliked, most_liked, newest_likes), (116_142, 583, 87));
    }

    #[test]
    fn likes_come_by_post_and_user_without_repeats_and_as_counted() {
        // Three users for many posts: most draws meet a user who is already taken.
        for scale in [
            Scale::SMALL,
            Scale {
                users: 3,
                posts: 2_000,
            },
        ] {
            let dataset = Dataset::new(scale);
            let likes: Vec<Like> = dataset.likes().collect();
            assert!(likes.is_sorted_by(|a, b| (a.post_id, a.user_id) < (b.post_id, b.user_id)));
            assert!(
                likes
                    .iter()
                    .all(|like| (1..=scale.users).contains(&like.user_id))
            );
            assert_eq!(likes.len() as u64, dataset.like_total());
            let mut counts = vec![0; scale.posts as usize];
            likes
                .iter()
                .for_each(|like| counts[like.post_id as usize - 1] += 1);
            assert!(dataset.posts().map(|post| post.like_count).eq(counts));
        }
    }

    #[test]
    fn a_like_falls_within_a_week_of_its_post() {
        let dataset = Dataset::new(Scale::SMALL);
        let created: Vec<i64> = dataset.posts().map(|post| post.created_ms).collect();
        for like in dataset.likes() {
            let age_ms = like.created_ms - created[like.post_id as usize - 1];
            assert!(
                (0..=7 * 86_400_000).contains(&age_ms),
                "{like:?} is {age_ms} ms after its post"
            );
        }
    }

    #[test]
    fn posts_rise_in_time_and_user_names_are_unique() {
        let dataset = Dataset::new(Scale::SMALL);
        assert!(
            dataset
                .posts()
                .is_sorted_by(|a, b| (a.created_ms, a.id) < (b.created_ms, b.id))
        );
        let names: HashSet<String> = dataset.users().map(|user| user.username).collect();
        assert_eq!(names.len(), 500);
    }

    #[test]
    fn skipping_a_body_moves_as_far_as_writing_it() {
        let mut written = Random::new(7);
        let mut skipped = written.clone();
        for _ in 0..1_000 {
            draw_body(&mut written);
            skip_body(&mut skipped);
            assert_eq!(written.clone().next(), skipped.clone().next());
        }
    }
}
