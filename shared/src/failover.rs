//! Which of several equal servers to ask: the first that is not known to fail.

/// What is known of each server. The first is preferred; the others stand in for it.
#[derive(Debug)]
pub struct Failover {
    servers: Vec<Server>,
    /// A server that failed is left alone for this long. Then one request tries it, and the others
    /// go on avoiding it until that one succeeds.
    rest_ms: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Server {
    /// Left alone until then. Zero: it is well as far as anybody knows.
    avoid_until_ms: u64,
}

impl Failover {
    pub fn new(server_count: usize, rest_ms: u64) -> Failover {
        Failover {
            servers: vec![Server::default(); server_count],
            rest_ms,
        }
    }

    /// The servers in the order in which a request that may be repeated should try them: all of
    /// them, since one that failed a moment ago is better than none. A failed one whose rest is
    /// over comes where it belongs, for this one caller.
    pub fn order_for_read(&mut self, now_ms: u64) -> Vec<usize> {
        let (mut order, mut avoided) = (Vec::new(), Vec::new());
        for (index, server) in self.servers.iter_mut().enumerate() {
            if server.avoid_until_ms == 0 {
                order.push(index);
            } else if server.avoid_until_ms <= now_ms
                || server.avoid_until_ms > now_ms.saturating_add(self.rest_ms)
            {
                server.avoid_until_ms = now_ms.saturating_add(self.rest_ms);
                order.push(index);
            } else {
                avoided.push(index);
            }
        }
        order.append(&mut avoided);
        order
    }

    /// The one server for a request that must not be repeated. It is no probe: a server that
    /// failed is asked only when all did, and then the one whose rest is over first.
    pub fn one_for_write(&self) -> Option<usize> {
        let by_rest = |&(_, server): &(usize, &Server)| server.avoid_until_ms;
        self.servers
            .iter()
            .enumerate()
            .min_by_key(by_rest)
            .map(|(index, _)| index)
    }

    pub fn succeeded(&mut self, server: usize) {
        self.servers[server].avoid_until_ms = 0;
    }

    pub fn failed(&mut self, server: usize, now_ms: u64) {
        // Never zero, which means well.
        self.servers[server].avoid_until_ms = now_ms.saturating_add(self.rest_ms).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_preferred_while_it_is_well() {
        let mut failover = Failover::new(3, 1_000);
        assert_eq!(failover.order_for_read(0), [0, 1, 2]);
        assert_eq!(failover.one_for_write(), Some(0));
    }

    #[test]
    fn one_that_failed_comes_last_until_one_reader_tries_it_again() {
        let mut failover = Failover::new(2, 1_000);
        failover.failed(0, 500);
        assert_eq!(failover.order_for_read(1_499), [1, 0]);
        assert_eq!(failover.order_for_read(1_500), [0, 1]);
        assert_eq!(
            failover.order_for_read(1_501),
            [1, 0],
            "one probe at a time"
        );
        failover.succeeded(0);
        assert_eq!(failover.order_for_read(1_502), [0, 1]);
    }

    #[test]
    fn a_write_never_probes() {
        let mut failover = Failover::new(2, 1_000);
        failover.failed(0, 500);
        assert_eq!(failover.one_for_write(), Some(1));
        failover.failed(1, 400);
        assert_eq!(failover.one_for_write(), Some(1), "the longest at rest");
        failover.succeeded(0);
        assert_eq!(failover.one_for_write(), Some(0));
    }

    #[test]
    fn a_clock_that_jumps_back_does_not_bar_a_server_for_long() {
        let mut failover = Failover::new(2, 1_000);
        failover.failed(0, 50_000_000);
        assert_eq!(failover.order_for_read(10), [0, 1]);
    }
}
