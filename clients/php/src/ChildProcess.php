<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * One process that does jobs, as its parent sees it.
 *
 * @internal
 */
final class ChildProcess
{
    public bool $isReady = false;
    /** It has done enough: it leaves once its successor is there. */
    public bool $isOld = false;
    /** It gets no more jobs and ends after the one it has. */
    public bool $isLeaving = false;
    public ?string $jobId = null;
    public ?string $cancelReason = null;
    /** By Clock: when it is killed if it has not answered its cancel. */
    public ?float $killAt = null;
    private float $remindAt = INF;
    private float $remindAfter = 0.1;
    public bool $isKilled = false;
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

    public function isIdle(): bool
    {
        return $this->isReady && $this->jobId === null && !$this->isLeaving && $this->status === null;
    }

    public function give(string $jobId, string $frame): void
    {
        $this->jobId = $jobId;
        $this->cancelReason = null;
        $this->lines->write('J' . $frame . "\n");
    }

    /** Tell its handler to stop. The signal ends a sleep; the news is in the pipe. */
    public function cancel(string $reason, ?float $killAfter): void
    {
        if ($this->cancelReason === null) {
            $this->cancelReason = $reason;
            $this->killAt = $killAfter === null ? null : Clock::now() + $killAfter;
            $this->remindAfter = 0.1;
            $this->remindAt = Clock::now() + $this->remindAfter;
            $this->lines->write("C $reason\n");
            posix_kill($this->pid, SIGURG);
        }
    }

    /** A signal that comes just before a sleep does not end it: so it comes again, at pauses that grow. */
    public function remind(): void
    {
        if ($this->cancelReason !== null && Clock::now() >= $this->remindAt) {
            $this->remindAfter *= 2;
            $this->remindAt = Clock::now() + $this->remindAfter;
            posix_kill($this->pid, SIGURG);
        }
    }

    public function leave(): void
    {
        $this->isLeaving = true;
        $this->lines->write("Q\n");
    }

    public function kill(): void
    {
        $this->isKilled = true;
        posix_kill($this->pid, SIGKILL);
    }

    /** Bytes of memory that it has now, those that it shares with its parent included; null: not known. */
    public function memory(): ?int
    {
        $text = @file_get_contents("/proc/{$this->pid}/statm");
        return $text === false ? null : (int) (explode(' ', $text)[1] ?? 0) * 4096;
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
