//! The waits of a queue for another, as arrows between spans.

use std::collections::HashMap;

use millstream::TraceSpan;

/// A wait: `after` started after the end of `before`, which ran on another queue.
pub(super) struct Wait<'a> {
    pub(super) before: &'a TraceSpan,
    pub(super) after: &'a TraceSpan,
}

/// Returns the waits between the spans. A wait for a task that has no span is a wait for the last earlier task of its
/// queue, since a queue's tasks end in order. A wait without such a task is left out.
pub(super) fn waits<'a>(spans: &[&'a TraceSpan]) -> Vec<Wait<'a>> {
    let mut queues: HashMap<u32, Vec<&TraceSpan>> = HashMap::new();
    for span in spans {
        queues.entry(span.queue).or_default().push(span);
    }
    for queue in queues.values_mut() {
        queue.sort_by_key(|span| span.cursor);
    }
    let awaited = |queue: u32, cursor: u64| {
        let queue = queues.get(&queue)?;
        let behind = queue.partition_point(|span| span.cursor <= cursor);
        queue.get(behind.checked_sub(1)?).copied()
    };
    let mut waits = Vec::new();
    for after in spans {
        for wait in &after.waits {
            if let Some(before) = awaited(wait.queue, wait.cursor) {
                waits.push(Wait { before, after });
            }
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use millstream::TraceWait;

    use super::super::span;
    use super::*;

    fn task(queue: u32, cursor: u64, waits: &[(u32, u64)]) -> TraceSpan {
        let waits = waits.iter().map(|(queue, cursor)| TraceWait {
            queue: *queue,
            cursor: *cursor,
        });
        TraceSpan {
            cursor,
            waits: waits.collect(),
            ..span("k", 0, queue, 10 * cursor, 10 * cursor + 5)
        }
    }

    #[test]
    fn wait_is_for_the_awaited_task_or_the_last_one_before_it() {
        let spans = [
            task(0, 1, &[]),
            task(0, 4, &[]),
            task(1, 5, &[(0, 4)]),
            task(1, 6, &[(0, 3)]),
            // Nothing of queue 2, and nothing as early on queue 0.
            task(1, 7, &[(2, 9), (0, 0)]),
        ];
        let spans: Vec<_> = spans.iter().collect();
        let waits = waits(&spans);
        let pairs = waits
            .iter()
            .map(|wait| (wait.before.cursor, wait.after.cursor));
        assert_eq!(pairs.collect::<Vec<_>>(), [(4, 5), (1, 6)]);
    }
}
