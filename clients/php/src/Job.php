<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * A job, as its handler gets it.
 *
 * A cancel throws `Cancelled` in the handler, wherever it is, also out of a `sleep` or another
 * wait. A handler that calls `isCancelled`, `cancelReason` or `waitCancelled` is not interrupted
 * from then on: it asks, and ends by itself.
 */
final class Job
{
    /** @internal the job whose handler runs in this process */
    public static ?self $running = null;

    /** The same in each delivery. */
    public readonly string $id;
    public readonly string $type;
    public readonly string $queue;
    /** The number of this attempt, as the backend counts: some begin with 0, others with 1. */
    public readonly ?int $attempt;
    /**
     * Whether a failure of this attempt is for good; false if the backend does not say how many
     * there are.
     */
    public readonly bool $isLastAttempt;
    /** @var list<mixed> */
    public readonly array $args;
    /** @var array<string, mixed> trace context, tenant and other things that travel with the job */
    public readonly array $meta;
    /**
     * The W3C context of ojs-init's span of the job, the parent of the handler's own spans; without
     * one that of the producer (`meta`); null if there is neither.
     */
    public readonly ?string $traceparent;
    /** When its timeout is over; null if it has none. */
    public readonly ?\DateTimeImmutable $deadline;
    /** What an earlier attempt saved with `checkpoint`; null if nothing. */
    public readonly mixed $lastCheckpoint;
    /** Shared by middleware and handler of this job alone: `$job->context['tenant'] = ...`. */
    public array $context = [];

    /** Made on first use, because it points back here: PHP frees such a cycle late. */
    private ?Resume $resume = null;
    private bool $asks = false;
    /**
     * @internal whether the handler knows that it has to end, or has ended: nothing interrupts it
     */
    public bool $isTold = false;

    /**
     * @internal
     * @param array<string, mixed> $envelope all that the backend sent
     */
    public function __construct(
        private readonly Session $session,
        public readonly array $envelope,
        private readonly mixed $checkpoint,
        mixed $traceparent = null,
    ) {
        [$attempt, $most] = [$envelope['attempt'] ?? null, $envelope['max_attempts'] ?? null];
        $this->id = $envelope['id'];
        $this->type = is_string($envelope['type'] ?? null) ? $envelope['type'] : '';
        $this->queue = is_string($envelope['queue'] ?? null) ? $envelope['queue'] : 'default';
        $this->attempt = is_int($attempt) ? $attempt : null;
        $this->isLastAttempt = is_int($attempt) && is_int($most) && $attempt >= $most;
        $this->args = is_array($envelope['args'] ?? null) ? $envelope['args'] : [];
        $this->meta = (array) ($envelope['meta'] ?? []);
        $parents = array_filter([$traceparent, $this->meta['traceparent'] ?? null], is_string(...));
        $this->traceparent = array_shift($parents);
        [$ms, $seconds] = [$envelope['timeout_ms'] ?? null, $envelope['timeout'] ?? null];
        $seconds = is_numeric($ms) ? $ms / 1000 : (is_numeric($seconds) ? $seconds : 0);
        $end = sprintf('%.6F', microtime(true) + $seconds);
        $this->deadline = $seconds > 0 ? \DateTimeImmutable::createFromFormat('U.u', $end) ?: null : null;
        $this->lastCheckpoint = $checkpoint === null ? null : $this->resume()->state;
    }

    /** The job whose handler runs now; null outside of handlers. */
    public static function current(): ?self
    {
        return self::$running;
    }

    /**
     * What says in a log whose job a line is about, named as in the log of ojs-init: for a log
     * processor of the program.
     *
     * @return array{ojs: array<string, mixed>, trace?: array<string, string>}
     */
    public function logFields(): array
    {
        $attempt = $this->attempt === null ? [] : ['attempt' => $this->attempt];
        $fields = ['ojs' => ['job_id' => $this->id, 'job_type' => $this->type, 'queue' => $this->queue] + $attempt];
        if (preg_match('/^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-/', $this->traceparent ?? '', $match) === 1) {
            $fields['trace'] = ['trace_id' => $match[1], 'span_id' => $match[2]];
        }
        return $fields;
    }

    /**
     * Report how far the job is. The backend gets the newest report once a second at most.
     *
     * @param float $fraction from 0.0 to 1.0; what is outside is clamped
     * @param mixed $data anything that is JSON
     * @throws \JsonException
     * @throws \LengthException for more than `worker.max_frame`
     */
    public function progress(float $fraction, ?string $message = null, mixed $data = null): void
    {
        // NAN stays NAN, which is an error.
        $clamped = $fraction > 1.0 ? 1.0 : ($fraction < 0.0 ? 0.0 : $fraction);
        $fields = ['progress' => $clamped, 'message' => $message, 'data' => $data];
        $this->send('progress', array_filter($fields, static fn (mixed $field): bool => $field !== null));
    }

    /**
     * Save where the next attempt goes on, which gets it as `$job->lastCheckpoint`. When this
     * returns, ojs-init has it, even if this process crashes the next moment.
     *
     * @param mixed $state anything that is JSON
     * @throws CheckpointTooLarge for more than `worker.max_frame`, or 64 KiB with steps and positions
     */
    public function checkpoint(mixed $state): void
    {
        $this->resume()->saveState($state);
    }

    /** Tell the backend now that this job is alive. ojs-init does so by itself at its interval. */
    public function heartbeat(): void
    {
        $this->send('heartbeat', []);
    }

    /**
     * Whether the job is cancelled. From the first call on the handler is not interrupted: end it
     * soon after true.
     */
    public function isCancelled(): bool
    {
        return $this->cancelReason() !== null;
    }

    /**
     * Why the job is cancelled (shutdown, timeout, cancelled or lost), or null. As `isCancelled`.
     */
    public function cancelReason(): ?string
    {
        $this->waitCancelled(0.0);
        return $this->session->cancelReason;
    }

    /**
     * Wait for a cancel, for at most this many seconds (null: without end). Returns `isCancelled`.
     */
    public function waitCancelled(?float $seconds = null): bool
    {
        $this->asks = true;
        $isCancelled = $this->wait(fn (): bool => $this->session->cancelReason !== null, $seconds);
        $this->isTold = $this->isTold || $isCancelled;
        return $isCancelled;
    }

    /** @throws Cancelled if the job is cancelled */
    public function throwIfCancelled(): void
    {
        $this->sleep(0.0);
    }

    /**
     * Wait this many seconds. In contrast to PHP's `sleep`, no other signal ends it early.
     *
     * @throws Cancelled if the job is cancelled meanwhile
     */
    public function sleep(float $seconds): void
    {
        if ($this->wait(fn (): bool => $this->session->cancelReason !== null, max(0.0, $seconds))) {
            $this->isTold = true;
            throw new Cancelled($this->session->cancelReason);
        }
    }

    /**
     * Whether the worker is being shut down. The job may go on until it is cancelled: see
     * `remaining`.
     */
    public function isStopping(): bool
    {
        return $this->waitStopping(0.0);
    }

    /**
     * Wait for a shutdown, for at most this many seconds (null: without end). Returns `isStopping`.
     */
    public function waitStopping(?float $seconds = null): bool
    {
        $isOver = fn (): bool => $this->session->isStopping || $this->session->cancelReason !== null;
        $this->wait($isOver, $seconds);
        return $this->session->isStopping;
    }

    /**
     * Seconds until the job is cancelled, while the worker is being shut down; null before, or if
     * that is unknown.
     */
    public function remaining(): ?float
    {
        $this->isStopping();
        return $this->session->remaining();
    }

    /**
     * Go through rows, each once over all attempts: `foreach ($job->iterate($rows) as $row)`.
     *
     * The position is saved every 5 seconds and before the job is given back; a later attempt goes
     * on behind it.
     *
     * @param iterable<mixed>|callable(mixed): iterable<mixed> $rows the rows, in the same order in
     *        each attempt; or a function that gets the position (null at first) and returns the
     *        rows behind it
     * @param ?callable(mixed): mixed $key what identifies a row; default: its number, from 0
     * @return \Generator<mixed, mixed>
     * @throws StepsChanged if the row at the saved position does not come any more
     */
    public function iterate(iterable|callable $rows, ?callable $key = null): \Generator
    {
        return $this->resume()->iterate($rows, $key);
    }

    /**
     * Do a part of the work once over all attempts. A finished step returns the result that was
     * saved.
     *
     * @param string $name unique in the job; the order of names never changes
     * @param callable(mixed ...$args): mixed $function returns a small result that is JSON
     * @throws StepsChanged if finished steps come in another order than before
     * @throws CheckpointTooLarge
     */
    public function step(string $name, callable $function, mixed ...$args): mixed
    {
        return $this->resume()->step($name, $function, $args);
    }

    private function resume(): Resume
    {
        return $this->resume ??= new Resume($this, $this->checkpoint);
    }

    /**
     * @internal
     * @param array<string, mixed> $fields
     */
    public function send(string $type, array $fields): void
    {
        $frame = Json::encode(['type' => $type, 'job_id' => $this->id] + $fields);
        [$size, $most] = [strlen($frame), $this->session->maxFrame];
        // ojs-init closes the connection after three frames that are too long.
        if ($size > $most) {
            $message = "the frame of a $type has $size bytes, and ojs-init takes $most at most (worker.max_frame)";
            throw $type === 'checkpoint' ? new CheckpointTooLarge($message) : new \LengthException($message);
        }
        $this->inLibrary(fn () => $this->session->send($frame));
    }

    /** @param \Closure(): bool $condition */
    private function wait(\Closure $condition, ?float $seconds): bool
    {
        $this->inLibrary(fn () => $this->session->waitUntil($condition, $seconds));
        return $condition();
    }

    private function inLibrary(\Closure $call): void
    {
        $this->session->enter();
        try {
            $call();
        } finally {
            $this->session->leave();
        }
    }

    /**
     * Ends the handler between two rows or steps if less time is left than this.
     *
     * @internal
     * @throws Cancelled
     */
    public function endIfLessIsLeft(float $seconds): void
    {
        $this->throwIfCancelled();
        $left = $this->session->remaining();
        if ($left !== null && $left < $seconds) {
            $this->isTold = true;
            throw new Cancelled('shutdown', 'resumes at its checkpoint');
        }
    }

    /** @internal @throws Cancelled if the handler has to be interrupted for a cancel */
    public function interrupt(): void
    {
        if ($this->session->cancelReason !== null && !$this->isTold && !$this->asks) {
            $this->isTold = true;
            throw new Cancelled($this->session->cancelReason);
        }
    }

    /**
     * @internal
     * @throws Cancelled if the handler returned and does not know that something interrupted it
     */
    public function finish(): void
    {
        $this->asks = false;
        $this->inLibrary(static fn () => null);
        // From here on the work is done, and a cancel that comes now is too late.
        $this->isTold = true;
    }

    /** @internal for an answer after which the job may come again */
    public function saveBeforeEnd(): void
    {
        $this->resume?->saveBeforeEnd();
    }
}
