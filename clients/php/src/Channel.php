<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function max;
use function min;
use function strlen;

/**
 * What a job's process hears from who gave it the job, and says to it.
 *
 * @internal
 */
abstract class Channel
{
    /** Why the job that runs now is cancelled; null: it is not. */
    public ?string $cancelReason = null;
    public bool $isStopping = false;
    /** By Clock: when what is left is cancelled. */
    public ?float $stopsAt = null;
    /** What ojs-init has told: running, quiet or terminate. */
    public string $state = 'running';
    /** The longest frame that ojs-init takes, in bytes. */
    public int $maxFrame = 4_194_304;
    /** Seconds of one wait at most: a signal that comes just before a wait does not end it. */
    protected const LONGEST_WAIT = 1.0;

    /** @param string $kind progress or heartbeat */
    abstract public function send(string $kind, string $frame): void;

    /** Returns when ojs-init has it. */
    abstract public function checkpoint(string $frame): void;

    /** Take in what has come, without waiting. */
    abstract public function poll(): void;

    /** Wait until something comes, at most so many seconds. */
    abstract public function wait(float $seconds): void;

    /** Ask for the end of the worker. */
    abstract public function stop(): void;

    /**
     * A frame that ojs-init will not throw away.
     *
     * @throws \LengthException
     */
    public function fitting(string $frame): string
    {
        if (strlen($frame) > $this->maxFrame) {
            throw new \LengthException(strlen($frame) . " bytes are more than ojs-init takes at once ({$this->maxFrame})");
        }
        return $frame;
    }

    public function remaining(): ?float
    {
        return $this->isStopping && $this->stopsAt !== null ? max(0.0, $this->stopsAt - Clock::now()) : null;
    }

    /** Wait until the condition holds, at most so many seconds (null: without end). */
    public function waitUntil(\Closure $condition, ?float $seconds): void
    {
        $end = $seconds === null ? INF : Clock::now() + $seconds;
        $this->poll();
        while (!$condition()) {
            $left = $end - Clock::now();
            if ($left <= 0) {
                return;
            }
            $this->wait(min($left, self::LONGEST_WAIT));
            $this->poll();
        }
    }
}
