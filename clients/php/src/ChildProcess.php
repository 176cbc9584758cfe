<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function file_get_contents;
use function pcntl_wexitstatus;
use function pcntl_wifsignaled;
use function pcntl_wtermsig;
use function posix_kill;
use function preg_match;

/**
 * One process that does jobs, as its parent sees it.
 *
 * @internal
 */
final class ChildProcess
{
    /** It may have a job. */
    public bool $isConnected = false;
    /** And ojs-init knows that it takes jobs. */
    public bool $isReady = false;
    /** It has done enough: it leaves once its successor is there. */
    public bool $isOld = false;
    /** It takes no more jobs and ends after the one it has. */
    public bool $isLeaving = false;
    private float $remindAt = INF;
    private float $remindAfter = 0.0;
    public bool $isKilled = false;
    /** As far as it says: see Limits::isTold. */
    public int $jobsDone = 0;
    public readonly float $startedAt;
    private ?int $memory = null;
    private float $memoryAt = 0.0;
    /** As waitpid tells it; null as long as it lives. */
    public ?int $status = null;

    public function __construct(public readonly int $pid, public readonly LineStream $lines)
    {
        $this->startedAt = Clock::now();
    }

    public function age(): float
    {
        return Clock::now() - $this->startedAt;
    }

    /** Have it end after the job that it has. @param string $word "Q" or "H", as ProcessChannel knows them */
    public function leave(string $word = 'Q'): void
    {
        $this->isLeaving = true;
        $this->lines->write("$word\n");
    }

    /** Have its job cancelled, and have it end. @param string $word "S" or "L", as ProcessChannel knows them */
    public function cut(string $word): void
    {
        $this->isLeaving = true;
        $this->lines->write("$word\n");
        $this->remindAfter = 0.1;
        $this->remindAt = Clock::now() + $this->remindAfter;
        posix_kill($this->pid, SIGURG);
    }

    /** A signal that comes just before a sleep does not end it: so it comes again, at pauses that grow. */
    public function remind(): void
    {
        if (Clock::now() >= $this->remindAt) {
            $this->remindAfter *= 2;
            $this->remindAt = Clock::now() + $this->remindAfter;
            posix_kill($this->pid, SIGURG);
        }
    }

    public function kill(): void
    {
        $this->isKilled = true;
        posix_kill($this->pid, SIGKILL);
    }

    /** Bytes of memory that it has now, those that it shares with its parent included; null: not known. */
    public function memory(): ?int
    {
        // In kB, whatever size the pages of this system have.
        $text = @file_get_contents("/proc/{$this->pid}/status");
        return $text !== false && preg_match('/^VmRSS:\s*(\d+) kB$/m', $text, $match) === 1 ? (int) $match[1] * 1024 : null;
    }

    /** The same, looked at ten times a second at most. */
    public function recentMemory(): ?int
    {
        if (Clock::now() >= $this->memoryAt + 0.1) {
            $this->memoryAt = Clock::now();
            $this->memory = $this->memory();
        }
        return $this->memory;
    }

    /** How it ended, for a person. */
    public function ending(): string
    {
        $status = (int) $this->status;
        return pcntl_wifsignaled($status)
            ? 'was ended by signal ' . pcntl_wtermsig($status)
            : 'ended with status ' . pcntl_wexitstatus($status);
    }
}
