<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * What a job needs of ojs-init: a way to send frames, and what ojs-init has sent about the job.
 *
 * Between `enter` and `leave` the library works; otherwise the program's code runs, and a signal
 * may interrupt it.
 *
 * @internal
 */
abstract class Session
{
    /**
     * One wait is at most this long, because a signal that comes just before a wait does not end
     * it.
     */
    private const LONGEST_WAIT = 1.0;

    /** The job whose handler runs. */
    public ?Job $job = null;
    /** Why that job is cancelled; null if it is not. */
    public ?string $cancelReason = null;
    public bool $isStopping = false;
    /** The longest frame that ojs-init takes, in bytes without the line break. */
    public int $maxFrame = PHP_INT_MAX;
    /** When jobs that are left are cancelled, in seconds by `now`. */
    public ?float $stopsAt = null;

    abstract public function send(string $frame): void;

    /** Read what ojs-init has sent, without waiting. */
    abstract public function poll(): void;

    /** Wait until something comes, for at most this many seconds. */
    abstract protected function wait(float $seconds): void;

    public function enter(): void
    {}

    /** @throws Cancelled if the job is cancelled and its handler does not know yet */
    public function leave(): void
    {
        $this->job?->interrupt();
    }

    /** Wait until the condition holds, for at most this many seconds (null: without end). */
    public function waitUntil(\Closure $condition, ?float $seconds): void
    {
        $end = $seconds === null ? INF : self::now() + $seconds;
        $this->poll();
        while (!$condition() && ($left = $end - self::now()) > 0) {
            $this->wait(min($left, self::LONGEST_WAIT));
            $this->poll();
        }
    }

    /**
     * Seconds until jobs that are left are cancelled; null if the worker is not being shut down.
     */
    public function remaining(): ?float
    {
        return $this->isStopping && $this->stopsAt !== null ? max(0.0, $this->stopsAt - self::now()) : null;
    }

    /** Seconds of a clock that never jumps. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
