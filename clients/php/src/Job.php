<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function is_array;
use function is_float;
use function is_int;
use function is_nan;
use function is_numeric;
use function is_string;
use function max;
use function microtime;
use function min;
use function sprintf;

/**
 * A job, as its handler gets it.
 *
 * The handler has its process for itself. What ojs-init says meanwhile is read when a signal tells of it, and in these
 * methods.
 */
final class Job
{
    /** Its id; the same in each delivery. */
    public readonly string $id;
    /** What kind of work it is. */
    public readonly string $type;
    /** The queue that it came from. */
    public readonly string $queue;
    /** The number of this attempt, as the backend counts. */
    public readonly ?int $attempt;
    /** @var list<mixed> its arguments */
    public readonly array $args;
    /** @var array<string, mixed> its metadata */
    public readonly array $meta;
    /** When its timeout will be over; null if it has none. */
    public readonly ?\DateTimeImmutable $deadline;
    /** What an earlier attempt saved with `checkpoint`; null if nothing. */
    public readonly mixed $lastCheckpoint;

    /** What middleware and the handler share about this job alone: `$job->context['tenant'] = ...`. */
    public array $context = [];

    /** Made when it is asked for: it points back here, and such a circle has to wait for PHP's collector of garbage. */
    private ?Resume $resume = null;

    /**
     * @internal
     * @param array<string, mixed> $envelope
     */
    public function __construct(
        private readonly Channel $channel,
        /** @var array<string, mixed> all of what the backend sent; whole numbers are exact, others are floats */
        public readonly array $envelope,
        private readonly mixed $checkpoint,
    ) {
        $this->id = $envelope['id'];
        $this->type = $envelope['type'];
        $this->queue = is_string($envelope['queue'] ?? null) ? $envelope['queue'] : 'default';
        $this->attempt = is_int($envelope['attempt'] ?? null) ? $envelope['attempt'] : null;
        $this->args = is_array($envelope['args'] ?? null) ? $envelope['args'] : [];
        $this->meta = (array) ($envelope['meta'] ?? []);
        $this->deadline = self::deadlineOf($envelope);
        $this->lastCheckpoint = $checkpoint === null ? null : $this->resume()->userState();
    }

    private function resume(): Resume
    {
        return $this->resume ??= new Resume($this, $this->checkpoint);
    }

    /**
     * Whether the backend tries the job again; false if that is unknown.
     *
     * @internal
     */
    public function hasMoreAttempts(): bool
    {
        $most = $this->envelope['max_attempts'] ?? null;
        return $this->attempt !== null && is_int($most) && $this->attempt < $most;
    }

    /** @param array<string, mixed> $envelope */
    private static function deadlineOf(array $envelope): ?\DateTimeImmutable
    {
        $ms = $envelope['timeout_ms'] ?? null;
        if ($ms === null && is_numeric($envelope['timeout'] ?? null)) {
            $ms = $envelope['timeout'] * 1000;
        }
        if (!is_int($ms) && !is_float($ms) || $ms <= 0 || $ms > 1e14) {
            return null;
        }
        $at = \DateTimeImmutable::createFromFormat('U.u', sprintf('%.6F', microtime(true) + $ms / 1000));
        return $at === false ? null : $at;
    }

    /**
     * Say how far it is, from 0.0 to 1.0. At most one a second reaches the backend, the newest wins. Waits for nothing.
     *
     * @param mixed $data anything that is JSON
     * @throws \LengthException when it is longer than ojs-init takes at once
     */
    public function progress(float $fraction, ?string $message = null, mixed $data = null): void
    {
        if (is_nan($fraction)) {
            throw new \InvalidArgumentException('progress is a number from 0 to 1, not NAN');
        }
        $text = $message === null ? null : Text::clean($message, Answer::MAX_MESSAGE);
        $fields = ['progress' => min(1.0, max(0.0, $fraction)), 'message' => $text];
        $this->channel->send('progress', $this->channel->fitting(Frame::about('progress', $this->id, $fields, 'data', $data)));
    }

    /**
     * Save where the next attempt shall go on; it gets it as $job->lastCheckpoint. When this returns, ojs-init has it
     * and will deliver it to the backend even if this process crashes.
     *
     * @param mixed $state anything that is JSON
     * @throws \LengthException when it is longer than ojs-init takes at once
     * @throws Stalled when ojs-init has not read for 10 seconds
     */
    public function checkpoint(mixed $state): void
    {
        $this->resume()->saveUserState($state);
    }

    /** Tell the backend now that this job is alive. ojs-init does that by itself at its interval. */
    public function heartbeat(): void
    {
        $this->channel->send('heartbeat', Frame::about('heartbeat', $this->id));
    }

    /** Whether nobody waits for the result any more: return, or throw, soon. */
    public function isCancelled(): bool
    {
        return $this->cancelReason() !== null;
    }

    /** Why it is cancelled: shutdown, timeout, cancelled or lost; null as long as it is not. */
    public function cancelReason(): ?string
    {
        if ($this->channel->cancelReason === null) {
            $this->channel->poll();
        }
        return $this->channel->cancelReason;
    }

    /**
     * End the handler here if the job is cancelled; the right answer is given.
     *
     * @throws Cancelled
     */
    public function throwIfCancelled(): void
    {
        $reason = $this->cancelReason();
        if ($reason !== null) {
            throw new Cancelled($reason);
        }
    }

    /** Wait until it is cancelled, but not longer than so many seconds (null: without end). Says whether it is. */
    public function waitCancelled(?float $seconds = null): bool
    {
        $this->channel->waitUntil(fn (): bool => $this->channel->cancelReason !== null, $seconds);
        return $this->channel->cancelReason !== null;
    }

    /** Whether the worker is being shut down. The job may go on until it is cancelled: see `remaining`. */
    public function isStopping(): bool
    {
        $this->channel->poll();
        return $this->channel->isStopping;
    }

    /** Wait until the worker is being shut down or the job is cancelled, at most so many seconds. Says `isStopping`. */
    public function waitStopping(?float $seconds = null): bool
    {
        $is_over = fn (): bool => $this->channel->isStopping || $this->channel->cancelReason !== null;
        $this->channel->waitUntil($is_over, $seconds);
        return $this->channel->isStopping;
    }

    /** Seconds until what is left is cancelled, while the worker is being shut down; null before. */
    public function remaining(): ?float
    {
        $this->channel->poll();
        return $this->channel->remaining();
    }

    /** Sleep so many seconds. A cancel ends it: then it says false. */
    public function sleep(float $seconds): bool
    {
        return !$this->waitCancelled(max(0.0, $seconds));
    }

    /**
     * Go through rows, once each over all attempts: `foreach ($job->iterate($rows) as $row)`.
     *
     * The position is saved every 5 seconds and before the job is given back, and a later attempt goes on behind it.
     * While the worker is shut down and no time is left for another row, the job is given back at its position.
     *
     * @param iterable<mixed>|callable(mixed): iterable<mixed> $rows the rows, in the same order in each attempt; or a
     *        function that gets the position (null at first) and gives the rows behind it
     * @param ?callable(mixed): mixed $key what tells a row from the others: its position. Default: its number, from 0
     * @return \Generator<mixed, mixed>
     * @throws StepsChanged when the row at the saved position is not there any more
     */
    public function iterate(iterable|callable $rows, ?callable $key = null): \Generator
    {
        return $this->resume()->iterate($rows, $key);
    }

    /**
     * Do a part of the work once over all attempts, and give its result; a finished step gives the one that was saved.
     *
     * @param string $name its name: no two steps of a job have the same, and their order never changes
     * @param callable(mixed ...$args): mixed $function what it does; its result is small, and JSON
     * @throws StepsChanged when finished steps come in another order than they did
     */
    public function step(string $name, callable $function, mixed ...$args): mixed
    {
        return $this->resume()->step($name, $function, $args);
    }

    /** @internal what a call of the handler begins with */
    public function mark(): ?array
    {
        return $this->resume?->mark();
    }

    /** @internal the handler is called again */
    public function rewind(?array $mark): void
    {
        $this->resume?->rewind($mark);
    }

    /** @internal what ended the handler between two rows or steps */
    public function endedBetween(): ?\Throwable
    {
        return $this->resume?->endedBy();
    }

    /** @internal for an answer after which the job may come again */
    public function saveBeforeEnd(Logger $log): void
    {
        $this->resume?->saveBeforeEnd($log);
    }

    /** @internal */
    public function saveCheckpoint(mixed $state): void
    {
        $this->channel->checkpoint($this->channel->fitting(Frame::about('checkpoint', $this->id, [], 'state', $state, true)));
    }
}
